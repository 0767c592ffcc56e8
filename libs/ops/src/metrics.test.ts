import { describe, expect, test } from '@jest/globals';
import { callErrorNames } from '@holdfast/run';
import { createMetrics, type Metrics } from './metrics.js';

/** The samples of our own metrics, name with labels to value. */
async function samples(metrics: Metrics): Promise<Record<string, number>> {
  const { body } = await metrics.render();
  const lines = body.split('\n').filter((line) => line.startsWith('holdfast_'));
  return Object.fromEntries(
    lines.map((line) => {
      const [, name = '', value] = /^(\S+) (\S+)$/.exec(line) ?? [];
      return [name, Number(value)];
    }),
  );
}
const names = async (metrics: Metrics) => {
  const { body } = await metrics.render();
  return [...body.matchAll(/^# TYPE (holdfast_\S+ \S+)$/gm)].map((match) => match[1]).sort();
};
const clock = () => new Date(100_000);
const ended = { state: 'failed', toolClass: 'read', executeSeconds: 0.1 } as const;
const depth = { queued: 3, oldest: new Date(98_500) };

test('a service has only the metrics it feeds, and those of Node', async () => {
  const gateway = createMetrics();
  gateway.gateway();
  gateway.queue(async () => depth);
  gateway.sessions(async () => 1);
  const worker = createMetrics();
  worker.worker();
  worker.queue(async () => depth);
  expect(await names(gateway)).toEqual([
    'holdfast_call_seconds histogram',
    'holdfast_calls_waiting gauge',
    'holdfast_queue_age_seconds gauge',
    'holdfast_refused_total counter',
    'holdfast_runs_finished_total counter',
    'holdfast_runs_queued gauge',
    'holdfast_runs_submitted_total counter',
    'holdfast_sessions gauge',
  ]);
  expect(await names(worker)).toEqual([
    'holdfast_lease_lost_total counter',
    'holdfast_queue_age_seconds gauge',
    'holdfast_run_execute_seconds histogram',
    'holdfast_run_queue_seconds histogram',
    'holdfast_runs_finished_total counter',
    'holdfast_runs_queued gauge',
  ]);
  const page = await worker.render();
  expect(page.contentType).toBe('text/plain; version=0.0.4; charset=utf-8');
  expect(page.body).toContain('nodejs_eventloop_lag_p99_seconds');
  expect(page.body).toContain('process_resident_memory_bytes');
});

test('one process may be both: what both finish is counted together', async () => {
  const metrics = createMetrics();
  metrics.gateway().runFinished({ state: 'cancelled', toolClass: 'write', error: 'RunCancelled' });
  metrics
    .worker()
    .finished({ state: 'cancelled', toolClass: 'write', error: 'RunCancelled', executeSeconds: 0.005 });
  metrics.worker().leaseLost();
  expect(await samples(metrics)).toMatchObject({
    'holdfast_runs_finished_total{state="cancelled",tool_class="write",error="RunCancelled"}': 2,
    holdfast_run_execute_seconds_count: 1,
    holdfast_lease_lost_total: 1,
  });
});

test('calls are counted, timed and seen waiting', async () => {
  const metrics = createMetrics();
  const gateway = metrics.gateway();
  gateway.runSubmitted({ toolClass: 'read', reattached: true });
  gateway.callStarted();
  gateway.callStarted();
  gateway.callFinished({ outcome: 'ran', seconds: 0.04 });
  expect(await samples(metrics)).toMatchObject({
    'holdfast_runs_submitted_total{tool_class="read",reattached="true"}': 1,
    'holdfast_runs_submitted_total{tool_class="write",reattached="false"}': 0,
    holdfast_calls_waiting: 1,
    'holdfast_call_seconds_bucket{le="0.025",outcome="ran"}': 0,
    'holdfast_call_seconds_bucket{le="0.05",outcome="ran"}': 1,
    'holdfast_call_seconds_sum{outcome="ran"}': 0.04,
  });
});

test('what an alert waits for is there at zero: increase() does not see the first event of a new series', async () => {
  const metrics = createMetrics();
  metrics.gateway();
  metrics.worker();
  metrics.connector().connected('github', true);
  expect(await samples(metrics)).toMatchObject({
    'holdfast_runs_finished_total{state="failed",tool_class="write",error="OutcomeUnknown"}': 0,
    'holdfast_runs_finished_total{state="failed",tool_class="write",error="RunTimeout"}': 0,
    'holdfast_runs_finished_total{state="failed",tool_class="write",error="MCPCallOutcomeUnknown"}': 0,
    'holdfast_call_seconds_count{outcome="unknown"}': 0,
    'holdfast_refused_total{reason="sessions"}': 0,
    'holdfast_upstream_calls_total{server="github",outcome="unknown"}': 0,
    holdfast_lease_lost_total: 0,
  });
});

test('times are told apart from 1 ms to 10 min, and a negative one is zero', async () => {
  const metrics = createMetrics();
  const worker = metrics.worker();
  for (const seconds of [-50, 0.0009, 599, 601, NaN]) worker.claimed(seconds);
  expect(await samples(metrics)).toMatchObject({
    'holdfast_run_queue_seconds_bucket{le="0.001"}': 2,
    'holdfast_run_queue_seconds_bucket{le="300"}': 2,
    'holdfast_run_queue_seconds_bucket{le="600"}': 3,
    'holdfast_run_queue_seconds_bucket{le="+Inf"}': 4,
    holdfast_run_queue_seconds_sum: 1200.0009,
  });
});

test('F196 servers without end are counted together after the first thousand', async () => {
  const metrics = createMetrics();
  const connector = metrics.connector();
  for (let i = 0; i < 3_000; i++) {
    connector.called({ server: `server-${i}`, outcome: 'ran', seconds: 0.01 });
    connector.connected(`server-${i}`, true);
  }
  connector.called({ server: 'server-7', outcome: 'ran', seconds: 0.01 });
  const calls = Object.entries(await samples(metrics)).filter(([name]) =>
    /^holdfast_upstream_calls_total.*outcome="ran"/.test(name),
  );
  expect(calls).toHaveLength(1_001);
  expect(Object.fromEntries(calls)).toMatchObject({
    'holdfast_upstream_calls_total{server="server-7",outcome="ran"}': 2,
    'holdfast_upstream_calls_total{server="other",outcome="ran"}': 2_000,
  });
});

test('G78: the series of a server that is removed vanish, and no others', async () => {
  const metrics = createMetrics();
  const connector = metrics.connector();
  for (const server of ['gone', 'kept'])
    for (const outcome of ['ran', 'refused', 'not_sent', 'unknown'] as const) {
      connector.connected(server, true);
      connector.called({ server, outcome, seconds: 0.01 });
    }
  const seriesOf = async (server: string) =>
    Object.keys(await samples(metrics)).filter((name) => name.includes(`server="${server}"`));
  const kept = (await seriesOf('kept')).length;
  expect((await seriesOf('gone')).length).toBe(kept);
  connector.connected('gone', undefined);
  connector.connected('never-there', undefined);
  expect(await seriesOf('gone')).toEqual([]);
  expect(await seriesOf('kept')).toHaveLength(kept);
  for (let i = 0; i < 3_000; i++) {
    connector.connected(`server-${i}`, true);
    connector.connected(`server-${i}`, undefined);
  }
  expect(await seriesOf('other')).toEqual([]);
});

test('every name of an error that a caller can see is a label of its own', async () => {
  const metrics = createMetrics();
  for (const error of callErrorNames) metrics.worker().finished({ ...ended, error });
  const errors = Object.keys(await samples(metrics)).map((name) => /error="(\w+)"/.exec(name)?.[1]);
  expect(errors).toEqual(expect.arrayContaining([...callErrorNames]));
});

test('no label can hold a value from outside its closed list', async () => {
  const metrics = createMetrics();
  for (let index = 0; index < 50; index += 1) {
    const text = `text-${index}`;
    metrics.worker().finished({ state: 'failed', toolClass: 'write', error: text });
    metrics.worker().finished({ state: text as 'failed', toolClass: text as 'read' });
    metrics.gateway().runSubmitted({ toolClass: text as 'read', reattached: false });
    metrics.gateway().refused(text);
    metrics.gateway().callFinished({ outcome: text as 'ran', seconds: 0.001 });
  }
  metrics.worker().finished({ state: 'failed', toolClass: 'write', error: 'ToolError' });
  const all = await samples(metrics);
  expect(Object.keys(all).filter((name) => name.includes('text-'))).toEqual([]);
  expect(all).toMatchObject({
    'holdfast_runs_finished_total{state="failed",tool_class="write",error="other"}': 50,
    'holdfast_runs_finished_total{state="other",tool_class="other",error="none"}': 50,
    'holdfast_runs_finished_total{state="failed",tool_class="write",error="ToolError"}': 1,
    'holdfast_call_seconds_count{outcome="other"}': 50,
    'holdfast_refused_total{reason="other"}': 50,
  });
});

describe('gauges of the store', () => {
  test('are asked for once a scrape', async () => {
    const metrics = createMetrics({ clock });
    let asked = 0;
    metrics.queue(async () => ({ queued: ++asked, oldest: new Date(100_000 - asked * 1000) }));
    expect(await samples(metrics)).toEqual({ holdfast_runs_queued: 1, holdfast_queue_age_seconds: 1 });
    expect(await samples(metrics)).toEqual({ holdfast_runs_queued: 2, holdfast_queue_age_seconds: 2 });
  });

  test('have an age of zero when nothing waits', async () => {
    const metrics = createMetrics({ clock });
    metrics.queue(async () => ({ queued: 0, oldest: undefined }));
    expect(await samples(metrics)).toEqual({ holdfast_runs_queued: 0, holdfast_queue_age_seconds: 0 });
  });

  test('are absent rather than stale while the store is down, and come back', async () => {
    const metrics = createMetrics({ clock });
    let down = false;
    metrics.queue(async () => {
      if (down) throw new Error('store is down');
      return depth;
    });
    metrics.sessions(() => {
      if (down) throw new Error('store is down');
      return Promise.resolve(7);
    });
    const up = { holdfast_runs_queued: 3, holdfast_queue_age_seconds: 1.5, holdfast_sessions: 7 };
    expect(await samples(metrics)).toEqual(up);
    down = true;
    expect(await samples(metrics)).toEqual({});
    expect((await metrics.render()).body).toContain('process_resident_memory_bytes');
    down = false;
    expect(await samples(metrics)).toEqual(up);
  });

  test('have no negative age when two clocks disagree', async () => {
    const metrics = createMetrics({ clock });
    metrics.queue(async () => ({ queued: 1, oldest: new Date(100_001) }));
    expect(await samples(metrics)).toMatchObject({ holdfast_queue_age_seconds: 0 });
  });

  test('do not hold up the page when the store hangs, and the question is called off', async () => {
    const metrics = createMetrics({ clock, askTimeoutMs: 5 });
    let calledOff = false;
    metrics.queue(
      (signal) =>
        new Promise(() => {
          signal.addEventListener('abort', () => (calledOff = true));
        }),
    );
    expect(await samples(metrics)).toEqual({});
    expect(calledOff).toBe(true);
  });
});
