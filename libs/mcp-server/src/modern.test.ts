import { describe, expect, test } from '@jest/globals';
import {
  messagesOf,
  openGateway,
  until,
  type Answer,
  type Message,
  type Sending,
  type TestGateway,
} from './test-gateway.js';

const version = 'io.modelcontextprotocol/protocolVersion';
const envelope = { [version]: '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} };

/** A request as a host of the era sends it; `id` is JSON text. */
function request(method: string, params: Record<string, unknown> = {}, id = '1'): Sending {
  const name = params['name'];
  const meta = { ...envelope, ...(params['_meta'] as object | undefined) };
  return {
    headers: {
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...(typeof name === 'string' && { 'mcp-name': name }),
    },
    body: `{"jsonrpc":"2.0","id":${id},"method":"${method}","params":${JSON.stringify({ ...params, _meta: meta })}}`,
  };
}

const withHeaders = (sending: Sending, headers: Sending['headers']): Sending => ({
  ...sending,
  headers: { ...sending.headers, ...headers },
});
const post = (gateway: TestGateway, sending: Sending): Promise<Answer> => gateway.send(sending).answer;
const errorOf = ({ status, messages }: Answer) => [status, messages[0]?.error?.code];
const progressOf = (messages: readonly Message[]) =>
  messages.filter(({ method }) => method === 'notifications/progress').map(({ params }) => params!);

test('a host discovers tools and nothing else', async () => {
  const gateway = await openGateway();
  const { messages } = await post(gateway, request('server/discover'));
  expect(messages[0]?.result).toMatchObject({
    resultType: 'complete',
    supportedVersions: ['2026-07-28'],
    capabilities: { tools: { listChanged: true } },
    _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'holdfast', version: '0' } },
  });
  expect(Object.keys(messages[0]!.result!['capabilities'] as object)).toEqual(['tools']);
});

test('a list is private to its caller and lives as long as the deployment says', async () => {
  const gateway = await openGateway({ settings: { listTtlMs: 1_234 } });
  const { messages } = await post(gateway, request('tools/list'));
  expect(messages[0]?.result).toMatchObject({ resultType: 'complete', ttlMs: 1_234, cacheScope: 'private' });
  const tools = messages[0]!.result!['tools'] as { name: string }[];
  expect(tools.map(({ name }) => name)).toEqual(['lookup_order', 'refund_order', 'work']);
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
    String.raw`"\"tools\":[]"`,
  ];
  test.each([...ids.map((id) => [id, id]), ['one of 256 letters', huge]])(
    '%s comes back as it was sent, at once and on a stream',
    async (_what, id) => {
      const gateway = await openGateway();
      const requests = [
        request('tools/list', {}, id),
        request('nothing/here', {}, id),
        request('tools/call', { name: 'no_such_tool' }, id),
      ];
      for (const sending of requests) expect((await post(gateway, sending)).body).toContain(`"id":${id}`);
      const slow = gateway.send(request('tools/call', { name: 'work', _meta: { progressToken: 'p' } }, id));
      const claim = await gateway.claim();
      await gateway.report(claim, 1);
      await until(() => slow.received().includes('notifications/progress'));
      await gateway.finish(claim, 'done');
      const answer = await slow.answer;
      expect(answer.headers['content-type']).toMatch(/^text\/event-stream/);
      expect(answer.body).toContain(`"id":${id}`);
    },
  );

  test.each(['null', '{}', '[1]', 'true'])('%s is refused with -32600 and id null', async (id) => {
    const gateway = await openGateway();
    const answer = await post(gateway, request('tools/call', { name: 'work' }, id));
    expect([...errorOf(answer), answer.messages[0]?.id]).toEqual([400, -32600, null]);
    expect(await gateway.runs()).toEqual([]);
  });
});

describe('a request that is refused', () => {
  const call = request('tools/call', { name: 'work' });
  const cases: [string, Sending, unknown[]][] = [
    ['names another method in its header', withHeaders(call, { 'mcp-method': 'tools/list' }), [400, -32020]],
    ['names no method in its header', withHeaders(call, { 'mcp-method': undefined }), [400, -32020]],
    ['names another tool in its header', withHeaders(call, { 'mcp-name': 'refund_order' }), [400, -32020]],
    ['names no tool in its header', withHeaders(call, { 'mcp-name': undefined }), [400, -32020]],
    ['has a name that cannot be decoded', withHeaders(call, { 'mcp-name': '=?base64?%?=' }), [400, -32020]],
    ['has a name in base64 without its padding', withHeaders(call, { 'mcp-name': '=?base64?d29yaw?=' }), [400, -32020]],
    ['has a name in base64 that is no text', withHeaders(call, { 'mcp-name': '=?base64?/w==?=' }), [400, -32020]],
    ['has another name in base64', withHeaders(call, { 'mcp-name': '=?base64?d29ybA==?=' }), [400, -32020]],
    ['has its name in base64 of another spelling', withHeaders(call, { 'mcp-name': '=?BASE64?d29yaw==?=' }), [400, -32020]],
    ['has two names', withHeaders(call, { 'mcp-name': ['work', 'work2'] }), [400, -32020]],
    ['has two methods', withHeaders(call, { 'mcp-method': ['tools/call', 'tools/list'] }), [400, -32020]],
    ['has no version header', withHeaders(call, { 'mcp-protocol-version': undefined }), [400, -32020]],
    ['has another version header', withHeaders(call, { 'mcp-protocol-version': '2025-11-25' }), [400, -32020]],
    ['has two version headers', withHeaders(call, { 'mcp-protocol-version': ['2026-07-28', '2025-11-25'] }), [400, -32020]],
    ['has no capabilities', request('tools/list', { _meta: { 'io.modelcontextprotocol/clientCapabilities': undefined } }), [400, -32602]],
    ['has capabilities that are no object', request('tools/list', { _meta: { 'io.modelcontextprotocol/clientCapabilities': [] } }), [400, -32602]],
    ['has a version that is no text', request('tools/list', { _meta: { [version]: 20260728 } }), [400, -32602]],
    ['has no version in its envelope', request('tools/list', { _meta: { [version]: undefined } }), [400, -32602]],
    ['is of another version to come than its header', request('tools/list', { _meta: { [version]: '2999-01-01' } }), [400, -32020]],
    ['is a response', { ...call, body: { jsonrpc: '2.0', id: 1, result: {} } }, [400, -32600]],
    ['has no envelope', { ...call, body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'work' } } }, [400, -32602]],
    ['is of a version to come', withHeaders(request('tools/list', { _meta: { [version]: '2999-01-01' } }), { 'mcp-protocol-version': '2999-01-01' }), [400, -32022]],
    ['is of no method we have', request('resources/list'), [404, -32601]],
    ['is of the era before', request('ping'), [404, -32601]],
    ['is a call of a tool that is not there', request('tools/call', { name: 'nope' }), [200, -32602]],
    ['is a call without a tool', request('tools/call', {}), [200, -32602]],
    ['has a cursor that was never given', request('tools/list', { cursor: 'x' }), [200, -32602]],
    ['has a cursor that is no text', request('tools/list', { cursor: 1 }), [200, -32602]],
  ]; // prettier-ignore

  test.each(cases)('%s', async (_what, sending, expected) => {
    const gateway = await openGateway();
    expect(errorOf(await post(gateway, sending))).toEqual(expected);
    expect(await gateway.runs()).toEqual([]);
  });

  test('for its version is told which is served', async () => {
    const gateway = await openGateway();
    const sending = request('tools/list', { _meta: { [version]: '2999-01-01' } });
    const { messages } = await post(gateway, withHeaders(sending, { 'mcp-protocol-version': '2999-01-01' }));
    expect(messages[0]?.error?.data).toMatchObject({ supported: ['2026-07-28'], requested: '2999-01-01' });
  });
});

test.each(['work', 'wörk ☃', '=?base64?d29yaw==?='])('the name %s may be written in base64', async (tool) => {
  const gateway = await openGateway();
  const name = `=?base64?${Buffer.from(tool).toString('base64')}?=`;
  const sending = withHeaders(request('tools/call', { name: tool }), { 'mcp-name': name });
  gateway.finishAll();
  const { status, messages } = await post(gateway, sending);
  // One that nobody has is unknown, and no mismatch.
  expect(status).toBe(200);
  if (tool === 'work') expect(messages[0]?.result?.content).toEqual([{ type: 'text', text: 'done' }]);
  else expect(messages[0]?.error?.code).toBe(-32602);
});

test('no session is made, and one that is named is ignored', async () => {
  const gateway = await openGateway();
  gateway.finishAll();
  const sending = withHeaders(request('tools/call', { name: 'work' }), { 'mcp-session-id': 'unknown' });
  const answer = await post(gateway, sending);
  expect([answer.status, answer.headers['mcp-session-id']]).toEqual([200, undefined]);
  expect(await gateway.endpoint.sessionCount()).toBe(0);
});

test('a notification is taken with 202 and no body', async () => {
  const gateway = await openGateway();
  const { headers } = request('notifications/cancelled');
  const body = {
    jsonrpc: '2.0',
    method: 'notifications/cancelled',
    params: { requestId: 1, _meta: envelope },
  };
  const answer = await post(gateway, { headers, body });
  expect([answer.status, answer.body, answer.headers['content-length']]).toEqual([202, '', '0']);
});

describe('the form of an answer', () => {
  test('is JSON for what is there at once, and a stream that opens early for what takes longer', async () => {
    const gateway = await openGateway();
    const slow = gateway.send(request('tools/call', { name: 'work' }));
    const claim = await gateway.claim();
    await until(() => slow.received().startsWith(':'));
    await gateway.finish(claim, 'late');
    const answer = await slow.answer;
    expect(answer.headers).toMatchObject({ 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' });
    expect(answer.messages).toMatchObject([{ id: 1, result: { resultType: 'complete' } }]);
    gateway.finishAll('at once');
    const quick = await post(gateway, request('tools/call', { name: 'work' }));
    expect(quick.headers['content-type']).toBe('application/json');
  });

  test.each(['application/json', 'application/*;q=0.9', undefined])(
    'is JSON for a host that accepts %p, however long it takes',
    async (accept) => {
      const gateway = await openGateway({ settings: { keepAliveMs: 50 } });
      const params = { name: 'work', _meta: { progressToken: 1 } };
      const waiting = gateway.send(withHeaders(request('tools/call', params), { accept }));
      const claim = await gateway.claim();
      await gateway.report(claim, 1, 2);
      await gateway.finish(claim, 'done');
      const answer = await waiting.answer;
      expect([answer.headers['content-type'], answer.messages.length]).toEqual(['application/json', 1]);
    },
  );

  test('is a stream for a host that reads nothing else', async () => {
    const gateway = await openGateway();
    gateway.finishAll();
    for (const sending of [request('tools/list'), request('tools/call', { name: 'work' }), request('tools/call', { name: 'nope' })]) {
      const answer = await post(gateway, withHeaders(sending, { accept: 'text/event-stream' }));
      expect([answer.status, answer.headers['content-type']]).toEqual([200, 'text/event-stream']);
      expect(answer.messages.map(({ id }) => id)).toEqual([1]);
    } // prettier-ignore
  });

  test('is 406 with JSON for a host that reads neither', async () => {
    const gateway = await openGateway();
    const answer = await post(gateway, withHeaders(request('tools/list'), { accept: 'text/plain' }));
    expect([answer.status, answer.headers['content-type']]).toEqual([406, 'application/json']);
  });
});

describe('progress', () => {
  test.each([0, '0', 'abc', '', -1.5])(
    'with the token %p reaches the host in order, rising',
    async (token) => {
      const gateway = await openGateway({ settings: { keepAliveMs: 40 } });
      const stream = gateway.send(request('tools/call', { name: 'work', _meta: { progressToken: token } }));
      const claim = await gateway.claim();
      await gateway.report(claim, { value: 1, total: 4, message: 'one' }, 1, 0.5);
      await until(() => stream.received().includes('running, attempt 1'));
      await gateway.report(claim, 4);
      await gateway.finish(claim, 'done');
      const { messages } = await stream.answer;
      const progress = progressOf(messages);
      expect(progress).toContainEqual({ progressToken: token, progress: 1, total: 4, message: 'one' });
      const values = progress.map(({ progress: value }) => value as number);
      expect(values).toEqual([...new Set(values)].sort((a, b) => a - b));
      expect(values.at(-1)).toBe(4);
      expect(new Set(progress.map(({ progressToken }) => progressToken))).toEqual(new Set([token]));
      expect(messages.at(-1)?.result?.content).toEqual([{ type: 'text', text: 'done' }]);
    },
  );

  test('is not sent when it was not asked for', async () => {
    const gateway = await openGateway({ settings: { keepAliveMs: 20 } });
    const stream = gateway.send(request('tools/call', { name: 'work' }));
    const claim = await gateway.claim();
    await gateway.report(claim, 1, 2);
    await until(() => stream.received().includes(': keep'));
    await gateway.finish(claim, 'done');
    expect((await stream.answer).messages.length).toBe(1);
  });
});

test('a host that hangs up leaves the run alone, and nothing is logged', async () => {
  const gateway = await openGateway();
  const params = { name: 'work', _meta: { idempotency_key: 'k' } };
  const before = gateway.send(request('tools/call', params));
  const claim = await gateway.claim();
  before.cut();
  await until(() => gateway.waiting() === 0);
  const streaming = gateway.send(request('tools/call', params));
  await until(() => streaming.received().startsWith(':'));
  streaming.cut();
  await until(() => gateway.waiting() === 0);
  await gateway.finish(claim, 'done');
  const { messages } = await post(gateway, request('tools/call', params));
  expect(messages[0]?.result?._meta?.['holdfast/run']).toMatchObject({ id: claim.run.id, reattached: true });
  expect(gateway.log).toEqual([]);
  expect(gateway.seen).toEqual(['fresh', 'left', 'reattached', 'left', 'reattached', 'ran']);
});

test('a number that a double cannot hold comes back in a result with every digit', async () => {
  const gateway = await openGateway();
  const waiting = gateway.send(request('tools/call', { name: 'work' }));
  const claim = await gateway.claim();
  const result = '{"content":[],"structuredContent":{"n":9007199254740993}}';
  await gateway.store.runs.finish(claim, { state: 'succeeded', result });
  expect((await waiting.answer).body).toContain('"n":9007199254740993}');
});

test('a subscription is acknowledged and told that the tools changed', async () => {
  const gateway = await openGateway();
  const stream = gateway.send(
    request('subscriptions/listen', { notifications: { toolsListChanged: true } }, '"s"'),
  );
  const frames = () => messagesOf(stream.received());
  await until(() => frames().length > 0);
  expect(frames()[0]).toMatchObject({
    method: 'notifications/subscriptions/acknowledged',
    params: { notifications: { toolsListChanged: true } },
  });
  expect(frames()).toHaveLength(1);
  await gateway.store.tools.register('default', []);
  await until(() => frames().length > 1);
  expect(frames()[1]).toMatchObject({
    method: 'notifications/tools/list_changed',
    params: { _meta: { 'io.modelcontextprotocol/subscriptionId': 's' } },
  });
});

test('an argument called __proto__ is an argument like any other, and is not dropped on the way', async () => {
  const gateway = await openGateway();
  const body = (x: string): Sending => {
    const sending = request('tools/call', {
      name: 'work',
      arguments: {},
      _meta: { idempotency_key: 'proto' },
    });
    return {
      ...sending,
      body: (sending.body as string).replace('"arguments":{}', `"arguments":{"__proto__":${x}}`),
    };
  };
  gateway.finishAll();
  const names = [];
  for (const x of ['{"a":1}', '{"a":2}']) {
    const answer = await post(gateway, body(x));
    const meta = answer.messages.at(-1)!.result!._meta!;
    names.push(meta['holdfast/error']?.name ?? 'ran');
  }
  expect(names).toEqual(['ran', 'IdempotencyConflict']);
});
