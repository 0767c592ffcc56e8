import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { connectorRules, connectorSettings, watchServersFile } from '@holdfast/connector';
import { gatewaySettings, servingRules } from '@holdfast/gateway';
import { knownVariables, readSettings } from '@holdfast/ops';
import { workerRules, workerSettings } from '@holdfast/engine';
import { chart, containerOf, goldenSetups, services, type Container, type ServiceName } from './chart.ts';
import { environmentOf } from './pod-environment.ts';
import { settingsOf } from './written.ts';

const set = goldenSetups();

const containers: (readonly [setup: string, service: ServiceName, container: Container])[] = [...set].flatMap(
  ([setup, objects]) =>
    services.flatMap((service) => {
      const container = containerOf(objects, service);
      return container === undefined ? [] : [[setup, service, container] as const];
    }),
);

describe('variables', () => {
  test.each(containers)(
    '%s, %s: the service reads each of them, and each appears once',
    (_, service, { env }) => {
      const names = env!.map(({ name }) => name);
      const ours = names.filter((name) => name.startsWith('HOLDFAST_'));
      const read = settingsOf[service].map(({ variable }) => variable);
      expect(ours.filter((name) => !read.includes(name))).toEqual([]);
      expect(ours.filter((name) => !knownVariables.includes(name))).toEqual([]);
      expect(new Set(names).size).toBe(names.length);
    },
  );

  test.each(containers)('%s, %s: the service accepts their values', (setup, service, container) => {
    expect(() => read(service, seen(setup, container))).not.toThrow();
  });
});

describe('upstream servers', () => {
  const files = [...set].flatMap(([setup, objects]) =>
    objects
      .filter(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name.endsWith('-servers'))
      .map(({ data }) => [setup, (data as Record<string, string>)['servers.yaml']!] as const),
  );

  test.each(files)('%s: a connector accepts each of them', async (_, text) => {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-servers-'));
    const path = join(folder, 'servers.yaml');
    writeFileSync(path, text);
    const limits = {
      stdioEnabled: true,
      legacySse: false,
      isProduction: true,
      approvalMode: 'guarded',
    } as const;
    let problems: readonly unknown[] | undefined;
    const stop = await watchServersFile(path, limits, ({ diagnostics }) => void (problems = diagnostics));
    stop();
    rmSync(folder, { recursive: true });
    expect(problems).toEqual([]);
  });
});

/** Keys are inline, because the folders of the pod do not exist here. */
function seen(setup: string, container: Container): Record<string, string> {
  const values = environmentOf(container, {
    objects: set.get(setup)!,
    secret: (_, key) => held[key] ?? 'held-in-a-secret-of-the-cluster',
    ip: '10.1.2.3',
  });
  for (const name of ['HOLDFAST_API_KEYS', 'HOLDFAST_ADMIN_KEYS']) {
    if (values[name]?.startsWith('dir:')) values[name] = JSON.stringify({ [name]: name.toLowerCase() });
  }
  return values;
}

const held: Readonly<Record<string, string>> = {
  url: 'postgres://db/holdfast',
  'listen-url': 'postgres://db/holdfast',
  'run-id-key': 'ab'.repeat(32),
  previous: 'cd'.repeat(32),
};

function read(service: ServiceName, env: Record<string, string>): unknown {
  if (service === 'gateway') return readSettings(gatewaySettings, env, servingRules);
  if (service === 'worker') return readSettings(workerSettings, env, workerRules);
  return readSettings(connectorSettings, env, connectorRules);
}

test('every setting of a service can be set, as its own value or under settings', () => {
  const everything = new Map<ServiceName, Set<string>>(services.map((service) => [service, new Set()]));
  for (const [, service, { env }] of containers)
    for (const { name } of env!) everything.get(service)!.add(name);
  const open = services.flatMap((service) => {
    const named = settingsOf[service].map(({ variable }) => variable);
    const settable = Object.keys(schemaSettings(service));
    return named.filter((name) => !everything.get(service)!.has(name) && !settable.includes(name));
  });
  // The ops address of the pod follows HOLDFAST_HOST, and no set-up here has its own module.
  expect(open.filter((name) => !['HOLDFAST_OPS_HOST', 'HOLDFAST_AUTH_MODULE'].includes(name))).toEqual([]);
});

function schemaSettings(service: ServiceName): object {
  return (
    JSON.parse(readFileSync(join(chart, 'values.schema.json'), 'utf8')) as {
      $defs: Record<string, { properties: object }>;
    }
  ).$defs[`${service}Settings`]!.properties;
}
