import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { connect } from 'node:net';
import { Fleet, keys } from './fleet.ts';
import { exchange, type Answer } from './host.ts';
import { until } from './service.ts';

let fleet: Fleet;
beforeAll(async () => {
  fleet = await Fleet.start('standalone');
});
afterAll(() => fleet.dispose());

const base = {
  authorization: `Bearer ${keys.desk}`,
  accept: 'application/json, text/event-stream',
  'content-type': 'application/json',
};

function initialize(asked: unknown, headers: Record<string, string> = {}): Promise<Answer> {
  return exchange(fleet.url(), {
    headers: { ...base, ...headers },
    body: {
      jsonrpc: '2.0',
      id: 1,
      method: 'initialize',
      params: { protocolVersion: asked, capabilities: {}, clientInfo: { name: 't', version: '1' } },
    },
  }).answer;
}

async function open(version: string): Promise<string> {
  const { headers } = await initialize(version);
  return headers['mcp-session-id'] as string;
}

const list = { jsonrpc: '2.0', id: 2, method: 'tools/list', params: {} };
const ask = (session: string, version?: string, body: unknown = list): Promise<Answer> =>
  exchange(fleet.url(), {
    headers: {
      ...base,
      'mcp-session-id': session,
      ...(version !== undefined && { 'mcp-protocol-version': version }),
    },
    body,
  }).answer;

/** Sends the version header as often as given, which Node's client would fold. */
async function askWithHeaders(session: string, versions: readonly string[]): Promise<number> {
  const { hostname, port, host } = new URL(fleet.url());
  const body = JSON.stringify(list);
  const lines = [
    'POST /mcp HTTP/1.1',
    `Host: ${host}`,
    'Connection: close',
    ...Object.entries(base).map(([name, value]) => `${name}: ${value}`),
    `Mcp-Session-Id: ${session}`,
    ...versions.map((version) => `MCP-Protocol-Version: ${version}`),
    `Content-Length: ${body.length}`,
  ];
  const socket = connect(Number(port), hostname);
  let received = '';
  socket.setEncoding('latin1').on('data', (text: string) => (received += text));
  socket.write(`${lines.join('\r\n')}\r\n\r\n${body}`);
  const [, status] = await until(() => /^HTTP\/1\.1 (\d+) [^]*\r\n\r\n/.exec(received));
  socket.destroy();
  return Number(status);
}

const sessionCount = async (): Promise<number> => {
  const metrics = await (await fetch(`${fleet.gateways[0]!.ops}/metrics`)).text();
  return Number(/^holdfast_sessions (\d+)/m.exec(metrics)![1]);
};

describe('F149: the version header after initialize', () => {
  test.each(['1900-01-01', 'not-a-version', '', '2025-11-25x', '2025-11', '2024-10-07', '１'])(
    'F149 %j is refused with 400 and the versions that there are',
    async (version) => {
      const { status, messages } = await ask(await open('2025-11-25'), encodeURI(version));
      expect(status).toBe(400);
      expect(messages[0]).toMatchObject({
        id: 2,
        error: { data: { supported: expect.arrayContaining(['2025-06-18']) } },
      });
    },
  );

  test('F149 two headers that differ are refused; the same twice is one', async () => {
    const session = await open('2025-11-25');
    expect(await askWithHeaders(session, ['2025-11-25', '2025-06-18'])).toBe(400);
    expect(await askWithHeaders(session, ['2025-11-25', '1900-01-01'])).toBe(400);
    expect(await askWithHeaders(session, ['2025-11-25', '2025-11-25'])).toBe(200);
  });

  test.each(['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'])(
    'F149 absent: the session of %s goes on at its version',
    async (version) => {
      const session = await open(version);
      expect((await ask(session)).status).toBe(200);
      // The version of the session decides how its streams look: only 2025-11-25 has priming events.
      const { body } = await ask(session, undefined, {
        jsonrpc: '2.0',
        id: 3,
        method: 'tools/call',
        params: { name: 'refund_order', arguments: { order_id: 'o-1', delay_ms: 150 } },
      });
      expect(/^id: /m.test(body)).toBe(version === '2025-11-25');
    },
  );

  test('F149 the version of another session, which we know too, is served', async () => {
    expect((await ask(await open('2025-11-25'), '2025-03-26')).status).toBe(200);
  });

  test('F149 variant: notifications are held to it as well, and nothing is done', async () => {
    const session = await open('2025-11-25');
    const notice = { jsonrpc: '2.0', method: 'notifications/initialized' };
    expect((await ask(session, '1900-01-01', notice)).status).toBe(400);
    expect((await ask(session, '2025-11-25', notice)).status).toBe(202);
    const call = {
      jsonrpc: '2.0',
      id: 4,
      method: 'tools/call',
      params: { name: 'refund_order', arguments: { order_id: 'o-not' }, _meta: { idempotency_key: 'f149' } },
    };
    const before = fleet.wholeJournal().length;
    expect((await ask(session, '1900-01-01', call)).status).toBe(400);
    expect(fleet.wholeJournal()).toHaveLength(before);
  });

  test('F149 variant: a date that is yet to come is a modern request, and its error names what we speak', async () => {
    const { status, messages } = await ask(await open('2025-11-25'), '2099-01-01');
    expect(status).toBe(400);
    expect(messages[0]!.error!.code).toBeLessThanOrEqual(-32000);
  });

  test('F149 variant: initialize with a version that we do not know is offered the newest of its era', async () => {
    for (const asked of ['1900-01-01', 'not-a-version', '2099-01-01']) {
      const { status, messages } = await initialize(asked);
      expect([status, messages[0]!.result!['protocolVersion']]).toEqual([200, '2025-11-25']);
    }
    const { status, messages } = await initialize(7);
    expect([status, messages[0]!.error!.code]).toEqual([400, -32602]);
  });
});

describe('F153: header and body name different versions', () => {
  test('F153 initialize: the body negotiates, and the session is of its version', async () => {
    const { status, headers, messages } = await initialize('2025-11-25', {
      'mcp-protocol-version': '2025-03-26',
    });
    expect([status, messages[0]!.result!['protocolVersion']]).toEqual([200, '2025-11-25']);
    expect((await ask(headers['mcp-session-id'] as string, '2025-11-25')).status).toBe(200);
  });

  test('F153 initialize with a header that is no version makes no session', async () => {
    const before = await sessionCount();
    const { status, headers } = await initialize('2025-11-25', { 'mcp-protocol-version': '1900-01-01' });
    expect([status, headers['mcp-session-id']]).toEqual([400, undefined]);
    expect(await sessionCount()).toBe(before);
  });

  const modern = async (
    header: string | undefined,
    inBody: string | undefined,
    more: Record<string, string> = {},
    method = 'tools/list',
  ): Promise<Answer> =>
    exchange(fleet.url(), {
      headers: {
        ...base,
        'mcp-method': method,
        ...(header !== undefined && { 'mcp-protocol-version': header }),
        ...more,
      },
      body: {
        jsonrpc: '2.0',
        id: 9,
        method,
        params: {
          ...(method === 'tools/call' && { name: 'refund_order', arguments: { order_id: 'o-f153' } }),
          _meta: {
            ...(inBody !== undefined && { 'io.modelcontextprotocol/protocolVersion': inBody }),
            'io.modelcontextprotocol/clientCapabilities': {},
          },
        },
      },
    }).answer;

  test.each([
    ['2025-11-25', '2026-07-28'],
    ['2026-07-28', '2025-11-25'],
    ['2026-07-28', '2099-01-01'],
    ['2099-01-01', '2026-07-28'],
    [undefined, '2026-07-28'],
    ['2026-07-28', undefined],
  ])('F153 a modern request, header %s and _meta %s: 400, no session', async (header, inBody) => {
    const before = await sessionCount();
    const { status, headers, messages } = await modern(header, inBody);
    expect(status).toBe(400);
    expect(messages[0]!.error!.code).toBe(header === '2026-07-28' && inBody === undefined ? -32602 : -32020);
    expect(headers['mcp-session-id']).toBeUndefined();
    expect(await sessionCount()).toBe(before);
  });

  test('F153 variant: both name one that we do not speak: -32022 with those that we do', async () => {
    const { status, messages } = await modern('2099-01-01', '2099-01-01');
    expect(status).toBe(400);
    expect(messages[0]!.error).toMatchObject({
      code: -32022,
      data: { supported: expect.arrayContaining(['2026-07-28']) },
    });
  });

  test.each([
    ['Mcp-Method', { 'mcp-method': 'tools/list' }],
    ['Mcp-Name', { 'mcp-name': 'lookup_order' }],
  ])('F153 variant: a call whose %s differs is not executed', async (_, headers) => {
    const before = fleet.wholeJournal().length;
    const { status, messages } = await modern(
      '2026-07-28',
      '2026-07-28',
      { 'mcp-name': 'refund_order', ...headers },
      'tools/call',
    );
    expect([status, messages[0]!.error!.code]).toEqual([400, -32020]);
    expect(fleet.wholeJournal()).toHaveLength(before);
  });
});
