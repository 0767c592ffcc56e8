import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { connect, type Socket } from 'node:net';
import { Fleet, keys } from './fleet.ts';
import { exchange, openHost, runOf, type Answer } from './host.ts';
import { until } from './service.ts';

let fleet: Fleet;
let session: string;
beforeAll(async () => {
  fleet = await Fleet.start('standalone');
  ({ session } = (await openHost('legacy', fleet.url(), keys.desk)) as { session: string });
});
afterAll(() => fleet.dispose());

const post = (body: unknown, headers: Record<string, string> = {}): Promise<Answer> =>
  exchange(fleet.url(), {
    headers: {
      authorization: `Bearer ${keys.desk}`,
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      ...headers,
    },
    body,
  }).answer;

const initialize = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } },
};
const list = { jsonrpc: '2.0', id: 2, method: 'tools/list', params: {} };
const notice = { jsonrpc: '2.0', method: 'notifications/initialized' };
const call = (token: string, id: number): object => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: {
    name: 'refund_order',
    arguments: { order_id: 'o-batch' },
    _meta: { idempotency_key: token },
  },
});

const batches: [what: string, body: unknown][] = [
  ['[]', []],
  ['[1]', [1]],
  ['[initialize, tools/list]', [initialize, list]],
  ['[notification]', [notice]],
  ['100 calls', Array.from({ length: 100 }, (_, i) => call(`batch-${i}`, i))],
  ['[[request]]', [[list]]],
  ['[null]', [null]],
  ['[response]', [{ jsonrpc: '2.0', id: 1, result: {} }]],
  ['an array after blanks', ` \n\t[${JSON.stringify(list)}]`],
];

describe.each(['2025-06-18', '2025-03-26', '2025-11-25', '2026-07-28'])('F145: a batch at %s', (version) => {
  test.each(batches)('F145 %s is refused at once with -32600', async (_, body) => {
    const { status, headers, messages } = await post(body, {
      'mcp-protocol-version': version,
      ...(version !== '2026-07-28' && { 'mcp-session-id': session }),
    });
    expect(status).toBe(400);
    expect(messages).toHaveLength(1);
    expect(messages[0]).toMatchObject({ jsonrpc: '2.0', id: null, error: { code: -32600 } });
    expect(headers['mcp-session-id']).toBeUndefined();
  });
});

test('F145 nothing of a batch was executed, and its tokens are unused', async () => {
  expect(fleet.wholeJournal()).toEqual([]);
  expect((await fleet.api('/runs')).body['runs']).toEqual([]);
  const host = await fleet.host('legacy');
  const result = await host.call('refund_order', { order_id: 'another' }, { token: 'batch-0' });
  expect(runOf(result).reattached).toBe(false);
});

test('F145 variant: without a session a batch is a batch, not a missing session', async () => {
  const { status, messages } = await post([initialize]);
  expect([status, messages[0]!.error!.code]).toEqual([400, -32600]);
});

/** What a server sends to raw bytes on one connection. */
async function onOneConnection(requests: readonly string[]): Promise<string[]> {
  const { hostname, port } = new URL(fleet.url());
  const socket: Socket = connect(Number(port), hostname);
  let received = '';
  socket.setEncoding('latin1').on('data', (text: string) => (received += text));
  const answers: string[] = [];
  for (const text of requests) {
    received = '';
    socket.write(text);
    answers.push(
      await until(() => {
        const end = received.indexOf('\r\n\r\n');
        if (end < 0) return undefined;
        const length = Number(/^content-length: (\d+)/im.exec(received)?.[1] ?? 0);
        return received.length >= end + 4 + length ? received : undefined;
      }),
    );
  }
  socket.destroy();
  return answers;
}

function request(method: string, body = '', more: Record<string, string> = {}): string {
  const headers = {
    Host: new URL(fleet.url()).host,
    Authorization: `Bearer ${keys.desk}`,
    Accept: 'application/json, text/event-stream',
    'Content-Type': 'application/json',
    'Mcp-Session-Id': session,
    'MCP-Protocol-Version': '2025-11-25',
    'Content-Length': String(Buffer.byteLength(body)),
    ...more,
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return `${method} /mcp HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${body}`;
}

const bodyOf = (answer: string): string => answer.slice(answer.indexOf('\r\n\r\n') + 4);

describe('F148: 202 and 405', () => {
  const accepted: [what: string, body: object][] = [
    ['notifications/initialized', notice],
    [
      'notifications/cancelled',
      { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 99 } },
    ],
    ['a notification nobody knows', { jsonrpc: '2.0', method: 'notifications/no/such' }],
    ['a response', { jsonrpc: '2.0', id: 'asked-by-nobody', result: {} }],
    ['an error response', { jsonrpc: '2.0', id: 1, error: { code: -1, message: 'no' } }],
  ];

  test.each(accepted)('F148 202 to %s has no body, length 0, and the connection goes on', async (_, body) => {
    const answers = await onOneConnection([
      request('POST', JSON.stringify(body)),
      request('POST', JSON.stringify(body)),
      request('POST', JSON.stringify(list)),
    ]);
    for (const answer of answers.slice(0, 2)) {
      expect(answer).toMatch(/^HTTP\/1\.1 202 /);
      expect(answer).toMatch(/^content-length: 0\r$/im);
      expect(answer).not.toMatch(/^(content-type|transfer-encoding):/im);
      expect(bodyOf(answer)).toBe('');
    }
    expect(answers[2]).toMatch(/^HTTP\/1\.1 200 /);
  });

  test.each(['HEAD', 'PUT', 'PATCH'])('F148 %s is 405 and says what is allowed', async (method) => {
    const [answer, next] = await onOneConnection([request(method), request('POST', JSON.stringify(list))]);
    expect(answer).toMatch(/^HTTP\/1\.1 405 /);
    expect(answer).toMatch(/^allow: GET, POST, DELETE\r$/im);
    if (method === 'HEAD') expect(bodyOf(answer!)).toBe('');
    expect(next).toMatch(/^HTTP\/1\.1 200 /);
  });

  test('F148 variant: other methods too, with a body, and with a slash behind the path', async () => {
    for (const method of ['PROPFIND', 'SEARCH', 'TRACE']) {
      const [answer] = await onOneConnection([request(method, JSON.stringify(list))]);
      expect(answer).toMatch(/^HTTP\/1\.1 405 /);
    }
    const [slash] = await onOneConnection([request('PUT').replace('/mcp', '/mcp/')]);
    expect(slash).toMatch(/^allow: GET, POST, DELETE\r$/im);
  });

  test('F148 variant: a modern notification is 202 without a body; GET without a session is 405', async () => {
    const meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': {},
    };
    const body = { jsonrpc: '2.0', method: 'notifications/initialized', params: { _meta: meta } };
    const modern = {
      'Mcp-Session-Id': 'ignored',
      'MCP-Protocol-Version': '2026-07-28',
      'Mcp-Method': body.method,
    };
    const [noted] = await onOneConnection([request('POST', JSON.stringify(body), modern)]);
    expect(noted).toMatch(/^HTTP\/1\.1 202 /);
    expect(noted).toMatch(/^content-length: 0\r$/im);
    const got = await exchange(fleet.url(), {
      method: 'GET',
      headers: { authorization: `Bearer ${keys.desk}`, accept: 'text/event-stream' },
    }).answer;
    expect([got.status, got.headers['allow']]).toEqual([405, 'POST']);
  });
});
