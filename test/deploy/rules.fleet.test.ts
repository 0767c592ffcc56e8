import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { promtool } from '../servers/index.ts';

// promtool may have to be fetched first.
jest.setTimeout(300_000);

const root = join(import.meta.dirname, '../..');
const rulesFile = join(root, 'deploy/prometheus/rules.yaml');
const { parse } = createRequire(join(root, 'libs/connector/package.json'))('yaml') as {
  parse(text: string): unknown;
};
const { groups } = parse(readFileSync(rulesFile, 'utf8')) as {
  groups: { rules: { alert: string; labels: object; annotations: { runbook_url: string } }[] }[];
};
const rules = groups.flatMap((group) => group.rules);

const folder = mkdtempSync(join(tmpdir(), 'holdfast-rules-'));
let command: [string, ...string[]];
beforeAll(async () => {
  command = await promtool(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Samples a minute apart, in the notation of promtool: `0 1x5` is 0 and then six times 1. */
type Series = Readonly<Record<string, string>>;

interface Case {
  readonly alert: string;
  readonly what: string;
  readonly series: Series;
  /** Minutes from the first sample on after which the alert is looked for. */
  readonly after: number;
  /** What the alert says then and what it is about; undefined where there is none. */
  readonly fires?: { readonly summary: string; readonly labels?: Readonly<Record<string, string>> };
}

const shop = { namespace: 'shop' };
/** A histogram in which every observation is between two and five seconds. */
const slowQueue = (perMinute: number): Series => ({
  'holdfast_run_queue_seconds_bucket{namespace="shop",le="2.5"}': `0+0x40`,
  'holdfast_run_queue_seconds_bucket{namespace="shop",le="5"}': `0+${perMinute}x40`,
  'holdfast_run_queue_seconds_bucket{namespace="shop",le="+Inf"}': `0+${perMinute}x40`,
  'holdfast_run_queue_seconds_count{namespace="shop"}': `0+${perMinute}x40`,
});
const ended = (state: string, more = ''): string =>
  `holdfast_runs_finished_total{namespace="shop",state="${state}",tool_class="write"${more}}`;
const unknown = ended('failed', ',error="MCPCallOutcomeUnknown"');

const cases: readonly Case[] = [
  {
    alert: 'HoldfastGatewaysGone',
    what: 'no gateway is scraped any more',
    series: { 'holdfast_calls_waiting{namespace="shop"}': '0 0 0 stale' },
    after: 7,
    fires: { summary: 'Prometheus scrapes no gateway; hosts are probably not served.' },
  },
  {
    alert: 'HoldfastGatewaysGone',
    what: 'one of two gateways is gone',
    series: {
      'holdfast_calls_waiting{namespace="shop",pod="a"}': '0 0 0 stale',
      'holdfast_calls_waiting{namespace="shop",pod="b"}': '0x20',
    },
    after: 10,
  },
  {
    alert: 'HoldfastStoreSilent',
    what: 'gateways are there and no sample that the store gives',
    series: {
      'holdfast_calls_waiting{namespace="shop",pod="a"}': '3x20',
      'holdfast_calls_waiting{namespace="other",pod="a"}': '1x20',
      'holdfast_runs_queued{namespace="shop",pod="a"}': '0 0 stale',
      'holdfast_runs_queued{namespace="other",pod="a"}': '0x20',
    },
    after: 7,
    fires: {
      summary: 'Gateways are up but the store does not answer them; calls end as internal errors.',
      labels: shop,
    },
  },
  {
    alert: 'HoldfastStoreSilent',
    what: 'one gateway of two has its answer from the store',
    series: {
      'holdfast_calls_waiting{namespace="shop",pod="a"}': '3x20',
      'holdfast_calls_waiting{namespace="shop",pod="b"}': '3x20',
      'holdfast_runs_queued{namespace="shop",pod="b"}': '0x20',
    },
    after: 10,
  },
  {
    alert: 'HoldfastQueueStalled',
    what: 'the oldest run waits and waits',
    series: { 'holdfast_queue_age_seconds{namespace="shop"}': '0+60x10' },
    after: 4,
    fires: {
      summary: 'The oldest queued run has waited for 4m 0s: no worker serves its tool, or too few do.',
      labels: shop,
    },
  },
  {
    alert: 'HoldfastQueueStalled',
    what: 'a queue that moves',
    series: { 'holdfast_queue_age_seconds{namespace="shop"}': '59x10' },
    after: 9,
  },
  {
    alert: 'HoldfastRunsWaitLong',
    what: 'runs wait for seconds, for long',
    series: slowQueue(60),
    after: 20,
    fires: { summary: 'One run in twenty waits longer than 4.875s for a worker.', labels: shop },
  },
  {
    alert: 'HoldfastRunsWaitLong',
    what: 'a run waited where there is next to no traffic',
    series: slowQueue(1),
    after: 30,
  },
  {
    alert: 'HoldfastLeaseLost',
    what: 'a worker lost its lease for the first time',
    series: { 'holdfast_lease_lost_total{namespace="shop"}': '0x5 1x10' },
    after: 8,
    fires: {
      summary: 'Workers lost their lease in the last 15 minutes; other workers took over their runs.',
      labels: shop,
    },
  },
  {
    alert: 'HoldfastLeaseLost',
    what: 'that was long ago',
    series: { 'holdfast_lease_lost_total{namespace="shop"}': '0x5 1x40' },
    after: 30,
  },
  {
    alert: 'HoldfastWriteOutcomeUnknown',
    what: 'the first write of which nobody knows',
    series: { [unknown]: '0x5 1x10' },
    after: 8,
    fires: {
      summary: 'Writes ended as MCPCallOutcomeUnknown: check whether they took effect.',
      labels: { ...shop, error: 'MCPCallOutcomeUnknown' },
    },
  },
  {
    alert: 'HoldfastWriteOutcomeUnknown',
    what: 'a write that failed, and said so',
    series: { [ended('failed', ',error="MCPToolError"')]: '0x5 1+1x10', [unknown]: '0x20' },
    after: 8,
  },
  {
    alert: 'HoldfastCallsBroken',
    what: 'one answer after the other that says nothing',
    series: { 'holdfast_call_seconds_count{namespace="shop",outcome="unknown"}': '0+1x20' },
    after: 10,
    fires: {
      summary: 'Hosts receive answers that do not show whether their calls took effect.',
      labels: shop,
    },
  },
  {
    alert: 'HoldfastCallsBroken',
    what: 'answers that say what happened',
    series: {
      'holdfast_call_seconds_count{namespace="shop",outcome="unknown"}': '0x20',
      'holdfast_call_seconds_count{namespace="shop",outcome="ran"}': '0+9x20',
    },
    after: 10,
  },
  {
    alert: 'HoldfastRunsFail',
    what: 'every second run fails',
    series: { [ended('failed', ',error="ToolError"')]: '0+10x40', [ended('succeeded')]: '0+10x40' },
    after: 25,
    fires: { summary: '50% of the runs fail.', labels: shop },
  },
  {
    alert: 'HoldfastRunsFail',
    what: 'one run of two failed in the whole night',
    series: { [ended('failed', ',error="ToolError"')]: '0x5 1x30', [ended('succeeded')]: '0x5 1x30' },
    after: 12,
  },
  {
    alert: 'HoldfastUpstreamDown',
    what: 'no connector has the upstream',
    series: { 'holdfast_upstream_connected{namespace="shop",server="crm",pod="a"}': '1 0x10' },
    after: 7,
    fires: { summary: 'The upstream server crm is not connected.', labels: { ...shop, server: 'crm' } },
  },
  {
    alert: 'HoldfastUpstreamDown',
    what: 'another connector has the upstream, or has it again',
    series: {
      'holdfast_upstream_connected{namespace="shop",server="crm",pod="a"}': '1 0x20',
      'holdfast_upstream_connected{namespace="shop",server="crm",pod="b"}': '_x2 1x20',
    },
    after: 12,
  },
  {
    alert: 'HoldfastUpstreamOutcomeUnknown',
    what: 'the first call of an upstream that had no answer',
    series: { 'holdfast_upstream_calls_total{namespace="shop",server="crm",outcome="unknown"}': '0x5 1x10' },
    after: 8,
    fires: {
      summary: 'Calls of crm ended without an answer; writes among them are not sent again.',
      labels: { ...shop, server: 'crm' },
    },
  },
  {
    alert: 'HoldfastUpstreamOutcomeUnknown',
    what: 'calls that were answered',
    series: {
      'holdfast_upstream_calls_total{namespace="shop",server="crm",outcome="ran"}': '0+5x20',
      'holdfast_upstream_calls_total{namespace="shop",server="crm",outcome="unknown"}': '0x20',
    },
    after: 8,
  },
  {
    alert: 'HoldfastSessionsMany',
    what: 'sessions near the limit, told by each gateway',
    series: {
      'holdfast_sessions{namespace="shop",pod="a"}': '9000x20',
      'holdfast_sessions{namespace="shop",pod="b"}': '9000x20',
    },
    after: 11,
    fires: {
      summary: '9000 sessions are open; gateways reject new ones at HOLDFAST_MAX_SESSIONS, by default 10000.',
      labels: shop,
    },
  },
  {
    alert: 'HoldfastSessionsMany',
    what: 'the same sessions, told by each of many gateways',
    series: {
      'holdfast_sessions{namespace="shop",pod="a"}': '5000x20',
      'holdfast_sessions{namespace="shop",pod="b"}': '5000x20',
    },
    after: 15,
  },
  {
    alert: 'HoldfastEventLoopBlocked',
    what: 'a worker that answers late',
    series: {
      'nodejs_eventloop_lag_p99_seconds{namespace="shop",instance="10.0.0.1:9464"}': '0.9x20',
      'holdfast_lease_lost_total{namespace="shop",instance="10.0.0.1:9464"}': '0x20',
    },
    after: 6,
    fires: {
      summary: '10.0.0.1:9464 answers late: its event loop is blocked.',
      labels: { ...shop, instance: '10.0.0.1:9464' },
    },
  },
  {
    alert: 'HoldfastEventLoopBlocked',
    what: 'a service of somebody else',
    series: { 'nodejs_eventloop_lag_p99_seconds{namespace="shop",instance="10.0.0.9:3000"}': '0.9x20' },
    after: 10,
  },
];

test('each alert is tried where it must fire, and where it must not', () => {
  const tried = (isFiring: boolean): Set<string> =>
    new Set(cases.filter(({ fires }) => (fires !== undefined) === isFiring).map(({ alert }) => alert));
  const all = new Set(rules.map(({ alert }) => alert));
  expect([tried(true), tried(false)]).toEqual([all, all]);
});

test('each alert fires where it must, with the words that it has, and not where it must not', async () => {
  const file = join(folder, 'cases.json');
  const tests = cases.map(({ alert, what, series, after, fires }) => {
    const { labels, annotations } = rules.find((rule) => rule.alert === alert)!;
    const expected = fires && {
      exp_labels: { ...labels, ...fires.labels },
      exp_annotations: { summary: fires.summary, runbook_url: annotations.runbook_url },
    };
    return {
      name: `${alert}: ${what}`,
      interval: '1m',
      input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
      alert_rule_test: [
        { eval_time: `${after}m`, alertname: alert, exp_alerts: expected === undefined ? [] : [expected] },
      ],
    };
  });
  // JSON is YAML.
  writeFileSync(file, JSON.stringify({ rule_files: [rulesFile], evaluation_interval: '1m', tests }));
  const [program, ...args] = command;
  const { stdout, stderr } = await promisify(execFile)(program, [...args, 'test', 'rules', file]).catch(
    (error: unknown) => error as { stdout: string; stderr: string },
  );
  expect(stdout + stderr).toMatch(/SUCCESS/);
});
