import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from '@jest/globals';

interface Stage {
  readonly name: string;
  readonly from: string;
  readonly steps: readonly { readonly word: string; readonly rest: string }[];
}

const root = join(import.meta.dirname, '../..');
const file = readFileSync(join(root, 'deploy/Dockerfile'), 'utf8');
const stages = stagesOf(file);
const services = ['gateway', 'worker', 'connector'];

function stagesOf(text: string): Stage[] {
  const lines = text
    .replace(/^\s*#.*\n/gm, '')
    .replace(/\\\n\s*/g, '')
    .split('\n')
    .filter((line) => line.trim() !== '');
  const found: { name: string; from: string; steps: { word: string; rest: string }[] }[] = [];
  for (const line of lines) {
    const [, word, rest] = /^([A-Z]+) (.+)$/.exec(line) ?? [];
    if (word === undefined) throw new Error(`no instruction: ${line}`);
    const [, from, name] = word === 'FROM' ? (/^(\S+) AS (\S+)$/.exec(rest!) ?? []) : [];
    if (word === 'FROM') found.push({ name: name!, from: from!, steps: [] });
    else found.at(-1)!.steps.push({ word, rest: rest! });
  }
  return found;
}

/** The steps of a stage after those of the stages it is made from; what a later one sets, wins. */
function stepsOf(name: string): Stage['steps'] {
  const stage = stages.find((one) => one.name === name);
  return stage === undefined ? [] : [...stepsOf(stage.from), ...stage.steps];
}

const last = (name: string, word: string): string | undefined =>
  stepsOf(name).findLast((step) => step.word === word)?.rest;

/** Runs the health check of a service and says what it exits with. */
async function health(service: string, port: number): Promise<number | null> {
  const [, command] = /CMD (\[.*\])$/.exec(last(service, 'HEALTHCHECK')!)!;
  const [program, ...args] = JSON.parse(command!) as [string, ...string[]];
  const child = spawn(program, args, {
    env: { ...process.env, HOLDFAST_OPS_PORT: String(port) },
    stdio: 'ignore',
  });
  const [code] = (await once(child, 'exit')) as [number | null];
  return code;
}

test('everything that is copied from the checkout exists, and .dockerignore lets it through', () => {
  const sources = stages.flatMap(({ steps }) =>
    steps
      .filter(({ word, rest }) => word === 'COPY' && !rest.startsWith('--from='))
      .flatMap(({ rest }) => rest.split(' ').slice(0, -1)),
  );
  expect(sources.filter((source) => !existsSync(join(root, source)))).toEqual([]);
  const letThrough = readFileSync(join(root, '.dockerignore'), 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('!'))
    .map((line) => line.slice(1));
  expect(sources.filter((source) => !letThrough.includes(source))).toEqual([]);
});

test('the three services are built, and the example tools', () => {
  const { rest } = stepsOf('build').find((step) => step.rest.includes('tsc -b'))!;
  for (const project of [...services.map((service) => `apps/${service}`), 'examples/orders'])
    expect(rest.split(' ')).toContain(project);
});

describe.each(services)('the image of the %s', (service) => {
  test('runs it by tini, as a user that is not root, and is told to stop by SIGTERM', () => {
    expect(JSON.parse(last(service, 'ENTRYPOINT')!)).toEqual(['/usr/bin/tini', '--']);
    expect(JSON.parse(last(service, 'CMD')!)).toEqual(['node', `apps/${service}/dist/main.js`]);
    expect(last(service, 'USER')).toBe('1000:1000');
    expect(last(service, 'STOPSIGNAL')).toBe('SIGTERM');
  });

  test('G38: serves production without a chart', () => {
    expect(last(service, 'ENV')!.split(' ')).toContain('HOLDFAST_PROFILE=production');
  });

  test.each([
    [200, 0],
    [503, 1],
  ])('asks it whether it is ready: %i ends with %i', async (status, code) => {
    const asked: (string | undefined)[] = [];
    const server = createServer(({ url }, response) => {
      asked.push(url);
      response.writeHead(status).end('{}');
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { port } = server.address() as AddressInfo;
    expect(await health(service, port)).toBe(code);
    expect(asked).toEqual(['/readyz']);
    await promisify(server.close.bind(server))();
    expect(await health(service, port)).toBe(1);
  });

  test('is made of the slim Node 24, without npm, and of nothing but its own files', () => {
    expect(stages.find(({ name }) => name === 'runtime')!.from).toBe('node:24-bookworm-slim');
    const run = stepsOf(service).filter(({ word }) => word === 'RUN');
    expect(run).toHaveLength(1);
    expect(run[0]!.rest).toMatch(/rm -rf .*\/usr\/local\/lib\/node_modules .*\/usr\/local\/bin\/npm/);
    const copied = stepsOf(service).filter(({ word }) => word === 'COPY');
    expect(copied.map(({ rest }) => rest)).toEqual([`--from=${service}-files /files ./`]);
  });
});

test('a certificate authority reaches every npm as a secret, and need not be there', () => {
  const npm = stages
    .flatMap(({ steps }) => steps)
    .filter(({ word, rest }) => word === 'RUN' && /npm ci|collect\.sh/.test(rest));
  expect(npm).toHaveLength(4);
  for (const { rest } of npm) {
    expect(rest).toContain('--mount=type=secret,id=npmca,required=false');
    expect(rest).toContain('export NODE_EXTRA_CA_CERTS=/run/secrets/npmca');
  }
  expect(file).not.toMatch(/^# *syntax=/m);
});

test('G51: an example adds npx to the image of the connector, and runs as its user', () => {
  const example = readFileSync(join(root, 'deploy/connector-with-npx/Dockerfile'), 'utf8');
  expect(example).toMatch(/^FROM holdfast-connector:/m);
  expect(example).toMatch(/^COPY --from=node \S*node_modules\/npm \S+$/m);
  expect(example).toMatch(/\/usr\/local\/bin\/npx$/m);
  expect(example.trimEnd()).toMatch(/\nUSER 1000:1000$/);
});
