import { describe, expect, test } from '@jest/globals';
import type { Store } from '@holdfast/store';
import { ci, desk, memoryStore, openGateway, until, type TestGateway } from './test-gateway.js';

const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };
const initialize = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {} },
};
const open = (gateway: TestGateway, key = desk) =>
  gateway.send({ headers: { authorization: `Bearer ${key}` }, body: initialize }).answer;

describe('a session', () => {
  test('that is unknown, closed or of another caller cannot be told apart', async () => {
    const gateway = await openGateway();
    const closed = (await gateway.host('legacy')).session!;
    await gateway.send({ method: 'DELETE', headers: { 'mcp-session-id': closed } }).answer;
    const foreign = (await gateway.host('legacy', ci)).session!;
    const bodies = new Set<string>();
    for (const id of ['unknown', closed, foreign]) {
      for (const method of ['POST', 'GET', 'DELETE']) {
        const body = method === 'POST' ? ping : undefined;
        const answer = await gateway.send({ method, headers: { 'mcp-session-id': id }, body }).answer;
        expect([id, method, answer.status]).toEqual([id, method, 404]);
        // A POST is answered under the id of its request (G65).
        bodies.add(answer.body.replace(`"id":${ping.id}`, '"id":null'));
      }
    }
    expect([...bodies]).toEqual([
      '{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"session not found; send initialize to open one"}}',
    ]);
    expect((await (await gateway.host('legacy', ci)).send('ping').answer).status).toBe(200);
  });

  test('of another caller is untouched by his DELETE', async () => {
    const gateway = await openGateway();
    const host = await gateway.host('legacy', ci);
    await gateway.send({ method: 'DELETE', headers: { 'mcp-session-id': host.session } }).answer;
    expect((await host.send('ping').answer).status).toBe(200);
  });

  test('must be named by all but initialize', async () => {
    const gateway = await openGateway();
    for (const body of [ping, { jsonrpc: '2.0', method: 'notifications/initialized' }, { jsonrpc: '2.0', id: 1, result: {} }]) {
      const answer = await gateway.send({ body }).answer;
      expect(answer.status).toBe(400);
      expect(answer.messages[0]?.error?.message).toMatch(/Mcp-Session-Id/);
    } // prettier-ignore
  });

  test('has an id of at least 128 random bits that a header can carry', async () => {
    const gateway = await openGateway();
    const ids = await Promise.all([1, 2].map(async () => (await gateway.host('legacy')).session!));
    for (const id of ids) expect(id).toMatch(/^[\w-]{22,}$/);
    expect(ids[0]).not.toBe(ids[1]);
  });

  test('is served by any replica, and closed on all of them', async () => {
    const one = await openGateway();
    const other = await openGateway({ store: one.store });
    const host = await one.host('legacy');
    expect((await host.send('ping', {}, { via: other.url }).answer).status).toBe(200);
    const headers = { 'mcp-session-id': host.session };
    expect((await other.send({ method: 'DELETE', headers }).answer).status).toBe(200);
    await until(async () => (await host.send('ping').answer).status === 404);
  });

  test('that closes ends its GET stream on another replica, and no run', async () => {
    const one = await openGateway();
    const other = await openGateway({ store: one.store });
    const host = await one.host('legacy');
    const headers = { 'mcp-session-id': host.session };
    const stream = one.send({ method: 'GET', headers });
    await until(() => stream.received().startsWith(':'));
    const call = host.begin('work', {});
    const claim = await one.claim();
    await other.send({ method: 'DELETE', headers }).answer;
    await stream.answer;
    await one.finish(claim, 'done');
    expect((await call.answer).messages.at(-1)?.result?.content).toEqual([{ type: 'text', text: 'done' }]);
  });
});

describe('when there is no room', () => {
  test('a new session is refused with 503, the open ones go on, and a close makes room', async () => {
    const gateway = await openGateway({ settings: { sessions: { max: 2, idleMs: 60_000 } } });
    const first = await gateway.host('legacy');
    await gateway.host('legacy', ci);
    const refused = await open(gateway);
    expect([refused.status, refused.headers['retry-after'], refused.headers['mcp-session-id']]).toEqual([
      503,
      '5',
      undefined,
    ]);
    expect((await first.send('ping').answer).status).toBe(200);
    await gateway.send({ method: 'DELETE', headers: { 'mcp-session-id': first.session } }).answer;
    expect((await open(gateway)).status).toBe(200);
    expect((await open(gateway)).status).toBe(503);
  });

  test('for one caller, the others are let in', async () => {
    const sessions = { max: 10, idleMs: 60_000, maxPerPrincipal: 1 };
    const gateway = await openGateway({ settings: { sessions } });
    expect((await open(gateway)).status).toBe(200);
    expect((await open(gateway)).status).toBe(503);
    expect((await open(gateway, ci)).status).toBe(200);
  });

  test('an initialize that fails takes none, and a modern call neither', async () => {
    const gateway = await openGateway();
    gateway.finishAll();
    await gateway.send({ body: { ...initialize, params: {} } }).answer;
    await (await gateway.host('modern')).call('work', {});
    expect(await gateway.endpoint.sessionCount()).toBe(0);
  });

  test('one that is idle gives way, and one with an open stream or a waiting call does not', async () => {
    const gateway = await openGateway({ settings: { sessions: { max: 3, idleMs: 300 } } });
    const streaming = await gateway.host('legacy');
    const calling = await gateway.host('legacy');
    gateway.send({ method: 'GET', headers: { 'mcp-session-id': streaming.session } });
    gateway.send({
      headers: { 'mcp-session-id': calling.session, accept: 'application/json' },
      body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'work' } },
    });
    await gateway.claim();
    const idle = await gateway.host('legacy');
    const { sessions } = gateway.store;
    await until(async () => (await sessions.get(idle.session!, 300)) === undefined);
    expect(await sessions.get(streaming.session!, 300)).toBeDefined();
    expect(await sessions.get(calling.session!, 300)).toBeDefined();
    expect((await open(gateway)).status).toBe(200);
  });
});

test('a session that is closed while another replica reads it is not remembered there as open', async () => {
  const store = await memoryStore();
  const host = await (await openGateway({ store })).host('legacy');
  const racing: Store = {
    ...store,
    runs: store.runs,
    workers: store.workers,
    tools: store.tools,
    hearing: true,
    secret: (name, make) => store.secret(name, make),
    subscribe: (listener) => store.subscribe(listener),
    sessions: {
      ...store.sessions,
      get: async (id, idleMs) => {
        const session = await store.sessions.get(id, idleMs);
        await store.sessions.close(id);
        return session;
      },
    },
  };
  const other = await openGateway({ store: racing });
  const use = () => other.send({ headers: { 'mcp-session-id': host.session! }, body: ping }).answer;
  expect((await use()).status).toBe(200);
  expect((await use()).status).toBe(404);
});

test('a host that hangs up while its session is looked up leaves nothing behind', async () => {
  const store = await memoryStore();
  const host = await (await openGateway({ store })).host('legacy');
  let letGo!: () => void;
  const held = new Promise<void>((resolve) => (letGo = resolve));
  let isAsked = false;
  const slow = await openGateway({
    store: {
      ...store,
      runs: store.runs,
      workers: store.workers,
      tools: store.tools,
      hearing: true,
      secret: (name, make) => store.secret(name, make),
      subscribe: (listener) => store.subscribe(listener),
      sessions: {
        ...store.sessions,
        get: async (id, idleMs) => {
          isAsked = true;
          await held;
          return store.sessions.get(id, idleMs);
        },
      },
    },
    settings: { sessions: { max: 10, idleMs: 300 } },
  });
  const stream = slow.send({ method: 'GET', headers: { 'mcp-session-id': host.session! } });
  await until(() => isAsked);
  stream.cut();
  await stream.answer.catch(() => {});
  letGo();
  await until(async () => (await store.sessions.count(300)) === 0);
});
