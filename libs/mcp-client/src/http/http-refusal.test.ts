import { describe, expect, test } from '@jest/globals';
import type { ConnectionFault } from '../connection.js';
import { connect, messageOf, reply, send, serveHttp, startUpstream } from './test-http.js';

const error = (code: number, message: string): string =>
  JSON.stringify({ jsonrpc: '2.0', id: 'x', error: { code, message } });

const faultOf = async (url: string): Promise<ConnectionFault> =>
  (await connect(url).catch((thrown: unknown) => thrown)) as ConnectionFault;

describe.each(['legacy', 'modern'] as const)('a call answered by a %s server', (era) => {
  test.each([
    300, 301, 302, 303, 304, 305, 402, 408, 409, 410, 418, 422, 423, 424, 425, 451, 499, 500, 501, 502, 503,
    504, 520, 599,
  ])('G80: with status %i, which does not say that nothing ran, is unknown', async (status) => {
    const upstream = await startUpstream({ era });
    const connection = await connect(upstream.url);
    const headers: Record<string, string> = status < 400 ? { Location: `${upstream.url}/done` } : {};
    upstream.faults.push({ on: 'tools/call', do: { kind: 'raw', status, headers, body: '' } });
    expect(await send(connection)).toMatchObject({ kind: 'lost', why: 'dropped' });
    expect(upstream.executions.all).toHaveLength(1);
    expect(upstream.requests('tools/call')).toHaveLength(1);
  });

  test.each([401, 403, 405, 406, 411, 413, 414, 415, 421, 426, 428, 429, 431])(
    'with status %i, which says that the request was not taken, ran nothing',
    async (status) => {
      const upstream = await startUpstream({ era });
      const connection = await connect(upstream.url);
      upstream.faults.push({ on: 'tools/call', do: { kind: 'status', status } });
      expect(await send(connection)).toMatchObject({ kind: 'status', status });
    },
  );

  test.each([400, 401, 403, 404, 409, 413, 422, 429, 500, 502, 503])(
    'G47: the reason in the JSON-RPC body of a %i is passed on, within bounds',
    async (status) => {
      const upstream = await startUpstream({ era, sessions: false });
      const connection = await connect(upstream.url);
      const body = error(-32000, `the quota of project 7 is used up ${'x'.repeat(10_000)}`);
      upstream.faults.push({ on: 'tools/call', do: { kind: 'raw', status, body } });
      const sent = await send(connection);
      const reason = 'reason' in sent ? sent.reason : undefined;
      expect(reason).toContain('the quota of project 7 is used up');
      expect(reason!.length).toBeLessThan(2_200);
    },
  );

  test('G47: the reason of a refused listing is passed on', async () => {
    const upstream = await startUpstream({ era });
    const connection = await connect(upstream.url);
    upstream.faults.push({
      on: 'tools/list',
      do: { kind: 'raw', status: 500, body: error(-32603, 'no database') },
    });
    await expect(connection.listPage(undefined, AbortSignal.timeout(5_000))).rejects.toMatchObject({
      message: expect.stringContaining('no database'),
    });
  });
});

test('G47: the reason of a refused handshake is passed on', async () => {
  const upstream = await startUpstream();
  const body = error(-32000, 'this tenant is suspended');
  for (const on of ['server/discover', 'initialize'])
    upstream.faults.push({ on, do: { kind: 'raw', status: 403, body } });
  expect(await faultOf(upstream.url)).toMatchObject({
    code: 'auth',
    message: expect.stringContaining('this tenant is suspended'),
  });
});

describe('a stale session that is answered by 400', () => {
  test.each([
    ['a JSON-RPC error', error(-32000, 'Bad Request: No valid session ID provided')],
    ['an error of the SDK that was started again', error(-32000, 'Bad Request: Server not initialized')],
    ['plain text', 'Invalid session'],
    ['other JSON', '{"detail":"unknown mcp-session-id"}'],
  ])('G66: is a lost session where the body says so: %s', async (_what, body) => {
    const upstream = await startUpstream({ era: 'legacy' });
    const connection = await connect(upstream.url);
    upstream.faults.push({ on: 'tools/call', do: { kind: 'status', status: 400, body } });
    expect(await send(connection)).toEqual({ kind: 'session-lost' });
    expect([connection.isOpen, upstream.executions.all]).toEqual([false, []]);
  });

  test('G66: is a lost session where the list, which the server gave before, is refused as well', async () => {
    const upstream = await startUpstream({ era: 'legacy' });
    const connection = await connect(upstream.url);
    await connection.listPage(undefined, AbortSignal.timeout(5_000));
    for (const on of ['tools/call', 'tools/list'])
      upstream.faults.push({ on, do: { kind: 'status', status: 400, body: 'Bad Request' } });
    expect(await send(connection)).toEqual({ kind: 'session-lost' });
    expect(connection.isOpen).toBe(false);
  });

  test('G66: is unknown where the server takes other requests of the session', async () => {
    const upstream = await startUpstream({ era: 'legacy' });
    const connection = await connect(upstream.url);
    await connection.listPage(undefined, AbortSignal.timeout(5_000));
    upstream.faults.push({ on: 'tools/call', do: { kind: 'raw', status: 400, body: 'Bad Request' } });
    expect(await send(connection)).toMatchObject({ kind: 'lost', why: 'dropped' });
  });

  test('G66: a 400 without a session is no lost session', async () => {
    const upstream = await startUpstream({ era: 'legacy', sessions: false });
    const connection = await connect(upstream.url);
    const body = error(-32000, 'a session is needed');
    upstream.faults.push({ on: 'tools/call', do: { kind: 'raw', status: 400, body } });
    expect(await send(connection)).toMatchObject({ kind: 'lost', why: 'dropped' });
  });
});

test.each([400, 401, 403, 404, 405, 500])(
  'G76: %i with -32601 to server/discover leads on to initialize',
  async (status) => {
    const upstream = await startUpstream({ era: 'legacy' });
    upstream.faults.push({
      on: 'server/discover',
      do: { kind: 'raw', status, body: error(-32601, 'Method not found') },
    });
    expect(await connect(upstream.url)).toMatchObject({ era: 'legacy', isOpen: true });
  },
);

describe('a server without tools', () => {
  const answers = {
    initialize: { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: { name: 'n', version: '1' } },
  };

  test.each([
    ['200', -32601],
    ['404', -32601],
    ['400', -32601],
    ['200', -32603],
  ])('G12: has an empty list: %s with %i and no capability', async (status, code) => {
    const { origin } = await serveHttp(async (request, response) => {
      const asked = await messageOf(request);
      if (asked?.method === 'initialize')
        return reply(response, 200, { jsonrpc: '2.0', id: asked.id, result: answers.initialize });
      if (asked?.method === 'notifications/initialized') return reply(response, 202);
      if (asked === undefined) return reply(response, 405);
      reply(response, asked.method === 'tools/list' ? Number(status) : 404, {
        jsonrpc: '2.0',
        id: asked.id,
        error: { code, message: 'no' },
      });
    });
    const connection = await connect(origin);
    expect(await connection.listPage(undefined, AbortSignal.timeout(5_000))).toEqual({ tools: [] });
  });

  test('G12: a server that offers tools and fails to list them is not taken for one without', async () => {
    const upstream = await startUpstream({ era: 'legacy' });
    const connection = await connect(upstream.url);
    upstream.faults.push({
      on: 'tools/list',
      do: { kind: 'raw', body: error(-32603, 'no').replace('"x"', '{id}') },
    });
    await expect(connection.listPage(undefined, AbortSignal.timeout(5_000))).rejects.toMatchObject({
      code: 'listing',
    });
  });
});

test('G42: says who calls, unless the operator says otherwise', async () => {
  const upstream = await startUpstream();
  await send(await connect(upstream.url));
  expect(upstream.log.map(({ headers }) => headers['user-agent'])).toEqual(
    upstream.log.map(() => 'holdfast/1.2.3'),
  );
  const other = await startUpstream();
  await send(await connect(other.url, { headers: { 'User-Agent': 'acme/7' } }));
  expect(new Set(other.log.map(({ headers }) => headers['user-agent']))).toEqual(new Set(['acme/7']));
});

test.each([301, 302, 303, 307, 308])(
  'G52: a redirect (%i) elsewhere is refused with its target, without secrets',
  async (status) => {
    const upstream = await startUpstream();
    const location = 'https://user:pass@sso.example:8443/login?token=abc123#frag';
    for (const on of ['server/discover', 'initialize'])
      upstream.faults.push({ on, do: { kind: 'redirect', status, location } });
    const { code, message } = await faultOf(upstream.url);
    expect(code).toBe('blocked');
    expect(message).toContain('https://sso.example:8443/login');
    expect(message).not.toMatch(/user|pass|abc123|frag/);
  },
);

test('G52: a call that is redirected elsewhere says where', async () => {
  const upstream = await startUpstream();
  const connection = await connect(upstream.url);
  upstream.faults.push({
    on: 'tools/call',
    do: { kind: 'redirect', status: 307, location: 'https://sso.example/login?t=abc123' },
  });
  expect(await send(connection)).toMatchObject({
    kind: 'status',
    status: 307,
    reason: expect.stringContaining('https://sso.example/login'),
  });
});
