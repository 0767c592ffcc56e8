import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { callErrorNames } from '@holdfast/run';
import { openHost } from '../system/host.ts';
import { scratchFolder, Service, stopEverything, until, type App, type Env } from '../system/service.ts';
import { startUpstreamProcess, type UpstreamProcess } from '../servers/upstream-process.ts';
import {
  chart,
  containerOf,
  objectsOf,
  readYaml,
  render,
  root,
  setups,
  type KubernetesObject,
  type ServiceName,
} from './chart.ts';
import { parse } from './foreign.ts';
import { environmentOf } from './pod-environment.ts';
import { queryOf } from './promql.ts';

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: { readonly summary: string; readonly runbook_url: string };
}

const { groups } = readYaml(join(root, 'deploy/prometheus/rules.yaml')) as {
  groups: readonly { readonly rules: readonly Rule[] }[];
};
const rules = groups.flatMap((group) => group.rules);

interface Panel {
  readonly title: string;
  readonly type: string;
  readonly targets?: readonly { readonly expr: string }[];
}

const { panels } = JSON.parse(readFileSync(join(root, 'deploy/grafana/holdfast.json'), 'utf8')) as {
  panels: readonly Panel[];
};

const keda = objectsOf(render('--values', setups.get('keda')!));
const hpa = objectsOf(render('--values', setups.get('hpa')!));

/** Every query of rules, dashboard and autoscalers, by location. */
const queries: (readonly [place: string, expr: string])[] = [
  ...rules.map(({ alert, expr }) => [alert, expr] as const),
  ...panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr }) => [`panel ${title}`, expr] as const),
  ),
  ...triggersOf(keda).map((query) => ['ScaledObject', query] as const),
];

function triggersOf(objects: readonly KubernetesObject[]): string[] {
  const { spec } = objects.find(({ kind }) => kind === 'ScaledObject')!;
  return (spec!['triggers'] as { metadata: { query: string } }[]).map(({ metadata }) => metadata.query);
}

const folder = scratchFolder();
let upstream: UpstreamProcess;
/** The output of `helm test`. */
let said = '';
/** Labels on /metrics of one of each service after some calls, with their observed values. */
const seen = new Map<string, Set<string>>();
const names = new Set<string>();

beforeAll(async () => {
  upstream = await startUpstreamProcess();
  const objects = objectsOf(render('--values', setups.get('evaluation')!));
  const servers = join(folder.path, 'servers.yaml');
  writeFileSync(
    servers,
    JSON.stringify({ servers: [{ id: 'up', name: 'Up', transport: 'http', url: upstream.url }] }),
  );
  const keys = join(folder.path, 'api-keys');
  mkdirSync(keys);
  writeFileSync(join(keys, 'desk'), 'desk-for-evaluation-only');

  /** A service with the variables of its container, except for paths and addresses of this machine. */
  const start = (service: ServiceName & App, change: Env): Service =>
    new Service(service, {
      ...environmentOf(containerOf(objects, service)!, { objects, secret: () => '', ip: '127.0.0.1' }),
      HOLDFAST_STORE: `sqlite:${folder.path}/holdfast.db`,
      HOLDFAST_HOST: '127.0.0.1',
      HOLDFAST_OPS_PORT: '0',
      ...change,
    });
  const gateway = start('gateway', {
    HOLDFAST_PORT: '0',
    HOLDFAST_API_KEYS: `dir:${keys}`,
    HOLDFAST_ADMIN_KEYS: '{"ops":"ops-for-evaluation-only"}',
  });
  const worker = start('worker', {});
  const connector = start('connector', {
    HOLDFAST_CONNECTOR_BIND: '127.0.0.1:0',
    HOLDFAST_SERVERS_FILE: servers,
    HOLDFAST_PROFILE: 'development',
  });
  await gateway.printed(/"msg":"gateway listens"/);
  await worker.printed(/"msg":"worker serves"/);
  await connector.printed(/"msg":"connector serves"/);
  const { port } = gateway.log.find(({ msg }) => msg === 'gateway listens')!;
  const base = `http://127.0.0.1:${String(port)}`;

  const host = await openHost('modern', `${base}/mcp`, 'desk-for-evaluation-only');
  await host.call('lookup_order', { order_id: 'o-1' });
  await host.call('boom', { msg: 'x' }).catch(() => {});

  const metricsOf = async ({ log }: Service): Promise<string> => {
    const { opsPort } = log.find((event) => event['opsPort'] !== undefined)!;
    return (await fetch(`http://127.0.0.1:${String(opsPort)}/metrics`)).text();
  };
  await until(async () =>
    (await metricsOf(connector)).includes('holdfast_upstream_connected{server="up"} 1'),
  );
  const page = (await Promise.all([gateway, worker, connector].map(metricsOf))).join('\n');
  const { stdout, stderr } = spawnSync(process.execPath, [join(chart, 'files/test.mjs')], {
    encoding: 'utf8',
    env: { BASE: base, MCP_PATH: '/mcp', AUTH: 'keys', KEYS: keys },
  });
  said = stdout + stderr;
  for (const [, name] of page.matchAll(/^# TYPE (\S+)/gm)) names.add(name!);
  for (const [, inside] of page.matchAll(/^holdfast_\w+\{(.*)\} /gm)) {
    for (const [, label, value] of inside!.matchAll(/(\w+)="([^"]*)"/g)) {
      seen.set(label!, (seen.get(label!) ?? new Set()).add(value!));
    }
  }
});

afterAll(async () => {
  await stopEverything();
  await upstream.stop();
  folder.remove();
});

/** The series of a histogram derive their names from it. */
function familyOf(series: string): string {
  const family = series.replace(/_(bucket|sum|count)$/, '');
  return names.has(series) ? series : family;
}

describe('rules, panels and autoscalers', () => {
  test.each(queries)('%s queries metrics that live services report: %s', (_, expr) => {
    const { metrics, labels, matchers } = queryOf(expr);
    expect(metrics.length).toBeGreaterThan(0);
    expect(metrics.map(familyOf).filter((name) => !names.has(name))).toEqual([]);
    // Prometheus adds these labels when it scrapes.
    const given = ['namespace', 'instance'];
    expect(labels.filter((label) => !seen.has(label) && !given.includes(label))).toEqual([]);
    for (const { label, values } of matchers.filter((matcher) => !given.includes(matcher.label))) {
      const known = label === 'error' ? [...callErrorNames, 'none'] : [...seen.get(label)!];
      const outcomes =
        label === 'outcome' ? ['ran', 'refused', 'not_sent', 'unknown', 'pending', 'left'] : [];
      const states = label === 'state' ? ['succeeded', 'failed', 'cancelled'] : [];
      expect(values.filter((value) => ![...known, ...outcomes, ...states].includes(value))).toEqual([]);
    }
  });

  test('the services report the external and custom metrics of the HPAs', () => {
    const wanted = JSON.stringify(hpa.filter(({ kind }) => kind === 'HorizontalPodAutoscaler'));
    const metrics = [...wanted.matchAll(/"name":"(holdfast_\w+)"/g)].map(([, name]) => name!);
    expect(metrics.sort()).toEqual([
      'holdfast_calls_waiting',
      'holdfast_queue_age_seconds',
      'holdfast_runs_queued',
    ]);
    expect(metrics.filter((name) => !names.has(name))).toEqual([]);
  });

  test('no query sums store-wide metrics', () => {
    const wrong = queries.filter(([, expr]) =>
      /sum[^(]*\(\s*holdfast_(runs_queued|queue_age_seconds|sessions)\b/.test(expr),
    );
    expect(wrong).toEqual([]);
  });

  test('the check detects an invalid query and an unknown metric', () => {
    expect(() => queryOf('sum(rate(holdfast_calls_waiting[5m])')).toThrow('invalid PromQL');
    expect(names.has(familyOf(queryOf('max(holdfast_run_queued)').metrics[0]!))).toBe(false);
  });

  test('every panel except the rows has a query', () => {
    const empty = panels.filter(({ type, targets = [] }) => type !== 'row' && targets.length === 0);
    expect(empty.map(({ title }) => title)).toEqual([]);
  });
});

describe('alerts', () => {
  test('have one page each, with its meaning, checks and remedies', () => {
    const pages = readdirSync(join(root, 'docs/runbooks')).filter((name) => name !== 'README.md');
    expect(pages.sort()).toEqual(rules.map(({ alert }) => `${alert}.md`).sort());
    for (const { alert, annotations } of rules) {
      expect(annotations.runbook_url).toBe(`docs/runbooks/${alert}.md`);
      const text = readFileSync(join(root, annotations.runbook_url), 'utf8');
      for (const heading of [`# ${alert}`, '## What it means', '## How to look', '## What to do']) {
        expect({ alert, text: text.split('\n') }).toMatchObject({ text: expect.arrayContaining([heading]) });
      }
    }
  });

  test('have pages that name only metrics of live services', () => {
    for (const name of readdirSync(join(root, 'docs/runbooks'))) {
      const text = readFileSync(join(root, 'docs/runbooks', name), 'utf8');
      const named = [...text.matchAll(/\b(holdfast_[a-z_]+|nodejs_[a-z0-9_]+)\b/g)].map(
        ([, metric]) => metric!,
      );
      expect({ name, unknown: named.filter((metric) => !names.has(familyOf(metric))) }).toEqual({
        name,
        unknown: [],
      });
    }
  });

  test('keep their Prometheus templates in the chart, without the disabled alerts', () => {
    const { spec } = objectsOf(render('--values', setups.get('postgres')!)).find(
      ({ kind }) => kind === 'PrometheusRule',
    )!;
    const there = (spec!['groups'] as { rules: Rule[] }[]).flatMap((group) => group.rules);
    expect(there.map(({ alert }) => alert)).toEqual(
      rules.map(({ alert }) => alert).filter((alert) => alert !== 'HoldfastSessionsMany'),
    );
    const stalled = there.find(({ alert }) => alert === 'HoldfastQueueStalled')!;
    expect(stalled.annotations.summary).toContain('{{ $value | humanizeDuration }}');
    expect(stalled.annotations.runbook_url).toBe(
      'https://git.example/holdfast/blob/main/docs/runbooks/HoldfastQueueStalled.md',
    );
  });
});

test('the ConfigMap contains the dashboard of deploy', () => {
  const map = objectsOf(render('--values', setups.get('postgres')!)).find(
    ({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === 'holdfast-dashboard',
  )!;
  expect(parse(map.data!['holdfast.json']!)).toEqual(
    JSON.parse(readFileSync(join(root, 'deploy/grafana/holdfast.json'), 'utf8')),
  );
});

describe('helm test', () => {
  test('lists tools with a key, like a host', () => {
    expect(said).toMatch(/^gateways answer; [1-9]\d* tools are listed\n$/);
  });

  test('runs the script of the chart', () => {
    expect(existsSync(join(chart, 'files/test.mjs'))).toBe(true);
    const pod = objectsOf(render('--values', setups.get('evaluation')!)).find(({ kind }) => kind === 'Pod')!;
    const [container] = pod.spec!['containers'] as { args: string[] }[];
    expect(container!.args.slice(0, 3)).toEqual(['node', '--input-type=module', '--eval']);
    expect(container!.args[3]!.trim()).toBe(readFileSync(join(chart, 'files/test.mjs'), 'utf8').trim());
  });
});
