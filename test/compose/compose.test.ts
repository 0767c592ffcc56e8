import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { connectorRules, connectorSettings } from '@holdfast/connector';
import { gatewaySettings, servingRules } from '@holdfast/gateway';
import { knownVariables, readSettings } from '@holdfast/ops';
import { workerRules, workerSettings } from '@holdfast/engine';
import { documentedCalls } from './documented-call.ts';

interface Service {
  readonly image: string;
  readonly build?: { readonly context: string; readonly dockerfile: string; readonly target: string };
  readonly environment?: Readonly<Record<string, string>>;
  readonly volumes?: readonly string[];
  readonly ports?: readonly string[];
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly healthcheck?: { readonly test: readonly string[] };
}

const root = join(import.meta.dirname, '../..');
// The parser of the servers file; the root has an older version for another tool.
const { parse } = createRequire(join(root, 'libs/connector/package.json'))('yaml') as {
  parse(text: string, options?: { merge: boolean }): unknown;
};
const text = readFileSync(join(root, 'docker-compose.yml'), 'utf8');
const { services, volumes } = parse(text, { merge: true }) as {
  services: Record<string, Service>;
  volumes: object;
};
const each = Object.entries(services);
const ours = each.filter(([, { build }]) => build !== undefined);
const dockerfile = readFileSync(join(root, 'deploy/Dockerfile'), 'utf8');

/** Substitutes variables as Compose does. */
const filledIn = (value: string): string => value.replace(/\$\{\w+:-([^}]*)\}/g, '$1');

test('the file has two of each Holdfast service, and every documented service', () => {
  expect(Object.keys(services).sort()).toEqual(
    'connector-1 connector-2 everything gateway-1 gateway-2 grafana jaeger otel-collector postgres prometheus proxy valkey worker-1 worker-2'.split(
      ' ',
    ),
  );
});

describe('a Holdfast service', () => {
  test.each(ours)('%s is built from a target of the Dockerfile', (_, { build, image }) => {
    expect(build).toMatchObject({ context: '.', dockerfile: 'deploy/Dockerfile' });
    expect(dockerfile).toMatch(new RegExp(`^FROM runtime AS ${build!.target}$`, 'm'));
    expect(image).toBe(`holdfast-${build!.target}`);
  });

  test.each(ours)('%s has only known variables', (_, { environment }) => {
    const unknown = Object.keys(environment!).filter(
      (name) => !knownVariables.includes(name) && !/^OTEL_[A-Z_]+$/.test(name),
    );
    expect(unknown).toEqual([]);
  });

  test.each(ours)('%s accepts their values', (_, { build, environment }) => {
    const env = Object.fromEntries(
      Object.entries(environment!).map(([name, value]) => [name, filledIn(value)]),
    );
    // The image sets this variable.
    const all = { HOLDFAST_HOST: '0.0.0.0', ...env };
    const read = {
      gateway: () => readSettings(gatewaySettings, all, servingRules),
      worker: () => readSettings(workerSettings, all, workerRules),
      connector: () => readSettings(connectorSettings, all, connectorRules),
    }[build!.target]!;
    expect(read).not.toThrow();
  });

  test('workers and connectors share a token, and all share a store', () => {
    const values = (name: string): Set<string | undefined> =>
      new Set(ours.map(([, { environment }]) => environment![name]));
    expect(values('HOLDFAST_STORE').size).toBe(1);
    expect([...values('HOLDFAST_CONNECTOR_TOKEN')].filter((token) => token !== undefined)).toHaveLength(1);
  });
});

test.each(each)('%s has a healthcheck, or a comment with the reason', (name, { build, healthcheck }) => {
  // The images of Holdfast contain theirs.
  if (build !== undefined || healthcheck !== undefined) return;
  expect(text).toMatch(new RegExp(`# No healthcheck: .{20,}\n  ${name}:`));
});

test.each(each)('%s mounts only existing files', (_, { volumes: mounts = [] }) => {
  for (const [from] of mounts.map((mount) => mount.split(':'))) {
    if (from!.startsWith('./')) expect(existsSync(join(root, from!))).toBe(true);
    else expect(volumes).toHaveProperty(from!);
  }
});

test.each(each)('%s listens only on loopback', (_, { ports = [] }) => {
  expect(ports.filter((port) => !/^127\.0\.0\.1:\d+:\d+$/.test(port))).toEqual([]);
});

test.each(each)('%s waits for services with a healthcheck to be healthy', (_, { depends_on = {} }) => {
  for (const [name, { condition }] of Object.entries(depends_on)) {
    expect(condition).toBe('service_healthy');
    expect(services[name]!.healthcheck ?? services[name]!.build).toBeDefined();
  }
});

test.each(each)('%s runs a pinned version', (_, { image, build }) => {
  if (build === undefined) expect(image).toMatch(/:v?\d/);
});

test('connectors are healthy only after every upstream is connected, which the documented call needs', () => {
  const { servers } = JSON.parse(readFileSync(join(root, 'deploy/compose/servers.json'), 'utf8')) as {
    servers: readonly { id: string; required?: boolean }[];
  };
  expect(servers.filter(({ required }) => required !== true)).toEqual([]);
});

test('Prometheus scrapes every Holdfast service, with the rules', () => {
  const { scrape_configs, rule_files } = parse(
    readFileSync(join(root, 'deploy/compose/prometheus.yaml'), 'utf8'),
  ) as {
    scrape_configs: readonly { static_configs: readonly { targets: readonly string[] }[] }[];
    rule_files: readonly string[];
  };
  expect([...scrape_configs[0]!.static_configs[0]!.targets].sort()).toEqual(
    ours.map(([name]) => `${name}:9464`).sort(),
  );
  const mounted = services['prometheus']!.volumes!.map((mount) => mount.split(':')[1]);
  expect(mounted).toEqual(expect.arrayContaining([...rule_files]));
});

test('the documented calls name the published port and the key', () => {
  const calls = documentedCalls();
  expect(calls.map(({ expected }) => expected)).toEqual([
    '"content":[{"type":"text","text":"refunded o-17"}]',
    '"structuredContent":{"temperature":36',
  ]);
  const port = services['proxy']!.ports![0]!.split(':')[1];
  const keys = JSON.parse(services['gateway-1']!.environment!['HOLDFAST_API_KEYS']!) as Record<
    string,
    string
  >;
  for (const { command } of calls) {
    expect(command).toContain(`http://127.0.0.1:${port}/mcp`);
    expect(command).toContain(`Bearer ${keys['desk']}`);
  }
});
