import { createConnection } from 'node:net';
import { once } from 'node:events';
import { describe, expect, test } from '@jest/globals';
import { exchange, openGateway, type Answer, type Sending, type TestGateway } from './test-gateway.js';

const initialize = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
};

/** Sends `text` as it is and resolves to all that comes back until the connection ends. */
async function raw(gateway: TestGateway, text: string): Promise<string> {
  const { hostname, port } = new URL(gateway.url);
  const socket = createConnection(Number(port), hostname);
  let received = '';
  socket.setEncoding('utf8').on('data', (chunk: string) => (received += chunk));
  socket.on('error', () => {});
  socket.write(text);
  await once(socket, 'close');
  return received;
}

const errorOf = ({ messages }: Answer) => ({ id: messages[0]?.id, code: messages[0]?.error?.code });

describe('order of the checks', () => {
  const wrongKey = { authorization: 'Bearer wrong' };
  const evil = { origin: 'http://evil.example' };
  const cases: [string, Sending, number][] = [
    ['a wrong key before a wrong Origin', { headers: { ...wrongKey, ...evil } }, 401],
    ['a wrong key before a wrong Host', { headers: { ...wrongKey, host: 'evil.example' } }, 401],
    ['a wrong key before a wrong method', { method: 'PUT', headers: wrongKey }, 401],
    ['a wrong key before a bad body', { headers: { ...wrongKey, 'content-type': 'text/plain' }, body: '{' }, 401],
    ['a wrong Origin before a wrong method', { method: 'PUT', headers: evil }, 403],
    ['a wrong Origin before a bad body', { headers: evil, body: '{' }, 403],
    ['a wrong type before a body that is no JSON', { headers: { 'content-type': 'text/plain' }, body: '{' }, 415],
    ['a bad body before a missing session', { body: '{' }, 400],
    ['a bad body before an era', { headers: { 'mcp-protocol-version': '2026-07-28' }, body: '{' }, 400],
  ]; // prettier-ignore

  test.each(cases)('%s', async (_what, sending, status) => {
    const gateway = await openGateway();
    expect((await gateway.send(sending).answer).status).toBe(status);
  });
});

describe('Origin and Host', () => {
  test.each([
    'null',
    'http://localhost.evil.example',
    'http://evil.example',
    'http://localhost@evil.example',
  ])('a page of %s is refused with 403 and may read nothing', async (origin) => {
    const gateway = await openGateway();
    for (const method of ['POST', 'GET', 'DELETE', 'OPTIONS']) {
      const body = method === 'POST' ? initialize : undefined;
      const answer = await gateway.send({ method, headers: { origin }, body }).answer;
      expect([method, answer.status]).toEqual([method, 403]);
      expect(answer.headers['access-control-allow-origin']).toBeUndefined();
      expect(errorOf(answer)).toEqual({ id: null, code: -32000 });
    }
    expect(await gateway.endpoint.sessionCount()).toBe(0);
  });

  test.each(['evil.example', 'evil.example:80', 'localhost.evil.example', 'a@localhost'])(
    'a request to the name %s is refused with 403',
    async (host) => {
      const gateway = await openGateway();
      const answer = await gateway.send({ headers: { host }, body: initialize }).answer;
      expect([answer.status, errorOf(answer)]).toEqual([403, { id: null, code: -32000 }]);
    },
  );

  test('the actual answer lets a page read the session and the challenge, a 401 too', async () => {
    const gateway = await openGateway();
    const origin = 'http://localhost:6274';
    for (const [authorization, status] of [[undefined, 200], ['Bearer wrong', 401]] as const) {
      const answer = await gateway.send({
        headers: { origin, ...(authorization && { authorization }) },
        body: initialize,
      }).answer;
      expect(answer.status).toBe(status);
      expect(answer.headers).toMatchObject({
        'access-control-allow-origin': origin,
        'access-control-expose-headers': 'Mcp-Session-Id, WWW-Authenticate',
        vary: 'Origin',
      });
    } // prettier-ignore
    const host = await gateway.host('modern');
    expect(host.era).toBe('modern');
  });

  test('streams of both eras are readable by a page', async () => {
    const gateway = await openGateway();
    gateway.finishAll();
    const { session } = await gateway.host('legacy');
    const origin = 'http://localhost:6274';
    const accept = 'text/event-stream';
    const legacy = await gateway.send({
      headers: { origin, accept, 'mcp-session-id': session },
      body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'work' } },
    }).answer;
    const modern = await gateway.send({
      headers: { origin, accept, ...modernHeaders('tools/call', 'work') },
      body: modernCall('work'),
    }).answer;
    for (const answer of [legacy, modern]) {
      expect(answer.headers['content-type']).toBe('text/event-stream');
      expect(answer.headers['access-control-allow-origin']).toBe(origin);
      expect(answer.messages.at(-1)?.result?.content).toEqual([{ type: 'text', text: 'done' }]);
    }
  });

  test('a preflight is answered without credentials', async () => {
    const gateway = await openGateway();
    const answer = await exchange(gateway.url, {
      method: 'OPTIONS',
      headers: { origin: 'http://localhost:1', 'access-control-request-method': 'POST' },
    }).answer;
    expect(answer.status).toBe(204);
    expect(answer.headers['access-control-allow-methods']).toBe('GET, POST, DELETE');
    expect(answer.headers['access-control-allow-headers']).toMatch(
      /Authorization.*Mcp-Session-Id.*Last-Event-ID/,
    );
  });

  test('without an Origin no page is told that it may read', async () => {
    const gateway = await openGateway();
    const answer = await gateway.send({ body: initialize }).answer;
    expect(answer.headers['access-control-allow-origin']).toBeUndefined();
  });

  test('where any Host is answered, a malformed one is too, in both eras', async () => {
    const gateway = await openGateway({ settings: { hosts: undefined } });
    gateway.finishAll();
    for (const host of ['a b', 'http://x', '[', '%%%']) {
      const legacy = await gateway.send({ headers: { host }, body: initialize }).answer;
      const headers = { host, ...modernHeaders('tools/call', 'work') };
      const modern = await gateway.send({ headers, body: modernCall('work') }).answer;
      expect([host, legacy.status, modern.status]).toEqual([host, 200, 200]);
    }
  });
});

describe('the body of a POST', () => {
  test.each([undefined, '', 'text/plain', 'application/jsonx', 'application/x-www-form-urlencoded'])(
    'of type %p is refused with 415',
    async (type) => {
      const gateway = await openGateway();
      const answer = await gateway.send({ headers: { 'content-type': type }, body: initialize }).answer;
      expect([answer.status, errorOf(answer)]).toEqual([415, { id: null, code: -32000 }]);
    },
  );

  test.each(['application/json', 'Application/JSON; charset=utf-8', 'application/json;charset="utf-8"'])(
    'of type %s is read',
    async (type) => {
      const gateway = await openGateway();
      const answer = await gateway.send({ headers: { 'content-type': type }, body: initialize }).answer;
      expect(answer.status).toBe(200);
    },
  );

  const large = (bytes: number): string => {
    const text = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping', params: { pad: '' } });
    return text.replace('"pad":""', `"pad":"${'x'.repeat(bytes - text.length)}"`);
  };

  test('of exactly the limit is read, and one byte more is refused with 413', async () => {
    const gateway = await openGateway({ settings: { maxBodyBytes: 2_000 } });
    const { session } = await gateway.host('legacy');
    const headers = { 'mcp-session-id': session };
    expect((await gateway.send({ headers, body: large(2_000) }).answer).status).toBe(200);
    const answer = await gateway.send({ headers, body: large(2_001) }).answer;
    expect([answer.status, errorOf(answer)]).toEqual([413, { id: null, code: -32000 }]);
    expect(answer.messages[0]?.error?.message).toMatch(/2000 bytes/);
  });

  test('that says no length is refused as well, and its connection ends', async () => {
    const gateway = await openGateway({ settings: { maxBodyBytes: 2_000 } });
    const body = large(2_000_000);
    const chunked = { 'transfer-encoding': 'chunked' };
    const answer = await gateway.send({ headers: chunked, body }).answer;
    expect([answer.status, errorOf(answer)]).toEqual([413, { id: null, code: -32000 }]);
    expect(answer.headers['connection']).toBe('close');
  });

  test('that is too large is read to its end first, so that no reset overtakes the answer', async () => {
    const gateway = await openGateway({ settings: { maxBodyBytes: 2_000 } });
    const { hostname, port } = new URL(gateway.url);
    const socket = createConnection(Number(port), hostname);
    const errors: Error[] = [];
    let received = '';
    socket.setEncoding('utf8').on('data', (chunk: string) => (received += chunk));
    socket.on('error', (error) => errors.push(error));
    const bytes = 20_000_000;
    socket.write(
      'POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer key-of-desk\r\n' +
        `Content-Type: application/json\r\nContent-Length: ${bytes}\r\n\r\n`,
    );
    socket.write(large(bytes));
    await once(socket, 'close');
    expect(received).toMatch(/^HTTP\/1.1 413 /);
    expect(errors).toEqual([]);
  });

  test.each([
    ['is cut off', '{"jsonrpc":"2.0"'],
    ['is empty', ''],
    ['is not valid UTF-8', Buffer.from([0x22, 0xff, 0x22])],
    ['holds an overlong character', Buffer.from([0x22, 0xc0, 0xaf, 0x22])],
    ['is two messages', `${JSON.stringify(initialize)}\n${JSON.stringify(initialize)}`],
    ['is compressed', Buffer.from([0x1f, 0x8b, 8, 0])],
  ])('that %s is refused with -32700', async (_what, body) => {
    const gateway = await openGateway();
    const answer = await gateway.send({ body }).answer;
    expect([answer.status, errorOf(answer)]).toEqual([400, { id: null, code: -32700 }]);
  });

  test.each([
    ['[]', []],
    ['[1]', [1]],
    ['an initialize and a list', [initialize, { jsonrpc: '2.0', id: 2, method: 'tools/list' }]],
    ['one call', [{ jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'work' } }]],
    ['100 calls', Array.from({ length: 100 }, (_, id) => ({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'work' } }))],
    ['101 calls of the modern era', Array.from({ length: 101 }, () => modernCall('work'))],
  ])('that is a batch of %s is refused with -32600 and nothing of it is done', async (_what, body) => {
    const gateway = await openGateway();
    const { session } = await gateway.host('legacy');
    for (const headers of [{}, { 'mcp-session-id': session }, modernHeaders('tools/call', 'work')]) {
      const answer = await gateway.send({ headers, body }).answer;
      expect([answer.status, answer.messages.length, errorOf(answer)]).toEqual([400, 1, { id: null, code: -32600 }]);
    }
    expect(await gateway.runs()).toEqual([]);
    expect(await gateway.endpoint.sessionCount()).toBe(1);
  }); // prettier-ignore
});

describe('methods', () => {
  test.each(['PUT', 'PATCH', 'HEAD', 'PROPFIND'])(
    '%s is answered 405 with what is allowed',
    async (method) => {
      const gateway = await openGateway();
      const answer = await gateway.send({ method }).answer;
      expect([answer.status, answer.headers.allow]).toEqual([405, 'GET, POST, DELETE']);
      expect(answer.body === '').toBe(method === 'HEAD');
    },
  );

  test('without sessions there is only POST', async () => {
    for (const legacy of ['stateless', 'reject'] as const) {
      const gateway = await openGateway({ settings: { legacy } });
      for (const method of ['GET', 'DELETE', 'PUT']) {
        const answer = await gateway.send({ method, headers: { 'mcp-session-id': 'x' } }).answer;
        expect([answer.status, answer.headers.allow]).toEqual([405, 'POST']);
      }
    }
  });

  test.each(['GET', 'DELETE'])('%s without a session is of no era', async (method) => {
    const gateway = await openGateway();
    const answer = await gateway.send({ method }).answer;
    expect([answer.status, answer.headers.allow, errorOf(answer)]).toEqual([
      405,
      'POST',
      { id: null, code: -32000 },
    ]);
  });
});

test('a host that hangs up while it sends is no fault of ours', async () => {
  const gateway = await openGateway();
  const host = await gateway.host('legacy');
  const { hostname, port } = new URL(gateway.url);
  const socket = createConnection(Number(port), hostname);
  await once(socket, 'connect');
  socket.write(
    `POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer key-of-desk\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"json`,
  );
  await host.send('ping').answer;
  socket.resetAndDestroy();
  await host.send('ping').answer;
  expect(gateway.log).toEqual([]);
});

test('whatever is sent gets a well-formed answer, and the next good call works', async () => {
  const gateway = await openGateway();
  gateway.finishAll();
  const host = await gateway.host('legacy');
  const modern = await gateway.host('modern');
  const good = [
    JSON.stringify(initialize),
    JSON.stringify({ jsonrpc: '2.0', id: 'a', method: 'tools/call', params: { name: 'work', arguments: { n: [1, { x: null }] }, _meta: { progressToken: 1, idempotency_key: 'k' } } }),
    JSON.stringify(modernCall('refund_order')),
    JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } }),
    JSON.stringify({ jsonrpc: '2.0', id: 1, result: {} }),
  ]; // prettier-ignore
  const random = generator(20_260_728);
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)]!;
  const snippets = ['null', '[]', '{}', '"', '\\', '1e999', '-0', '9007199254740993', '\u0000', '\ud800', '{"a":'.repeat(300), '"__proto__":', 'true', ',', '":"']; // prettier-ignore
  const mutate = (text: string): string => {
    const at = Math.floor(random() * text.length);
    const span = Math.floor(random() * 12);
    switch (Math.floor(random() * 4)) {
      case 0:
        return text.slice(0, at);
      case 1:
        return text.slice(0, at) + pick(snippets) + text.slice(at + span);
      case 2:
        return text.slice(0, at) + text.slice(at + span);
      default:
        return text.replace(/:("[^"]*"|\d+|\{\})/, `:${pick(snippets)}`);
    }
  };
  for (let i = 0; i < 400; i++) {
    let body = pick(good);
    for (let times = 1 + Math.floor(random() * 3); times > 0; times--) body = mutate(body);
    const headers = pick<Sending['headers'] & object>([
      {},
      { 'mcp-session-id': host.session },
      { 'mcp-session-id': host.session, accept: pick(['*/*', 'application/json', 'text/event-stream']) },
      modernHeaders('tools/call', 'work'),
      modernHeaders('tools/call', 'refund_order'),
    ]);
    const answer = await gateway.send({ headers, body }).answer;
    const told = `${JSON.stringify(headers)} ${body} -> ${answer.status} ${answer.body}`;
    expect([told, [200, 202, 400, 404, 413, 500].includes(answer.status)]).toEqual([told, true]);
    if (answer.status === 202) expect(answer.body).toBe('');
    else expect([told, answer.messages.length > 0 || answer.status === 200]).toEqual([told, true]);
    // 500 says that we are at fault: no host can bring that about.
    expect([told, answer.status === 500]).toEqual([told, false]);
  }
  expect(gateway.log.filter(({ level }) => level === 'error')).toEqual([]);
  for (const each of [host, modern])
    expect((await each.call('work', {})).content).toEqual([{ type: 'text', text: 'done' }]);
});

test('what is no HTTP is answered 400 by the server, and the next good call works', async () => {
  const gateway = await openGateway();
  gateway.finishAll();
  expect(await raw(gateway, 'HELLO\r\n\r\n')).toMatch(/^HTTP\/1.1 400/);
  const noHost = `POST /mcp HTTP/1.0\r\nAuthorization: Bearer key-of-desk\r\nContent-Length: 2\r\n\r\n{}`;
  expect(await raw(gateway, noHost)).toMatch(/^HTTP\/1.1 403/);
  expect((await (await gateway.host('modern')).call('work', {})).isError).toBeUndefined();
});

function modernHeaders(method: string, name: string): Record<string, string> {
  return { 'mcp-protocol-version': '2026-07-28', 'mcp-method': method, 'mcp-name': name };
}

function modernCall(name: string): object {
  return {
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: {
      name,
      arguments: { order_id: 'o-1' },
      _meta: {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientCapabilities': {},
      },
    },
  };
}

/** Numbers from 0 to 1, the same at every run (mulberry32). */
function generator(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}
