import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { describe, expect, test } from '@jest/globals';
import {
  afterTest,
  ask,
  desk,
  envelope,
  openGateway,
  openStdio,
  until,
  ways,
  type Answer,
  type Exchange,
  type TestGateway,
} from './test-gateway.js';
import { Budget } from './limits.js';

const initialize = (more: object): object => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'n', version: '1' },
    ...more,
  },
});

/** What the session that is opened by `body` keeps of its host. */
async function keptOf(gateway: TestGateway, body: object): Promise<unknown> {
  const { headers } = await gateway.send({ body }).answer;
  const session = await gateway.store.sessions.get(String(headers['mcp-session-id']), 60_000);
  return session?.client;
}

describe('G21: what a session keeps of its host is bounded', () => {
  const long = 'x'.repeat(15_000);

  test.each([
    [
      'a long name',
      { clientInfo: { name: long, version: '1' } },
      { clientInfo: { name: 'x'.repeat(256), version: '1' } },
    ],
    [
      'a long version',
      { clientInfo: { name: 'n', version: long } },
      { clientInfo: { name: 'n', version: 'x'.repeat(256) } },
    ],
    [
      'icons and other fields',
      { clientInfo: { name: 'n', title: 'T', icons: [{ src: long }], [long]: 1, description: long } },
      { clientInfo: { name: 'n', title: 'T' } },
    ],
    ['a name that is no text', { clientInfo: { name: { a: long }, version: 7 } }, { clientInfo: {} }],
    ['clientInfo that is no object', { clientInfo: long }, { clientInfo: {} }],
    ['clientInfo that is a list', { clientInfo: [long] }, { clientInfo: {} }],
    [
      'capabilities beyond any host',
      { capabilities: { experimental: { [long]: {} } } },
      { capabilities: {} },
    ],
    ['capabilities', { capabilities: { elicitation: {} } }, { capabilities: { elicitation: {} } }],
  ])('%s', async (_what, sent, kept) => {
    const gateway = await openGateway();
    expect(await keptOf(gateway, initialize(sent))).toEqual({
      capabilities: {},
      clientInfo: { name: 'n', version: '1' },
      ...kept,
    });
  });
});

describe('G22: an id or a progress token has at most 256 characters', () => {
  test.each(['x'.repeat(257), 'ü'.repeat(257), 'x'.repeat(20_000), '😀'.repeat(257)])(
    'the id %.8s… is refused',
    async (id) => {
      const gateway = await openGateway();
      const { session } = await gateway.host('legacy');
      const headers = { 'mcp-session-id': session };
      const { status, messages } = await gateway.send({
        headers,
        body: { jsonrpc: '2.0', id, method: 'ping' },
      }).answer;
      expect(status).toBe(400);
      expect(messages).toEqual([
        { jsonrpc: '2.0', id: null, error: { code: -32600, message: 'id must have at most 256 characters' } },
      ]);
    },
  );

  test.each(['x'.repeat(256), '😀'.repeat(256), '', 0])('the id %.8s… is served', async (id) => {
    const gateway = await openGateway();
    const { session } = await gateway.host('legacy');
    const headers = { 'mcp-session-id': session };
    const { messages } = await gateway.send({ headers, body: { jsonrpc: '2.0', id, method: 'ping' } }).answer;
    expect(messages).toEqual([{ jsonrpc: '2.0', id, result: {} }]);
  });

  test.each(['7'.repeat(257), `0.${'1'.repeat(300)}`])(
    'a number of many digits counts by its digits',
    async (digits) => {
      const gateway = await openGateway();
      const { session } = await gateway.host('legacy');
      const headers = { 'mcp-session-id': session };
      const body = `{"jsonrpc":"2.0","id":${digits},"method":"ping"}`;
      expect((await gateway.send({ headers, body }).answer).status).toBe(400);
    },
  );

  test.each(ways)('%s: a longer progress token is refused, and nothing runs', async (way) => {
    const gateway = await openGateway();
    const token = JSON.stringify({ progressToken: 'x'.repeat(257) });
    const meta = way.startsWith('modern') ? JSON.stringify({ ...JSON.parse(token), ...envelope }) : token;
    const params = `{"name":"work","arguments":{},"_meta":${meta}}`;
    const answer = way.startsWith('modern')
      ? await askModern(gateway, way, params)
      : await ask(gateway, way, 'tools/call', params);
    expect(answer).toMatch(/"id":"asked".*"code":-32602.*progressToken must have at most 256 characters/);
    expect(await gateway.runs()).toEqual([]);
  });

  /** `ask` writes the envelope itself; here `_meta` has more than that. */
  async function askModern(gateway: TestGateway, way: string, params: string): Promise<string> {
    const body = `{"jsonrpc":"2.0","id":"asked","method":"tools/call","params":${params}}`;
    if (way.endsWith('stdio')) {
      const host = openStdio(gateway);
      host.write(`${body}\n`);
      await host.answer('asked');
      const lines = host.received();
      await host.hangUp();
      return lines;
    }
    const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'work' };
    return (await gateway.send({ headers, body }).answer).body;
  }
});

describe('a message is measured before it is parsed', () => {
  const ping = (value: string): string =>
    `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"pad":${value}}}`;
  const many = [
    ['{},', `[${'{},'.repeat(2_000)}{}]`],
    ['[],', `[${'[],'.repeat(2_000)}[]]`],
    ['0,', `[${'0,'.repeat(2_000)}0]`],
    ['members', `{${Array.from({ length: 2_000 }, (_, n) => `"${n}":0`).join()}}`],
  ] as const;

  test.each(many)('G23: %s, more values than the limit, and the refusal names it', async (_what, value) => {
    const gateway = await openGateway({ limits: { messageValues: 1_000 } });
    const { status, messages } = await gateway.send({ body: ping(value) }).answer;
    expect(status).toBe(413);
    expect(messages[0]?.error?.message).toMatch(/1000 JSON values \(HOLDFAST_LIMITS_MESSAGE_VALUES\)/);
    expect(gateway.seen).toEqual(['refused body_values']);
  });

  test('G23: a line over stdio is measured too, and the next one is served', async () => {
    const gateway = await openGateway({ limits: { messageValues: 1_000 } });
    const host = openStdio(gateway);
    host.write(`${ping(many[0][1])}\n${ping('0').replace('"id":1', '"id":2')}\n`);
    await host.answer(2);
    expect(host.messages()[0]?.error?.message).toMatch(/1000 JSON values/);
    await host.hangUp();
  });

  test.each([
    [
      'clientInfo',
      (value: string) =>
        JSON.stringify(initialize({ clientInfo: 0 })).replace('"clientInfo":0', `"clientInfo":${value}`),
    ],
    [
      'capabilities',
      (value: string) =>
        JSON.stringify(initialize({ capabilities: 0 })).replace(
          '"capabilities":0',
          `"capabilities":${value}`,
        ),
    ],
    ['a member of params', ping],
  ])('G30: %s nested beyond 256 levels is refused as the fault of the host', async (_what, write) => {
    const gateway = await openGateway();
    for (const [open, close] of [
      ['[', ']'],
      ['{"a":', '}'],
    ] as const) {
      const value = `${open.repeat(6_000)}0${close.repeat(6_000)}`;
      const { status, messages } = await gateway.send({ body: write(value) }).answer;
      expect([status, messages[0]?.error?.code]).toEqual([400, -32600]);
      expect(messages[0]?.error?.message).toMatch(/deeper than 256 levels/);
    }
    expect(gateway.log).toEqual([]);
  });
});

describe('G23: the bytes of unanswered requests are bounded', () => {
  const limits = { requestBytes: 50_000, callerRequestBytes: 20_000 };

  test('of one caller: 429 says when to come back, others are served, and answers make room', async () => {
    const gateway = await openGateway({ limits });
    const [host, other] = [await gateway.host('modern'), await gateway.host('modern', 'key-of-ci')];
    const pad = 'x'.repeat(8_000);
    const calls = [host.begin('work', { pad, n: 1 }), host.begin('work', { pad, n: 2 })];
    await until(async () => (await gateway.runs()).length === 2);
    const refused = await host.begin('work', { pad, n: 3 }).answer;
    expect([refused.status, refused.headers['retry-after'], refused.messages[0]?.id]).toEqual([
      429,
      '1',
      null,
    ]);
    expect(refused.messages[0]?.error?.message).toMatch(/HOLDFAST_LIMITS_CALLER_REQUEST_BYTES/);
    expect(gateway.seen).toContain('refused bytes_in_flight');
    calls.push(other.begin('work', { pad, n: 4 }));
    await until(async () => (await gateway.runs()).length === 3);
    gateway.finishAll();
    for (let n = 0; n < 3; n++) await gateway.finish(await gateway.claim(), 'done');
    for (const call of calls) expect((await call.answer).status).toBe(200);
    expect((await host.begin('work', { pad, n: 3 }).answer).status).toBe(200);
  });

  test('of all callers together', async () => {
    const gateway = await openGateway({ limits: { requestBytes: 20_000, callerRequestBytes: 18_000 } });
    const [host, other] = [await gateway.host('modern'), await gateway.host('modern', 'key-of-ci')];
    const calls = [host.begin('work', { pad: 'x'.repeat(15_000) })];
    await until(async () => (await gateway.runs()).length === 1);
    const refused = await other.begin('work', { pad: 'x'.repeat(15_000) }).answer;
    expect(refused.status).toBe(429);
    expect(refused.messages[0]?.error?.message).toMatch(/HOLDFAST_LIMITS_REQUEST_BYTES/);
    await gateway.finish(await gateway.claim(), 'done');
    await Promise.all(calls.map(({ answer }) => answer));
  });

  test('a single request that is larger than the share of its caller is served', () => {
    const holding = new Budget(100, 10).open('one');
    expect([holding.take(8), holding.take(8)]).toEqual([undefined, undefined]);
  });
});

describe('G53: a compressed body is read', () => {
  const text = JSON.stringify(initialize({}));
  const codings: readonly [string, (text: string) => Buffer][] = [
    ['gzip', gzipSync],
    ['x-gzip', gzipSync],
    ['GZIP', gzipSync],
    ['deflate', deflateSync],
    ['deflate', deflateRawSync],
    ['br', brotliCompressSync],
    ['identity', (whole) => Buffer.from(whole)],
  ];

  test.each(codings)('%s', async (coding, compress) => {
    const gateway = await openGateway();
    const answer = await gateway.send({
      headers: { 'content-encoding': coding },
      body: compress(text),
    }).answer;
    expect([answer.status, answer.messages[0]?.id]).toEqual([200, 1]);
  });

  test.each(codings.slice(0, -1))('%s is bounded by what it holds', async (coding, compress) => {
    const gateway = await openGateway({ settings: { maxBodyBytes: 10_000 } });
    const body = compress(`{"pad":"${'x'.repeat(10_000_000)}"}`);
    const answer = await gateway.send({ headers: { 'content-encoding': coding }, body }).answer;
    expect(answer.status).toBe(413);
    expect(answer.messages[0]?.error?.message).toMatch(/10000 bytes \(HOLDFAST_MAX_BODY_BYTES\)/);
  });

  test('a body that is not what it says is 400, and a coding that is not known is 415', async () => {
    const gateway = await openGateway();
    for (const [coding, status] of [
      ['gzip', 400],
      ['deflate', 400],
      ['br', 400],
      ['zstd', 415],
      ['gzip, br', 415],
      ['__proto__', 415],
    ] as const)
      expect(
        (await gateway.send({ headers: { 'content-encoding': coding }, body: text }).answer).status,
      ).toBe(status);
  });
});

describe('G28: answers that their hosts do not read', () => {
  const big = JSON.stringify({ content: [{ type: 'text', text: 'x'.repeat(12_000_000) }] });

  /** Sends a call as raw bytes and reads nothing of its answer. */
  function callUnread(
    gateway: TestGateway,
    era: 'legacy' | 'modern',
    { session = '', key = desk, n = 0 } = {},
  ): Socket {
    const { hostname, port } = new URL(gateway.url);
    const socket = createConnection(Number(port), hostname);
    socket.on('error', () => {}).pause();
    afterTest(() => socket.destroy());
    const _meta = { idempotency_key: `same-${n}`, ...(era === 'modern' && envelope) };
    const params = { name: 'work', arguments: {}, _meta };
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });
    const own =
      era === 'legacy'
        ? `Mcp-Session-Id: ${session}`
        : 'MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: work';
    socket.write(
      `POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\nAccept: application/json, text/event-stream\r\n` +
        `Content-Type: application/json\r\n${own}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    return socket;
  }

  test.each(['legacy', 'modern'] as const)(
    '%s: a host that takes nothing for a while is cut off',
    async (era) => {
      const gateway = await openGateway({ limits: { unreadMs: 100 } });
      gateway.finishAll('', big);
      const { session } = await gateway.host('legacy');
      const socket = callUnread(gateway, era, { session: session! });
      await until(() => gateway.debugLog.some(({ message }) => message.startsWith('host takes nothing')));
      const closed = once(socket, 'close');
      socket.resume();
      await closed;
      expect(socket.bytesRead).toBeLessThan(big.length);
    },
  );

  test('a host that reads slowly gets all of it', async () => {
    const gateway = await openGateway({ limits: { unreadMs: 1_000 } });
    gateway.finishAll('', big);
    const socket = callUnread(gateway, 'modern');
    let head = '';
    let taken = 0;
    socket.on('data', (chunk: Buffer) => {
      head ||= chunk.toString();
      taken += chunk.length;
      socket.pause();
      setImmediate(() => socket.resume());
    });
    socket.resume();
    const length = await until(() => /content-length: (\d+)/i.exec(head)?.[1]);
    await until(() => taken >= Number(length));
    expect(taken).toBeGreaterThan(big.length);
  });

  test('are bounded per caller, and another caller is answered', async () => {
    const gateway = await openGateway({ limits: { unreadBytes: 1e8, callerUnreadBytes: 3e7 } });
    gateway.finishAll('', big);
    const [host, other] = [await gateway.host('modern'), await gateway.host('modern', 'key-of-ci')];
    await host.call('work', {}, { token: 'same-0' });
    for (let n = 0; n < 2; n++) callUnread(gateway, 'modern');
    await until(() => gateway.seen.filter((word) => word === 'ran').length === 3);
    const refused = await host.begin('work', {}, { token: 'same-0' }).answer;
    expect([refused.status, refused.headers['retry-after']]).toEqual([429, '1']);
    expect(refused.messages[0]?.error?.message).toMatch(
      /unread answers.*HOLDFAST_LIMITS_CALLER_UNREAD_BYTES/,
    );
    expect(gateway.seen).toContain('refused unread_bytes');
    expect((await other.begin('work', {}).answer).status).toBe(200);
  });

  test('what is taken makes room', async () => {
    const gateway = await openGateway({ limits: { callerUnreadBytes: 2e7 } });
    gateway.finishAll('', big);
    const host = await gateway.host('modern');
    for (let n = 0; n < 4; n++)
      expect((await host.begin('work', {}, { token: 'same-0' }).answer).status).toBe(200);
  });
});

describe('G27: what one caller takes is bounded, and another caller is served', () => {
  const said = ({ status, headers, messages }: Answer) => [
    status,
    headers['retry-after'],
    messages[0]?.error?.message,
  ];

  test('streams of either era', async () => {
    const gateway = await openGateway({ limits: { callerStreams: 2 } });
    const open = async (key: string): Promise<Exchange> => {
      const { session } = await gateway.host('legacy', key);
      return gateway.send({
        method: 'GET',
        headers: { authorization: `Bearer ${key}`, 'mcp-session-id': session },
      });
    };
    const listen = (key: string): Exchange =>
      gateway.send({
        headers: {
          authorization: `Bearer ${key}`,
          'mcp-protocol-version': '2026-07-28',
          'mcp-method': 'subscriptions/listen',
        },
        body: {
          jsonrpc: '2.0',
          id: 1,
          method: 'subscriptions/listen',
          params: { notifications: { toolsListChanged: true }, _meta: envelope },
        },
      });
    const [first, second] = [await open(desk), listen(desk)];
    for (const stream of [first, second]) await until(() => stream.received() !== '');
    for (const refused of [await (await open(desk)).answer, await listen(desk).answer])
      expect(said(refused)).toEqual([429, '5', expect.stringContaining('HOLDFAST_LIMITS_CALLER_STREAMS')]);
    const others = listen('key-of-ci');
    await until(() => others.received().includes('acknowledged'));
    first.cut();
    await first.answer.catch(() => {});
    await until(async () => {
      const again = listen(desk);
      again.answer.catch(() => {});
      await until(() => again.received() !== '');
      return again.received().includes('acknowledged');
    });
  });

  test.each(['legacy', 'modern'] as const)('%s: calls that wait for their answer', async (era) => {
    const gateway = await openGateway({ limits: { callerCalls: 2 } });
    const [host, others] = [await gateway.host(era), await gateway.host(era, 'key-of-ci')];
    const waiting = [host.begin('work', { n: 1 }), host.begin('work', { n: 2 })];
    await until(() => gateway.waiting() === 2);
    const refused = await host.begin('work', { n: 3 }).answer;
    expect(said(refused)).toEqual([429, '1', expect.stringContaining('HOLDFAST_LIMITS_CALLER_CALLS')]);
    expect(gateway.seen).toContain('refused runs_under_way');
    gateway.finishAll();
    waiting.push(others.begin('work', {}));
    for (const { answer } of waiting) expect((await answer).status).toBe(200);
    expect((await host.begin('work', { n: 3 }).answer).status).toBe(200);
  });

  test('calls a second', async () => {
    const gateway = await openGateway({ limits: { callerCallsPerSecond: 3 } });
    gateway.finishAll();
    const [host, others] = [await gateway.host('modern'), await gateway.host('modern', 'key-of-ci')];
    const answers = await Promise.all(Array.from({ length: 12 }, (_, n) => host.begin('work', { n }).answer));
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused.length).toBeGreaterThan(0);
    expect(said(refused[0]!)).toEqual([
      429,
      '1',
      expect.stringContaining('HOLDFAST_LIMITS_CALLER_CALLS_PER_SECOND'),
    ]);
    expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThan(2);
    expect((await others.begin('work', {}).answer).status).toBe(200);
    await until(async () => (await host.begin('work', {}).answer).status === 200);
  });
});

test('G65: the 404 of an unknown session has the id of the request', async () => {
  const gateway = await openGateway();
  const headers = { 'mcp-session-id': 'never-issued' };
  for (const id of [7, 'seven']) {
    const answer = await gateway.send({ headers, body: { jsonrpc: '2.0', id, method: 'tools/list' } }).answer;
    expect([answer.status, answer.messages[0]?.id, answer.messages[0]?.error?.code]).toEqual([
      404,
      id,
      -32001,
    ]);
  }
  const note = await gateway.send({ headers, body: { jsonrpc: '2.0', method: 'notifications/initialized' } })
    .answer;
  expect([note.status, note.messages[0]?.id]).toEqual([404, null]);
});
