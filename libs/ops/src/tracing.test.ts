import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, describe, expect, test } from '@jest/globals';
import { OtlpCollector } from '../../../test/servers/index.ts';
import { tracesAreWanted } from './tracing.js';

const otlp = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' };

test.each<[Record<string, string>, boolean]>([
  [{}, false],
  [otlp, true],
  [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://collector:4318/v1/traces' }, true],
  [{ OTEL_TRACES_EXPORTER: 'otlp' }, true],
  [{ OTEL_CONFIG_FILE: '/etc/otel.yaml' }, true],
  [{ ...otlp, OTEL_TRACES_EXPORTER: 'none' }, false],
  [{ ...otlp, OTEL_SDK_DISABLED: 'TRUE' }, false],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: ' ' }, false],
  [{ OTEL_SERVICE_NAME: 'x', OTEL_RESOURCE_ATTRIBUTES: 'k8s.pod.name=y' }, false],
])('with %j traces are exported: %s', (env, isWanted) => {
  expect(tracesAreWanted(env)).toBe(isWanted);
});

/** A process of its own that traces one step and stops, because the SDK is set up once in a process. */
async function run(
  env: Record<string, string>,
): Promise<{ loadsSdk: boolean; log: Record<string, unknown>[] }> {
  const dist = (name: string): string => join(import.meta.dirname, '..', '..', name, 'dist', 'index.js');
  const script = `
    import { registerHooks } from 'node:module';
    let loadsSdk = false;
    registerHooks({
      load(url, context, next) {
        loadsSdk ||= url.includes('@opentelemetry/sdk');
        return next(url, context);
      },
    });
    const { startTracing } = await import('${join(import.meta.dirname, '..', 'dist', 'tracing.js')}');
    const { startSpan, endSpan } = await import('${dist('run')}');
    const log = [];
    const write = (fields, msg) => log.push({ ...fields, msg });
    const tracing = await startTracing(process.env, {
      name: 'worker', version: '1.2.3', log: { debug: write, info: write, warn: write, error: write },
    });
    endSpan(startSpan('step', { kind: 'internal', parent: undefined }));
    await tracing.stop();
    await tracing.stop();
    console.log(JSON.stringify({ loadsSdk, log }));
    process.exit(0);`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script], {
    env,
  });
  return JSON.parse(stdout.trim().split('\n').at(-1)!) as Awaited<ReturnType<typeof run>>;
}

describe('a process', () => {
  const closing: (() => Promise<unknown>)[] = [];
  afterAll(async () => {
    for (const close of closing) await close();
  });

  async function collector(): Promise<OtlpCollector> {
    const started = await OtlpCollector.start();
    closing.push(() => started.close());
    return started;
  }

  test('that nobody asks for traces loads nothing of the SDK', async () => {
    expect(await run({})).toEqual({ loadsSdk: false, log: [] });
  });

  test('sends what is left when it stops, under the name of its service', async () => {
    const { spans, bodies, env } = await collector();
    const { loadsSdk, log } = await run({ ...env, OTEL_BSP_SCHEDULE_DELAY: '60000' });
    expect(loadsSdk).toBe(true);
    expect(log).toEqual([{ msg: 'traces are exported' }]);
    expect(spans).toMatchObject([{ service: 'holdfast-worker', name: 'step' }]);
    expect(bodies.join()).not.toContain('process.command');
  });

  test.each([[{ OTEL_SERVICE_NAME: 'ours' }], [{ OTEL_RESOURCE_ATTRIBUTES: 'service.name=ours,team=a' }]])(
    'is named as its operator says by %j',
    async (given) => {
      const { spans, env } = await collector();
      await run({ ...env, ...given });
      expect(spans).toMatchObject([{ service: 'ours' }]);
    },
  );

  test('whose collector is not there, or never answers, says so or stops all the same', async () => {
    const refused = await run({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' });
    const hanging = createServer(() => {});
    await new Promise<void>((resolve) => hanging.listen(0, '127.0.0.1', resolve));
    closing.push(() => {
      hanging.closeAllConnections();
      return new Promise((resolve) => hanging.close(resolve));
    });
    const { port } = hanging.address() as AddressInfo;
    const hung = await run({ OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}` });
    for (const { log } of [refused, hung]) expect(log[0]).toEqual({ msg: 'traces are exported' });
  });
});
