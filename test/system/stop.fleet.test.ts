import { Agent, get } from 'node:http';
import { afterEach, describe, expect, test } from '@jest/globals';
import { Fleet, keys } from './fleet.ts';
import { bearer, eras, exchange, openHost, runOf, textOf, type Answer } from './host.ts';
import { startWorker, stopEverything, until, type Service } from './service.ts';

let fleet: Fleet | undefined;
afterEach(async () => {
  await fleet?.dispose();
  fleet = undefined;
  await stopEverything();
});

/** Leaves a connection open after one answered request, as a proxy does. */
async function idleConnection(url: string): Promise<Agent> {
  const agent = new Agent({ keepAlive: true });
  await new Promise<void>((resolve, reject) => {
    get(url, { agent }, (res) => res.resume().once('end', resolve)).once('error', reject);
  });
  await until(() => Object.keys(agent.freeSockets).length === 1);
  return agent;
}

/** The exit of a service that is told to stop, once more while it stops, and by its terminal too. */
async function toldTwice(service: Service): Promise<unknown> {
  service.send('SIGTERM');
  await service.printed(/"msg":"stopping"/);
  service.send('SIGTERM');
  service.send('SIGINT');
  return service.exited;
}

test.each(['standalone', 'sqlite', 'postgres', 'valkey'] as const)(
  'SIGTERM ends %s with 0 while a connection idles and a stream is open; another signal changes nothing',
  async (kind) => {
    fleet = await Fleet.start(kind, {}, { gateways: 1, workers: 1 });
    const { base } = fleet.gateways[0]!;
    const agent = await idleConnection(`${base}/healthz`);
    const { session } = await openHost('legacy', fleet.url(), keys.desk);
    const stream = exchange(fleet.url(), {
      method: 'GET',
      headers: { ...bearer(keys.desk), accept: 'text/event-stream', 'mcp-session-id': session! },
    });
    await until(() => stream.received().includes(': open'));

    const ended = await Promise.all(fleet.services.map(toldTwice));
    for (const exit of ended) expect(exit).toEqual({ code: 0, signal: null });
    // The stream ended as streams do, so its host opens it again elsewhere.
    expect((await stream.answer).status).toBe(200);
    agent.destroy();
  },
);

test('a call that still waits for a worker when the one process stops is run to its end as well', async () => {
  fleet = await Fleet.start('standalone', { HOLDFAST_DRAIN_MS: '20000', HOLDFAST_WORKER_CONCURRENCY: '1' });
  const host = await fleet.host('modern');
  const calls = ['o-1', 'o-2'].map((order_id) => host.begin('refund_order', { order_id, delay_ms: 500 }));
  await until(async () => ((await fleet!.api('/runs')).body['runs'] as unknown[]).length === 2);
  const exit = toldTwice(fleet.gateways[0]!.service);
  const answers = await Promise.all(calls.map(({ answer }) => answer));
  expect(answers.map((answer) => textOf(answer.messages.at(-1)!.result!))).toEqual([
    'refunded o-1',
    'refunded o-2',
  ]);
  expect(await exit).toEqual({ code: 0, signal: null });
});

test.each(eras)('a call that waits at the one process gets its result before that ends (%s)', async (era) => {
  fleet = await Fleet.start('standalone', { HOLDFAST_DRAIN_MS: '20000' });
  const host = await fleet.host(era);
  const waiting = host.begin('refund_order', { order_id: 'o-1', delay_ms: 500 });
  await until(() => fleet!.wholeJournal().length > 0);
  const exit = toldTwice(fleet.gateways[0]!.service);
  const { result } = (await waiting.answer).messages.at(-1)!;
  expect(textOf(result!)).toBe('refunded o-1');
  expect(await exit).toEqual({ code: 0, signal: null });
});

test('the one process waits for a call no longer than the drain', async () => {
  fleet = await Fleet.start('standalone', { HOLDFAST_DRAIN_MS: '200' });
  const hosts = await Promise.all(eras.map((era) => fleet!.host(era)));
  const waiting = hosts.map((host) => host.begin('refund_order', { order_id: 'o-1', delay_ms: 60_000 }));
  await until(() => fleet!.wholeJournal().length === 2);
  expect(await toldTwice(fleet.gateways[0]!.service)).toEqual({ code: 0, signal: null });
  for (const { answer } of waiting) await answer.catch(() => {});
});

describe('a call that waits at a gateway which stops is taken up at another', () => {
  const args = { order_id: 'o-1', delay_ms: 1000 };

  async function stopWhileWaiting(
    era: (typeof eras)[number],
  ): Promise<{ host: Awaited<ReturnType<typeof openHost>>; answer: Answer }> {
    fleet = await Fleet.start('postgres', {}, { gateways: 2, workers: 1 });
    const host = await fleet.host(era);
    const waiting = host.begin('refund_order', args, { id: 7 });
    await until(() => fleet!.wholeJournal().length > 0);
    expect(await toldTwice(fleet.gateways[0]!.service)).toEqual({ code: 0, signal: null });
    return { host, answer: await waiting.answer };
  }

  test('by the last event of its stream (legacy)', async () => {
    const { host, answer } = await stopWhileWaiting('legacy');
    expect(answer.messages).toEqual([]);
    const lastEventId = [...answer.body.matchAll(/^id: (.+)$/gm)].at(-1)![1]!;
    const resumed = await exchange(fleet!.url(1), {
      method: 'GET',
      headers: {
        ...bearer(keys.desk),
        accept: 'text/event-stream',
        'mcp-session-id': host.session!,
        'last-event-id': lastEventId,
      },
    }).answer;
    const { id, result } = resumed.messages.at(-1)!;
    expect({ id, text: textOf(result!) }).toEqual({ id: 7, text: 'refunded o-1' });
    expect(fleet!.wholeJournal().map(({ what }) => what)).toEqual(['start', 'end']);
  });

  test('by the state that it was given (modern)', async () => {
    const { host, answer } = await stopWhileWaiting('modern');
    const { result: handed } = answer.messages.at(-1)!;
    expect(handed).toMatchObject({ resultType: 'input_required', requestState: expect.any(String) });
    const params = { name: 'refund_order', arguments: args, requestState: handed!['requestState'] };
    const again = await host.send('tools/call', params, { via: fleet!.url(1) }).answer;
    expect(textOf(again.messages.at(-1)!.result!)).toBe('refunded o-1');
    expect(fleet!.wholeJournal().map(({ what }) => what)).toEqual(['start', 'end']);
  });
});

test('a body that outlasts the drain of its worker is ended by another while its hosts wait', async () => {
  fleet = await Fleet.start('postgres', { HOLDFAST_DRAIN_MS: '200' }, { gateways: 1, workers: 1 });
  const hosts = await Promise.all(eras.map((era) => fleet!.host(era)));
  const args = { order_id: 'o-1', delay_ms: 2000 };
  const waiting = hosts.map((host) => host.begin('refund_order', args));
  await until(() => fleet!.wholeJournal().length === 2);
  const [first] = fleet.workers as [Service];
  const exit = first.stop();
  fleet.workers.push(await startWorker(fleet.env));

  expect(await exit).toBe(0);
  expect(first.log.filter(({ msg }) => msg === 'run handed back')).toHaveLength(2);
  for (const { answer } of waiting) {
    const { result } = (await answer).messages.at(-1)!;
    expect(textOf(result!)).toBe('refunded o-1');
    expect(runOf(result!).attempt).toBe(2);
    expect(fleet.journal(runOf(result!).id).map(({ what }) => what)).toEqual(['start', 'start', 'end']);
  }
});

test('a body that ends within the drain of its worker is not run again', async () => {
  fleet = await Fleet.start('postgres', { HOLDFAST_DRAIN_MS: '20000' }, { gateways: 1, workers: 1 });
  const host = await fleet.host('legacy');
  const waiting = host.begin('refund_order', { order_id: 'o-1', delay_ms: 500 });
  await until(() => fleet!.wholeJournal().length > 0);
  expect(await fleet.workers[0]!.stop()).toBe(0);
  const { result } = (await waiting.answer).messages.at(-1)!;
  expect(runOf(result!).attempt).toBe(1);
  expect(fleet.wholeJournal().map(({ what }) => what)).toEqual(['start', 'end']);
});
