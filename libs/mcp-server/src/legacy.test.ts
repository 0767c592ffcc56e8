import { describe, expect, test } from '@jest/globals';
import { openToAll } from './auth.js';
import { legacyVersions } from '@holdfast/protocol';
import {
  ci,
  messagesOf,
  openGateway,
  until,
  type Exchange,
  type Message,
  type TestGateway,
} from './test-gateway.js';

const call = (id: unknown, meta?: object, name = 'work') =>
  `{"jsonrpc":"2.0","id":${typeof id === 'string' ? id : JSON.stringify(id)},"method":"tools/call","params":${JSON.stringify({ name, _meta: meta })}}`;
const progressOf = (messages: readonly Message[]) =>
  messages.filter(({ method }) => method === 'notifications/progress').map(({ params }) => params!);
/** The ids of the events that have come, in order. */
const eventIds = (stream: Exchange) => [...stream.received().matchAll(/^id: (.+)$/gm)].map(([, id]) => id!);
const frames = (stream: Exchange) => messagesOf(stream.received());
const hasEvents = (stream: Exchange, count: number) => until(() => eventIds(stream).length >= count);

async function session(gateway: TestGateway, protocolVersion = '2025-11-25'): Promise<string> {
  const params = { protocolVersion, capabilities: {} };
  const answer = await gateway.send({ body: { jsonrpc: '2.0', id: 0, method: 'initialize', params } }).answer;
  return answer.headers['mcp-session-id'] as string;
}

describe('initialize', () => {
  test.each([...legacyVersions])('agrees to %s', async (protocolVersion) => {
    const gateway = await openGateway();
    const params = { protocolVersion, capabilities: {} };
    const answer = await gateway.send({ body: { jsonrpc: '2.0', id: 'i', method: 'initialize', params } })
      .answer;
    expect(answer.messages).toEqual([
      {
        jsonrpc: '2.0',
        id: 'i',
        result: {
          protocolVersion,
          capabilities: { tools: { listChanged: true } },
          serverInfo: { name: 'holdfast', version: '0' },
        },
      },
    ]);
  });

  test.each(['2026-07-28', '1900-01-01', 'x', ''])(
    'offers its newest to a host that wants %p',
    async (version) => {
      const gateway = await openGateway();
      const params = { protocolVersion: version, capabilities: {} };
      const answer = await gateway.send({ body: { jsonrpc: '2.0', id: 1, method: 'initialize', params } })
        .answer;
      expect(answer.messages[0]?.result).toMatchObject({ protocolVersion: '2025-11-25' });
    },
  );
});

describe('ids', () => {
  const huge = JSON.stringify('x'.repeat(256));
  const ids = [
    '"1"',
    '"init-1"',
    '0',
    '-1',
    '9007199254740993',
    '-12345678901234567890',
    '""',
    '1.5',
    '1e400',
  ];
  test.each([...ids.map((id) => [id, id]), ['one of 256 letters', huge]])(
    '%s comes back as it was sent, with a result and with an error',
    async (_what, id) => {
      const gateway = await openGateway();
      gateway.finishAll();
      const headers = { 'mcp-session-id': await session(gateway) };
      const requests = [
        `{"jsonrpc":"2.0","id":${id},"method":"ping"}`,
        `{"jsonrpc":"2.0","id":${id},"method":"nothing/here"}`,
        call(id),
        call(id, {}, 'no_such_tool'),
      ];
      for (const body of requests) {
        const answer = await gateway.send({ headers, body }).answer;
        expect(answer.body).toContain(`"id":${id},`);
      }
    },
  );

  test.each(['null', '{}', '[]', '[1]', 'true'])('%s is refused with -32600 and id null', async (id) => {
    const gateway = await openGateway();
    const headers = { 'mcp-session-id': await session(gateway) };
    const answer = await gateway.send({ headers, body: call(id) }).answer;
    expect([answer.status, answer.messages[0]?.id, answer.messages[0]?.error?.code]).toEqual([
      400,
      null,
      -32600,
    ]);
    expect(await gateway.runs()).toEqual([]);
  });
});

describe('messages', () => {
  test.each([
    ['a notification', { method: 'notifications/initialized' }],
    ['an unknown notification', { method: 'notifications/what' }],
    ['a call as a notification', { method: 'tools/call', params: { name: 'work' } }],
    ['a response', { id: 9, result: {} }],
    ['an error response', { id: 9, error: { code: 1, message: 'x' } }],
  ])('%s is taken with 202 and no body', async (_what, message) => {
    const gateway = await openGateway();
    const headers = { 'mcp-session-id': await session(gateway) };
    const answer = await gateway.send({ headers, body: { jsonrpc: '2.0', ...message } }).answer;
    expect([answer.status, answer.body, answer.headers['content-length']]).toEqual([202, '', '0']);
    expect(answer.headers['content-type']).toBeUndefined();
    expect(await gateway.runs()).toEqual([]);
  });

  test.each([
    ['a string', '"ping"'],
    ['null', 'null'],
    ['no version', '{"id":1,"method":"ping"}'],
    ['another version', '{"jsonrpc":"1.0","id":1,"method":"ping"}'],
    ['no method', '{"jsonrpc":"2.0","id":1}'],
    ['a method that is no string', '{"jsonrpc":"2.0","id":1,"method":7}'],
    ['positional params', '{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}'],
    ['null params', '{"jsonrpc":"2.0","id":1,"method":"ping","params":null}'],
  ])('%s is refused with -32600', async (_what, body) => {
    const gateway = await openGateway();
    const headers = { 'mcp-session-id': await session(gateway) };
    const answer = await gateway.send({ headers, body }).answer;
    expect([answer.status, answer.messages[0]?.error?.code]).toEqual([400, -32600]);
  });

  test.each(['resources/list', 'prompts/list', 'completion/complete', 'logging/setLevel', 'tasks/get', ''])(
    'the method %p is not found',
    async (method) => {
      const gateway = await openGateway();
      const answer = await (await gateway.host('legacy')).send(method).answer;
      expect([answer.status, answer.messages[0]?.error?.code]).toEqual([200, -32601]);
    },
  );
});

describe('MCP-Protocol-Version', () => {
  const send = async (version: string | undefined) => {
    const gateway = await openGateway();
    const headers = { 'mcp-session-id': await session(gateway), 'mcp-protocol-version': version };
    const body = { jsonrpc: '2.0', id: 1, method: 'ping' };
    const post = await gateway.send({ headers, body }).answer;
    const remove = await gateway.send({ method: 'DELETE', headers }).answer;
    return [post.status, remove.status, post.messages[0]?.error?.data];
  };

  test.each(['2025-06-18, 2025-11-25', '1900-01-01', 'not-a-version', '2025-11-25,', ''])(
    '%p is refused with 400, naming what is served',
    async (version) => {
      const [post, remove, data] = await send(version);
      expect([post, remove]).toEqual([400, 400]);
      expect(data).toMatchObject({ supported: [...legacyVersions] });
    },
  );

  test.each([undefined, ...legacyVersions, '2025-11-25, 2025-11-25'])('%p is served', async (version) => {
    expect(await send(version)).toEqual([200, 200, undefined]);
  });
});

describe('the form of an answer', () => {
  test('is JSON for what is there at once, and a stream for what takes longer', async () => {
    const gateway = await openGateway();
    const host = await gateway.host('legacy');
    const slow = host.begin('work', {});
    const claim = await gateway.claim();
    await hasEvents(slow, 1);
    await gateway.finish(claim, 'late');
    expect((await slow.answer).headers).toMatchObject({
      'content-type': 'text/event-stream',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
    });
    gateway.finishAll('at once');
    const quick = await host.begin('work', {}).answer;
    expect(quick.headers['content-type']).toBe('application/json');
    expect(quick.messages[0]?.result?.content).toEqual([{ type: 'text', text: 'at once' }]);
  });

  test.each(['application/json', 'application/*;q=0.9', undefined])(
    'is JSON for a host that accepts %p, however long it takes',
    async (accept) => {
      const gateway = await openGateway({ settings: { keepAliveMs: 50 } });
      const headers = { 'mcp-session-id': await session(gateway), accept };
      const waiting = gateway.send({ headers, body: call('1', { progressToken: 1 }) });
      const claim = await gateway.claim();
      await gateway.report(claim, 1, 2);
      await gateway.finish(claim, 'done');
      const answer = await waiting.answer;
      expect([answer.headers['content-type'], answer.messages.length]).toEqual(['application/json', 1]);
    },
  );

  test('is a stream for a host that reads nothing else, a refusal too', async () => {
    const gateway = await openGateway();
    gateway.finishAll();
    const headers = { 'mcp-session-id': await session(gateway), accept: 'text/event-stream' };
    for (const body of [call('1'), call('1', {}, 'nope'), '{"jsonrpc":"2.0","id":1,"method":"tools/list"}']) {
      const answer = await gateway.send({ headers, body }).answer;
      expect([answer.status, answer.headers['content-type']]).toEqual([200, 'text/event-stream']);
      expect(answer.messages.map(({ id }) => id)).toEqual([1]);
    }
  });

  test('is 406 with JSON for a host that reads neither', async () => {
    const gateway = await openGateway();
    const headers = { 'mcp-session-id': await session(gateway), accept: 'text/plain' };
    const answer = await gateway.send({ headers, body: call('1') }).answer;
    expect([answer.status, answer.headers['content-type']]).toEqual([406, 'application/json']);
    expect(await gateway.runs()).toEqual([]);
    const get = await gateway.send({ method: 'GET', headers: { ...headers, accept: 'application/json' } })
      .answer;
    expect(get.status).toBe(406);
  });
});

describe('progress', () => {
  test.each([0, '0', 'abc', '', -1.5])(
    'with the token %p reaches the host in order, rising',
    async (token) => {
      const gateway = await openGateway();
      const host = await gateway.host('legacy');
      const stream = host.begin('work', {}, { meta: { progressToken: token } });
      const claim = await gateway.claim();
      await gateway.report(claim, { value: 1, total: 4, message: 'one' }, 1);
      await gateway.report(claim, 0.5, 4);
      await gateway.finish(claim, 'done');
      const { messages } = await stream.answer;
      const progress = progressOf(messages);
      expect(progress[0]).toEqual({ progressToken: token, progress: 1, total: 4, message: 'one' });
      expect(progress.map(({ progressToken }) => progressToken)).toEqual([token, token, token, token]);
      expect(progress.at(-1)!['progress']).toBe(4);
      expectRising(progress);
      expect(messages.at(-1)?.result?.content).toEqual([{ type: 'text', text: 'done' }]);
    },
  );

  test('keeps every digit of its token', async () => {
    const gateway = await openGateway();
    const headers = { 'mcp-session-id': await session(gateway) };
    const body = call('1', { progressToken: 0 }).replace(
      '"progressToken":0',
      '"progressToken":9007199254740993',
    );
    const stream = gateway.send({ headers, body });
    const claim = await gateway.claim();
    await gateway.report(claim, 1);
    await gateway.finish(claim, 'done');
    expect((await stream.answer).body).toContain('"progressToken":9007199254740993,');
  });

  test.each([undefined, null, {}, true])('is not sent with the token %p', async (token) => {
    const gateway = await openGateway({ settings: { keepAliveMs: 20 } });
    const host = await gateway.host('legacy');
    const stream = host.begin('work', {}, { meta: { progressToken: token } });
    const claim = await gateway.claim();
    await gateway.report(claim, 1, 2);
    await until(() => stream.received().includes(': keep-alive'));
    await gateway.finish(claim, 'done');
    expect((await stream.answer).messages.map(({ method }) => method)).toEqual([undefined]);
  });

  test('of our own fills the silence, says what is happening, and rises together with what is reported', async () => {
    const gateway = await openGateway({ settings: { keepAliveMs: 30 } });
    const host = await gateway.host('legacy');
    const stream = host.begin('work', {}, { meta: { progressToken: 'p' } });
    const told = () => progressOf(frames(stream));
    await until(() => told().some(({ message }) => message === 'queued'));
    const claim = await gateway.claim();
    await until(() => told().some(({ message }) => message === 'running, attempt 1'));
    await gateway.report(claim, 0);
    await gateway.report(claim, 7);
    await until(() => told().some(({ progress }) => progress === 7));
    const before = told().length;
    await until(() => told().length > before + 1);
    await gateway.finish(claim, 'done');
    const { messages } = await stream.answer;
    expectRising(progressOf(messages));
    expect(messages.at(-1)?.result).toBeDefined();
  });

  test('says so when no live worker serves the tool', async () => {
    const gateway = await openGateway({ settings: { keepAliveMs: 20 } });
    const [worker] = await gateway.store.workers.live();
    expect(worker).toBeDefined();
    await gateway.store.workers.leave(`worker of ${gateway.url}`);
    const stream = (await gateway.host('legacy')).begin('work', {}, { meta: { progressToken: 1 } });
    await until(() => stream.received().includes('queued: no live worker serves work'));
  });
});

describe('a broken stream', () => {
  test('is taken up by another replica: no value twice, and the result under the first id', async () => {
    const one = await openGateway({ settings: { keepAliveMs: 40 } });
    const other = await openGateway({ store: one.store, settings: { keepAliveMs: 40 } });
    const host = await one.host('legacy');
    const broken = host.begin('work', {}, { id: 'call-7', meta: { progressToken: 0 } });
    const claim = await one.claim();
    await one.report(claim, 1, 2);
    await until(() => progressOf(frames(broken)).some(({ progress }) => progress === 2));
    const read = progressOf(frames(broken));
    const lastEventId = eventIds(broken).at(-1)!;
    broken.cut();
    await one.report(claim, 2, 3);
    const resumed = other.send({
      method: 'GET',
      headers: { 'mcp-session-id': host.session, 'last-event-id': lastEventId },
    });
    await until(() => progressOf(frames(resumed)).some(({ progress }) => progress === 3));
    const fillers = () => progressOf(frames(resumed)).filter(({ message }) => message !== undefined);
    await until(() => fillers().length > 0);
    await one.finish(claim, 'done');
    const { messages } = await resumed.answer;
    expectRising([...read, ...progressOf(messages)]);
    expect(messages.at(-1)).toMatchObject({
      id: 'call-7',
      result: { content: [{ type: 'text', text: 'done' }], _meta: { 'holdfast/run': { id: claim.run.id } } },
    });
    const all = [...eventIds(broken), ...eventIds(resumed)];
    expect(new Set(all).size).toBe(all.length);
    expect((await one.runs()).length).toBe(1);
  });

  test('G88: is taken up after a pause that a restart takes, before anything was reported, and after the run has ended', async () => {
    const gateway = await openGateway();
    const host = await gateway.host('legacy');
    const broken = host.begin('work', {}, { id: 9 });
    const claim = await gateway.claim();
    await hasEvents(broken, 1);
    expect(broken.received()).toMatch(/^retry: 6000$/m);
    const headers = { 'mcp-session-id': host.session, 'last-event-id': eventIds(broken)[0]! };
    broken.cut();
    const first = gateway.send({ method: 'GET', headers });
    await hasEvents(first, 1);
    first.cut();
    await gateway.finish(claim, 'done');
    const again = { ...headers, 'last-event-id': eventIds(first)[0]! };
    const { messages } = await gateway.send({ method: 'GET', headers: again }).answer;
    expect(messages).toMatchObject([{ id: 9, result: { content: [{ type: 'text', text: 'done' }] } }]);
  });

  test('of a caller that an identity function renamed is taken up too', async () => {
    const gateway = await openGateway({ hooks: { identityFromRequest: () => 'somebody' } });
    const host = await gateway.host('legacy');
    const broken = host.begin('work', {});
    const claim = await gateway.claim();
    await hasEvents(broken, 1);
    broken.cut();
    await gateway.finish(claim, 'done');
    const headers = { 'mcp-session-id': host.session, 'last-event-id': eventIds(broken)[0]! };
    expect((await gateway.send({ method: 'GET', headers }).answer).messages.length).toBe(1);
  });

  test('is not taken up by another session, of whichever caller', async () => {
    const gateway = await openGateway();
    const host = await gateway.host('legacy');
    const broken = host.begin('work', {});
    await hasEvents(broken, 1);
    const lastEventId = eventIds(broken)[0]!;
    for (const key of [ci, undefined]) {
      const thief = await gateway.host('legacy', key);
      const answer = await gateway.send({
        method: 'GET',
        headers: {
          ...(key && { authorization: `Bearer ${key}` }),
          'mcp-session-id': thief.session,
          'last-event-id': lastEventId,
        },
      }).answer;
      expect([answer.status, answer.messages[0]?.error?.code]).toEqual([400, -32000]);
    }
    for (const nonsense of ['x', 'a.b', '0']) {
      const headers = { 'mcp-session-id': host.session, 'last-event-id': nonsense };
      expect((await gateway.send({ method: 'GET', headers }).answer).status).toBe(400);
    }
  });

  test('has no ids before 2025-11-25', async () => {
    const gateway = await openGateway();
    const headers = { 'mcp-session-id': await session(gateway, '2025-06-18') };
    const stream = gateway.send({ headers, body: call('1', { progressToken: 1 }) });
    const claim = await gateway.claim();
    await gateway.report(claim, 1);
    await gateway.finish(claim, 'done');
    const { body, messages } = await stream.answer;
    expect(body).not.toMatch(/^(id|retry):/m);
    expect(messages.length).toBe(2);
  });
});

describe('a host that no longer waits', () => {
  test('by cancelling gets nothing more, cannot take the stream up, and the run goes on', async () => {
    const gateway = await openGateway();
    const host = await gateway.host('legacy');
    const stream = host.begin('work', {}, { id: 5, token: 'k' });
    const claim = await gateway.claim();
    await hasEvents(stream, 1);
    await host.send('notifications/cancelled', { requestId: 5 }).answer;
    const headers = { 'mcp-session-id': host.session };
    // It is told apart by its type: "5" is another request.
    const body = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: '5' } };
    await gateway.send({ headers, body }).answer;
    expect(frames(stream)).toEqual([]);
    await gateway.send({ headers, body: { ...body, params: { requestId: 5 } } }).answer;
    expect((await stream.answer).messages).toEqual([]);
    const again = { ...headers, 'last-event-id': eventIds(stream).at(-1)! };
    expect((await gateway.send({ method: 'GET', headers: again }).answer).status).toBe(405);
    expect(gateway.seen).toEqual(['fresh', 'left']);
    await gateway.finish(claim, 'done');
    expect((await host.call('work', {}, { token: 'k' })).content).toEqual([{ type: 'text', text: 'done' }]);
  });

  test('by cancelling before the stream is open is answered 202', async () => {
    const gateway = await openGateway();
    const headers = { 'mcp-session-id': await session(gateway), accept: 'application/json' };
    const waiting = gateway.send({ headers, body: call('5') });
    await gateway.claim();
    const params = { requestId: 5 };
    await gateway.send({ headers, body: { jsonrpc: '2.0', method: 'notifications/cancelled', params } })
      .answer;
    expect(await waiting.answer).toMatchObject({ status: 202, body: '' });
  });

  test('by hanging up leaves the run alone, and nothing is logged', async () => {
    const gateway = await openGateway();
    const host = await gateway.host('legacy');
    const stream = host.begin('work', {}, { token: 'k' });
    const claim = await gateway.claim();
    await hasEvents(stream, 1);
    stream.cut();
    await until(() => gateway.waiting() === 0);
    await gateway.finish(claim, 'done');
    const result = await host.call('work', {}, { token: 'k' });
    expect(result._meta?.['holdfast/run']).toEqual({ id: claim.run.id, attempt: 1, reattached: true });
    expect(gateway.log).toEqual([]);
  });
});

describe('the GET stream', () => {
  test('tells that the tools changed', async () => {
    const gateway = await openGateway();
    const host = await gateway.host('legacy');
    const stream = gateway.send({ method: 'GET', headers: { 'mcp-session-id': host.session } });
    await until(() => stream.received().startsWith(':'));
    await gateway.store.tools.register('default', []);
    await until(() => frames(stream).length > 0);
    expect(frames(stream)).toEqual([{ jsonrpc: '2.0', method: 'notifications/tools/list_changed' }]);
    const listed = await host.send('tools/list').answer;
    expect(listed.messages[0]?.result).toEqual({ tools: [] });
  });

  test('replaces the one that the host had', async () => {
    const gateway = await openGateway();
    const headers = { 'mcp-session-id': await session(gateway) };
    const first = gateway.send({ method: 'GET', headers });
    await until(() => first.received().startsWith(':'));
    const second = gateway.send({ method: 'GET', headers });
    await first.answer;
    await gateway.store.tools.register('default', []);
    await until(() => frames(second).length > 0);
  });

  test('ends when the gateway stops serving, while a call that waits is still answered', async () => {
    const gateway = await openGateway();
    const host = await gateway.host('legacy');
    const stream = gateway.send({ method: 'GET', headers: { 'mcp-session-id': host.session } });
    await until(() => stream.received().startsWith(':'));
    const waiting = host.begin('work', {});
    const claim = await gateway.claim();
    await hasEvents(waiting, 1);
    const drained = gateway.endpoint.drain({ patienceMs: 60_000, hasReplicas: false });
    await stream.answer;
    await gateway.finish(claim, 'done');
    expect((await waiting.answer).messages.length).toBe(1);
    await drained;
  });
});

describe('without sessions', () => {
  test('a host is served as it comes, and gets no session', async () => {
    const gateway = await openGateway({ settings: { legacy: 'stateless' } });
    gateway.finishAll();
    const params = { protocolVersion: '2025-06-18', capabilities: {} };
    const opened = await gateway.send({ body: { jsonrpc: '2.0', id: 1, method: 'initialize', params } })
      .answer;
    expect([opened.status, opened.headers['mcp-session-id']]).toEqual([200, undefined]);
    const answer = await gateway.send({ body: call('1'), headers: { 'mcp-session-id': 'any' } }).answer;
    expect(answer.messages[0]?.result?.content).toEqual([{ type: 'text', text: 'done' }]);
    expect(await gateway.endpoint.sessionCount()).toBe(0);
  });

  test('one host cannot end the wait of another that used the same id', async () => {
    const gateway = await openGateway({ settings: { legacy: 'stateless' }, auth: openToAll });
    const waiting = gateway.send({ body: call('1') });
    const claim = await gateway.claim();
    const params = { requestId: 1 };
    const cancel = { jsonrpc: '2.0', method: 'notifications/cancelled', params };
    expect((await gateway.send({ body: cancel }).answer).status).toBe(202);
    await gateway.finish(claim, 'done');
    expect((await waiting.answer).messages.length).toBe(1);
  });

  test('and without the older eras a host is told which version is served', async () => {
    const gateway = await openGateway({ settings: { legacy: 'reject' } });
    const params = { protocolVersion: '2025-06-18', capabilities: {} };
    const answer = await gateway.send({ body: { jsonrpc: '2.0', id: 1, method: 'initialize', params } })
      .answer;
    expect([answer.status, answer.messages[0]?.id]).toEqual([400, 1]);
    expect(answer.messages[0]?.error).toMatchObject({ code: -32022, data: { supported: ['2026-07-28'] } });
  });
});

function expectRising(progress: readonly Record<string, unknown>[]): void {
  const values = progress.map(({ progress: value }) => value as number);
  expect(values.length).toBeGreaterThan(0);
  for (const [i, value] of values.entries()) if (i > 0) expect(value).toBeGreaterThan(values[i - 1]!);
}
