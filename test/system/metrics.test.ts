import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { ScriptableUpstream, tool } from '../servers/index.ts';
import { bearer, type Host } from './host.ts';
import { stopEverything, until, type Service } from './service.ts';
import { UpstreamFleet } from './upstream-fleet.ts';
import { keys } from './fleet.ts';

let upstream: ScriptableUpstream;
let own: UpstreamFleet;
let host: Host;
beforeAll(async () => {
  upstream = await ScriptableUpstream.start({ script: { pages: [[tool('search')]] } });
  own = await UpstreamFleet.start('postgres', {}, { gateways: 1, workers: 1, connectors: 1 });
  host = await own.fleet.host('legacy');
  await own.connect({ id: 'docs', url: upstream.url }, host);
});
afterAll(async () => {
  await own.dispose();
  await upstream.close();
  await stopEverything();
});

/** The page of `/metrics` of a service. */
async function page({ log }: Service): Promise<string> {
  const { opsPort } = log.find((line) => 'opsPort' in line) as { opsPort: number };
  return (await fetch(`http://127.0.0.1:${opsPort}/metrics`)).text();
}

/** Names of our metrics that have a sample. */
const sampled = (text: string): string[] =>
  [
    ...new Set(
      [...text.matchAll(/^(holdfast_\w+?)(?:_bucket|_sum|_count)?[{ ]/gm)].map((match) => match[1]!),
    ),
  ].sort();

const ours = (text: string): string[] => text.split('\n').filter((line) => line.startsWith('holdfast_'));

test('each service shows the metrics of what it does, all of them with a sample', async () => {
  await host.call('docs__search', { q: 'argument-7' }, { token: 'token-8' });
  await host.call('lookup_order', { order_id: 'o-1' });
  const { gateways, workers, connectors } = own.fleet;
  const shared = ['holdfast_queue_age_seconds', 'holdfast_runs_finished_total', 'holdfast_runs_queued'];
  expect(sampled(await page(gateways[0]!.service))).toEqual(
    [
      ...shared,
      'holdfast_call_seconds',
      'holdfast_calls_waiting',
      'holdfast_refused_total',
      'holdfast_runs_submitted_total',
      'holdfast_sessions',
    ].sort(),
  );
  expect(sampled(await page(workers[0]!))).toEqual(
    [
      ...shared,
      'holdfast_lease_lost_total',
      'holdfast_run_execute_seconds',
      'holdfast_run_queue_seconds',
    ].sort(),
  );
  expect(sampled(await page(connectors[0]!))).toEqual([
    'holdfast_upstream_call_seconds',
    'holdfast_upstream_calls_total',
    'holdfast_upstream_connected',
  ]);
  for (const service of own.fleet.services) {
    const text = await page(service);
    expect(text).toMatch(/^process_resident_memory_bytes \d/m);
    expect(text).not.toMatch(/argument-7|token-8|key-of-desk-in-tests|apikey|r[01]_[0-9a-f]/);
  }
});

test('F196 whatever hosts ask for, no series is added', async () => {
  const { service, base } = own.fleet.gateways[0]!;
  const ask = async (i: number): Promise<void> => {
    await fetch(`${base}/${i}/secret?x=${i}`, { headers: bearer(keys.desk) });
    await fetch(`${base}/mcp`, { method: 'POST', headers: bearer(`unknown-${i}`), body: '{}' });
    await host.call(`unknown_${i}`, { i }).catch(() => {});
    await host.send(`method/${i}`).answer;
    await host.call('lookup_order', { order_id: `o-${i}` }, { meta: { traceparent: `made-up-${i}` } });
  };
  await ask(0);
  const before = ours(await page(service)).length;
  for (let i = 1; i <= 50; i++) await ask(i);
  expect(ours(await page(service))).toHaveLength(before);
});

test('a run that waits for a worker is seen by every replica, until it is taken', async () => {
  const { gateways } = own.fleet;
  const [worker] = own.fleet.workers;
  worker!.send('SIGSTOP');
  const waiting = host.call('lookup_order', { order_id: 'o-2' });
  const queued = async (): Promise<number> =>
    Number(/^holdfast_runs_queued (\d+)/m.exec(await page(gateways[0]!.service))![1]);
  await until(async () => (await queued()) === 1);
  expect(await page(gateways[0]!.service)).toMatch(/^holdfast_calls_waiting 1$/m);
  worker!.send('SIGCONT');
  await waiting;
  await until(async () => (await queued()) === 0);
});
