import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Fleet, keys } from './fleet.ts';
import { exchange, openHost, type Answer } from './host.ts';

/** Open on loopback, as a developer runs it: nothing but these checks keeps a web page out. */
let open: Fleet;
let keyed: Fleet;
const page = 'https://app.example';
beforeAll(async () => {
  [open, keyed] = await Promise.all([
    Fleet.start('standalone', {
      HOLDFAST_AUTH: 'none',
      HOLDFAST_API_KEYS: '',
      HOLDFAST_ADMIN_KEYS: '',
    }),
    Fleet.start('standalone', {
      HOLDFAST_ALLOWED_ORIGINS: `${page},http://localhost:5173`,
      HOLDFAST_ALLOWED_HOSTS: 'holdfast.example,127.0.0.1',
    }),
  ]);
});
afterAll(async () => {
  await open.dispose();
  await keyed.dispose();
});

const initialize = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 't', version: '1' } },
};
const modernMeta = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
};
const modern = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: modernMeta } };

function send(
  fleet: Fleet,
  headers: Record<string, string>,
  { method = 'POST', body = initialize as object | undefined, path = '' } = {},
): Promise<Answer> {
  return exchange(path === '' ? fleet.url() : `${fleet.gateways[0]!.base}${path}`, {
    method,
    headers: {
      accept: 'application/json, text/event-stream',
      ...(method === 'POST' && { 'content-type': 'application/json' }),
      ...headers,
    },
    body: method === 'POST' ? body : undefined,
  }).answer;
}

async function sessions(fleet: Fleet): Promise<number> {
  const metrics = await (await fetch(`${fleet.gateways[0]!.ops}/metrics`)).text();
  return Number(/^holdfast_sessions (\d+)/m.exec(metrics)![1]);
}

const evil: Record<string, string>[] = [
  { host: 'evil.example' },
  { origin: 'http://evil.example' },
  { origin: 'null' },
  { origin: 'http://localhost.evil.example' },
];
const moreEvil: Record<string, string>[] = [
  { host: 'evil.example:8000' },
  { host: '127.0.0.1.evil.example' },
  { host: 'localhost@evil.example' },
  { host: '0.0.0.0' },
  { host: '127.1' },
  { origin: 'http://localhost@evil.example' },
  { origin: 'http://127.0.0.1.evil.example' },
  { origin: 'file://' },
  { origin: 'http://localhost:1234/path' },
  { origin: 'http://localhost, http://evil.example' },
  { origin: '' },
  { origin: 'http://localhost', host: 'evil.example' },
];

describe('F120: a page of somebody else reaches the loopback address', () => {
  test.each(evil)('F120 %j: 403, and no session is made', async (headers) => {
    const before = await sessions(open);
    const answer = await send(open, headers);
    expect(answer.status).toBe(403);
    expect(answer.headers['mcp-session-id']).toBeUndefined();
    expect(answer.headers['access-control-allow-origin']).toBeUndefined();
    expect(await sessions(open)).toBe(before);
  });

  test.each(moreEvil)('F120 variant: %j', async (headers) => {
    const answer = await send(open, headers);
    expect(answer.status).toBe(403);
    expect(answer.headers['mcp-session-id']).toBeUndefined();
  });

  test.each(evil)('F120 variant: %j on GET, DELETE, modern requests, preflight and /api', async (headers) => {
    const { session } = (await openHost('legacy', open.url())) as { session: string };
    const withSession = { ...headers, 'mcp-session-id': session };
    const answers = [
      await send(open, withSession, { method: 'GET' }),
      await send(open, withSession, { method: 'DELETE' }),
      await send(
        open,
        { ...headers, 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list' },
        { body: modern },
      ),
      await send(open, headers, { method: 'GET', path: '/api/runs' }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([403, 403, 403, 403]);
    const preflight = await send(open, headers, { method: 'OPTIONS' });
    expect(preflight.headers['access-control-allow-origin']).toBeUndefined();
    // It was not closed by what was refused.
    const alive = await send(
      open,
      { 'mcp-session-id': session },
      { body: { jsonrpc: '2.0', id: 1, method: 'ping' } },
    );
    expect(alive.status).toBe(200);
  });

  test.each<Record<string, string>>([
    {},
    { host: 'localhost' },
    { host: 'LOCALHOST:8000' },
    { host: '[::1]:8000' },
    { origin: 'http://localhost:3000' },
    { origin: 'https://127.0.0.1' },
    { origin: 'http://[::1]:8000' },
  ])('F120 %j passes', async (headers) => {
    const answer = await send(open, headers);
    expect(answer.status).toBe(200);
    expect(answer.headers['mcp-session-id']).toBeDefined();
  });

  test('F120 variant: behind keys too; who has none is told so first', async () => {
    const authorization = `Bearer ${keys.desk}`;
    const statusOf = async (headers: Record<string, string>): Promise<number> =>
      (await send(keyed, headers)).status;
    expect(await statusOf({ host: 'evil.example' })).toBe(401);
    expect(await statusOf({ host: 'evil.example', authorization })).toBe(403);
    expect(await statusOf({ origin: 'https://app.example.evil.example', authorization })).toBe(403);
    expect(await statusOf({ origin: 'https://app.example:8443', authorization })).toBe(403);
    expect(await statusOf({ origin: 'http://app.example', authorization })).toBe(403);
    expect(await statusOf({ host: 'holdfast.example', origin: page, authorization })).toBe(200);
  });
});

describe('F122: what a page of an allowed origin can read of the ACTUAL answer', () => {
  const authorization = `Bearer ${keys.desk}`;
  const exposed = ({ headers }: Answer): string[] =>
    String(headers['access-control-expose-headers'])
      .split(',')
      .map((name) => name.trim().toLowerCase());

  function expectReadable(answer: Answer): void {
    expect(answer.headers['access-control-allow-origin']).toBe(page);
    expect(exposed(answer)).toEqual(expect.arrayContaining(['mcp-session-id', 'www-authenticate']));
    expect(answer.headers['vary']).toMatch(/\borigin\b/i);
  }

  test('F122 initialize: the session id is exposed', async () => {
    const answer = await send(keyed, { origin: page, authorization });
    expect(answer.status).toBe(200);
    expect(answer.headers['mcp-session-id']).toBeDefined();
    expectReadable(answer);
  });

  test('F122 401: the challenge is exposed', async () => {
    const answer = await send(keyed, { origin: page });
    expect(answer.status).toBe(401);
    expect(answer.headers['www-authenticate']).toMatch(/^Bearer/);
    expectReadable(answer);
  });

  test('F122 variant: errors, 202, streams and modern answers are readable too', async () => {
    const opened = await send(keyed, { origin: page, authorization });
    const session = {
      origin: page,
      authorization,
      'mcp-session-id': opened.headers['mcp-session-id'] as string,
    };
    const call = {
      jsonrpc: '2.0',
      id: 2,
      method: 'tools/call',
      params: { name: 'refund_order', arguments: { order_id: 'o-1', delay_ms: 150 } },
    };
    const answers = {
      404: await send(keyed, { ...session, 'mcp-session-id': 'never-issued' }, { body: call }),
      400: await send(keyed, { origin: page, authorization }, { body: [] }),
      405: await send(keyed, session, { method: 'PUT' }),
      415: await send(keyed, { ...session, 'content-type': 'text/plain' }),
      202: await send(keyed, session, { body: { jsonrpc: '2.0', method: 'notifications/initialized' } }),
    };
    for (const [status, answer] of Object.entries(answers)) {
      expect([answer.status, status]).toEqual([Number(status), status]);
      expectReadable(answer);
    }
    const stream = await send(keyed, session, { body: call });
    expect(stream.headers['content-type']).toMatch(/^text\/event-stream/);
    expectReadable(stream);
    for (const body of [modern, { ...call, params: { ...call.params, _meta: modernMeta } }]) {
      const answer = await send(
        keyed,
        {
          origin: page,
          authorization,
          'mcp-protocol-version': '2026-07-28',
          'mcp-method': body.method,
          ...(body !== modern && { 'mcp-name': 'refund_order' }),
        },
        { body },
      );
      expect(answer.status).toBe(200);
      expectReadable(answer);
    }
  });

  test('F122 variant: the preflight allows what both eras send', async () => {
    const asked = [
      'authorization',
      'content-type',
      'mcp-session-id',
      'mcp-protocol-version',
      'last-event-id',
      'mcp-method',
      'mcp-name',
    ];
    const { status, headers } = await send(
      keyed,
      {
        origin: page,
        'access-control-request-method': 'DELETE',
        'access-control-request-headers': asked.join(),
      },
      { method: 'OPTIONS' },
    );
    expect(status).toBe(204);
    expect(headers['access-control-allow-origin']).toBe(page);
    const allowed = String(headers['access-control-allow-headers']).toLowerCase().split(/, */);
    expect(allowed).toEqual(expect.arrayContaining(asked));
    expect(String(headers['access-control-allow-methods']).split(/, */)).toEqual(
      expect.arrayContaining(['GET', 'POST', 'DELETE']),
    );
  });
});
