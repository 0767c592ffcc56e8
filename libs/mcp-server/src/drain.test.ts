import { describe, expect, test } from '@jest/globals';
import {
  ci,
  envelope,
  eras,
  greeting,
  openGateway,
  resultOf,
  runOf,
  textOf,
  until,
  type TestGateway,
} from './test-gateway.js';

/** Two replicas over one store, the first of which stops. */
async function replicas(): Promise<[TestGateway, TestGateway]> {
  const one = await openGateway();
  return [one, await openGateway({ store: one.store })];
}

const drain = (gateway: TestGateway, hasReplicas: boolean, patienceMs = 60_000): Promise<void> =>
  gateway.endpoint.drain({ patienceMs, hasReplicas });

describe('a gateway that stops', () => {
  test('serves on before it hands calls over, and ends each connection with its answer', async () => {
    const gateway = await openGateway();
    gateway.endpoint.endConnections();
    for (const era of eras) {
      const host = await gateway.host(era);
      const waiting = host.begin('work', {});
      const claim = await gateway.claim();
      await until(() => waiting.received() !== '');
      await gateway.finish(claim, 'done');
      expect(textOf(resultOf(await waiting.answer))).toBe('done');

      const { headers, body } = greeting(era);
      const greeted = await gateway.send({ headers: { ...headers, connection: 'keep-alive' }, body }).answer;
      expect([greeted.status, greeted.headers.connection]).toEqual([200, 'close']);
    }
  });

  test.each(eras)('has told hosts not to use the connection of a stream again (%s)', async (era) => {
    const gateway = await openGateway();
    const headers = {
      connection: 'keep-alive',
      ...(era === 'legacy'
        ? { 'mcp-session-id': (await gateway.host('legacy')).session }
        : { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'work' }),
    };
    const meta = { progressToken: 1, ...(era === 'modern' && envelope) };
    const params = { name: 'work', arguments: {}, _meta: meta };
    const waiting = gateway.send({ headers, body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params } });
    const claim = await gateway.claim();
    await gateway.report(claim, 1);
    await until(() => waiting.received().includes('notifications/progress'));
    await gateway.finish(claim, 'done');
    const answer = await waiting.answer;
    expect([answer.headers['content-type'], answer.headers.connection]).toEqual([
      'text/event-stream',
      'close',
    ]);
  });

  test('hands a modern call over: the host brings it to another, which knows it by its state alone', async () => {
    const [one, other] = await replicas();
    const host = await one.host('modern');
    const params = { name: 'work', arguments: { n: 1 } };
    const waiting = host.send('tools/call', params);
    const claim = await one.claim();
    await drain(one, true);
    const handed = (await waiting.answer).messages.at(-1)!.result!;
    expect(handed).toMatchObject({ resultType: 'input_required', requestState: expect.any(String) });
    expect(handed['inputRequests']).toBeUndefined();
    const { requestState } = handed;
    const again = host.send('tools/call', { ...params, requestState }, { via: other.url });
    await until(() => other.waiting() === 1);
    await one.finish(claim, 'done');
    const result = resultOf(await again.answer);
    expect([textOf(result), runOf(result)]).toEqual([
      'done',
      { id: claim.run.id, attempt: 1, reattached: false },
    ]);
    expect((await one.runs()).length).toBe(1);
  });

  test('gives a state to nobody else, for no other call, and takes no other', async () => {
    const [one, other] = await replicas();
    const host = await one.host('modern');
    const params = { name: 'work', arguments: { n: 1 } };
    const waiting = host.send('tools/call', params);
    await one.claim();
    await drain(one, true);
    const requestState = (await waiting.answer).messages.at(-1)!.result!['requestState'] as string;
    const thief = await other.host('modern', ci);
    const attempts = [
      thief.send('tools/call', { ...params, requestState }, { via: other.url }),
      host.send('tools/call', { ...params, arguments: { n: 2 }, requestState }, { via: other.url }),
      host.send('tools/call', { ...params, name: 'lookup_order', requestState }, { via: other.url }),
      host.send('tools/call', { ...params, requestState: `${requestState}x` }, { via: other.url }),
      host.send('tools/call', { ...params, requestState: 'x' }, { via: other.url }),
      host.send('tools/call', { ...params, requestState: '' }, { via: other.url }),
    ];
    for (const { answer } of attempts) expect((await answer).messages[0]?.error?.code).toBe(-32602);
    expect((await one.runs()).length).toBe(1);
  });

  test('ends the stream of a host that can take it up, which another replica then answers', async () => {
    const [one, other] = await replicas();
    const host = await one.host('legacy');
    const waiting = host.begin('work', {}, { id: 'x' });
    const claim = await one.claim();
    await until(() => waiting.received().includes('id: '));
    await drain(one, true);
    const broken = await waiting.answer;
    expect(broken.messages).toEqual([]);
    const lastEventId = /^id: (.+)$/m.exec(broken.body)![1]!;
    const headers = { 'mcp-session-id': host.session, 'last-event-id': lastEventId };
    const resumed = other.send({ method: 'GET', headers });
    await until(() => resumed.received().includes('id: '));
    await one.finish(claim, 'done');
    expect((await resumed.answer).messages).toMatchObject([
      { id: 'x', result: { content: [{ text: 'done' }] } },
    ]);
  });

  test('waits for a host that cannot come back, and for all where no replica is', async () => {
    for (const hasReplicas of [true, false]) {
      const gateway = await openGateway();
      const { session } = await gateway.host('legacy');
      const waiting = gateway.send({
        headers: { 'mcp-session-id': session, ...(hasReplicas && { accept: 'application/json' }) },
        body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'work' } },
      });
      const claim = await gateway.claim();
      const drained = drain(gateway, hasReplicas);
      await gateway.finish(claim, 'done');
      await drained;
      const answer = await waiting.answer;
      expect(textOf(resultOf(answer))).toBe('done');
    }
  });

  test('waits no longer than it has patience', async () => {
    const gateway = await openGateway();
    const { session } = await gateway.host('legacy');
    const headers = { 'mcp-session-id': session, accept: 'application/json' };
    const params = { name: 'work' };
    gateway
      .send({ headers, body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params } })
      .answer.catch(() => {});
    await gateway.claim();
    await drain(gateway, false, 10);
    expect(gateway.waiting()).toBe(1);
  });

  test('G85: without replicas, a call that is longer than the drain is handed over to the next start', async () => {
    const [one, next] = await replicas();
    const older = await one.host('legacy');
    const [streamed, waiting] = [
      older.begin('work', { n: 1 }, { id: 'x' }),
      (await one.host('modern')).begin('work', { n: 2 }),
    ];
    const claims = [await one.claim(), await one.claim()];
    await until(() => streamed.received().includes('id: '));
    await drain(one, false, 10);
    const handed = (await waiting.answer).messages.at(-1)!.result!;
    expect(handed).toMatchObject({ resultType: 'input_required', requestState: expect.any(String) });
    const lastEventId = /^id: (.+)$/m.exec((await streamed.answer).body)![1]!;
    const headers = { 'mcp-session-id': older.session, 'last-event-id': lastEventId };
    const resumed = next.send({ method: 'GET', headers });
    for (const claim of claims) await one.finish(claim, 'done');
    expect((await resumed.answer).messages).toMatchObject([
      { id: 'x', result: { content: [{ text: 'done' }] } },
    ]);
  });

  test.each([true, false])('G77: streams end one after another (with replicas: %s)', async (hasReplicas) => {
    const gateway = await openGateway();
    const ended: number[] = [];
    for (let n = 0; n < 40; n++) {
      const { session } = await gateway.host('legacy');
      const stream = gateway.send({ method: 'GET', headers: { 'mcp-session-id': session } });
      await until(() => stream.received() !== '');
      void stream.answer.then(() => ended.push(n));
    }
    const drained = drain(gateway, hasReplicas);
    await until(() => ended.length > 0);
    // A round trip: what ended in the same moment has arrived before its answer.
    await gateway.send({ body: greeting('legacy').body }).answer;
    expect(ended.length).toBeLessThan(40);
    await drained;
    await until(() => ended.length === 40);
  });

  test('G77: calls are handed over one after another', async () => {
    const gateway = await openGateway();
    const host = await gateway.host('modern');
    const ended: number[] = [];
    for (let n = 0; n < 40; n++) void host.begin('work', { n }).answer.then(() => ended.push(n));
    await until(() => gateway.waiting() === 40);
    const drained = drain(gateway, true);
    await until(() => ended.length > 0);
    await gateway.send({ body: greeting('legacy').body }).answer;
    expect(ended.length).toBeLessThan(40);
    await drained;
    await until(() => ended.length === 40);
  });

  test('ends each connection with its answer, and still serves what comes', async () => {
    const gateway = await openGateway();
    gateway.finishAll();
    await drain(gateway, false);
    const answer = await (await gateway.host('modern')).begin('work', {}).answer;
    expect([answer.status, answer.headers.connection]).toEqual([200, 'close']);
  });
});

describe('a host that cancels, where a cancel ends the run', () => {
  test('ends it on whichever replica the cancel lands', async () => {
    const one = await openGateway({ settings: { hostCancel: 'cancel' } });
    const other = await openGateway({ store: one.store, settings: { hostCancel: 'cancel' } });
    const host = await one.host('legacy');
    const waiting = host.begin('work', {}, { id: 5, token: 't' });
    const { run } = await one.claim();
    await until(() => waiting.received().includes('id: '));
    await other.send({
      headers: { 'mcp-session-id': host.session },
      body: { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 5 } },
    }).answer;
    expect((await waiting.answer).messages).toEqual([]);
    await until(async () => (await one.store.runs.get(run.id))?.state === 'cancelled');
  });
});
