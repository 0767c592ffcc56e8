import { describe, expect, test } from '@jest/globals';
import { writeJson } from '@holdfast/run';
import { tool, type Fault } from '../../../../test/servers/index.js';
import { ConnectionFault, type Sent } from '../connection.js';
import { knownRevisions, type Era } from '../era.js';
import type { HttpConnection, HttpOptions } from './http-connection.js';
import { silent } from '../../../../test/support/log.ts';
import { connect, send, startUpstream } from './test-http.js';
import { until } from '../../../../test/support/until.ts';

/** The fault of an attempt to connect. */
async function faultOf(url: string, options: Partial<HttpOptions> = {}): Promise<ConnectionFault> {
  const outcome = await connect(url, options).catch((error: unknown) => error);
  if (outcome instanceof ConnectionFault) return outcome;
  throw new Error('it connected, or failed otherwise', { cause: outcome });
}

/** The fault of one listing. */
async function listFaultOf(connection: HttpConnection): Promise<ConnectionFault> {
  const outcome = await connection
    .listPage(undefined, AbortSignal.timeout(5_000))
    .catch((error: unknown) => error);
  if (outcome instanceof ConnectionFault) return outcome;
  throw new Error('it listed, or failed otherwise', { cause: outcome });
}

const eras: Era[] = ['legacy', 'modern'];
const secret = 'Bearer s3cr3t';

describe.each(eras)('a server of the %s era', (era) => {
  test.each(['json', 'sse'] as const)('is found, listed and called; it answers as %s', async (answerAs) => {
    const upstream = await startUpstream({ era, answerAs });
    const connection = await connect(upstream.url);
    expect([connection.era, connection.protocolVersion, connection.isOpen]).toEqual([
      era,
      era === 'modern' ? '2026-07-28' : '2025-11-25',
      true,
    ]);
    expect(connection.serverInfo).toEqual({ name: 'scriptable', version: '1' });
    expect(await connection.listPage(undefined, AbortSignal.timeout(5_000))).toMatchObject({
      tools: [{ name: 'echo' }, { name: 'look' }],
    });
    expect(await send(connection, { arguments: '{"a":1}' })).toMatchObject({
      kind: 'result',
      result: { content: [{ type: 'text', text: '{"a":1}' }] },
    });
    expect(upstream.executions.all).toEqual([{ tool: 'echo', key: '' }]);
  });

  test('gets configured headers with every request, and our own win', async () => {
    const upstream = await startUpstream({ era });
    const headers = {
      Authorization: secret,
      'X-Key': 'k',
      'MCP-Protocol-Version': '1900-01-01',
      Accept: 'x/y',
    };
    const connection = await connect(upstream.url, { headers });
    await connection.listPage(undefined, AbortSignal.timeout(5_000));
    await send(connection);
    await until(() => upstream.listeners === 1);
    await connection.close();
    expect(upstream.log.length).toBeGreaterThanOrEqual(4);
    for (const { headers: sent } of upstream.log) {
      expect(sent).toMatchObject({ authorization: secret, 'x-key': 'k' });
      expect(sent['mcp-protocol-version']).not.toBe('1900-01-01');
      expect(sent['accept']).not.toBe('x/y');
    }
  });

  test('F32: progress token, vendor key and trace context arrive together, beside what the protocol wants', async () => {
    const upstream = await startUpstream({ era });
    const connection = await connect(upstream.url);
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    await send(connection, {
      meta: {
        traceparent,
        'vendor.example/key': { a: 1 },
        idempotency_key: 'r0_1',
        progressToken: 'of the host',
        'io.modelcontextprotocol/protocolVersion': '1900-01-01',
      },
    });
    const [call] = upstream.requests('tools/call');
    expect(call?.params?.['_meta']).toEqual({
      traceparent,
      'vendor.example/key': { a: 1 },
      idempotency_key: 'r0_1',
      progressToken: expect.any(Number),
      'io.modelcontextprotocol/protocolVersion': era === 'modern' ? '2026-07-28' : '1900-01-01',
      ...(era === 'modern' && {
        'io.modelcontextprotocol/clientCapabilities': {},
        'io.modelcontextprotocol/clientInfo': { name: 'holdfast', version: '1.2.3' },
      }),
    });
    expect(upstream.executions.byKey()).toEqual({ r0_1: 1 });
  });

  test('reports progress of a call to that call alone', async () => {
    const slow = tool('slow', {
      progress: [{ value: 1 }, { value: 2.5, total: 5, message: 'half' }],
      delayMs: 20,
    });
    const upstream = await startUpstream({ era, pages: [[slow, tool('echo')]] });
    const connection = await connect(upstream.url);
    const seen: unknown[] = [];
    const others: unknown[] = [];
    await Promise.all([
      send(connection, { tool: 'slow' }, { onProgress: (progress) => seen.push(progress) }),
      send(connection, {}, { onProgress: (progress) => others.push(progress) }),
    ]);
    expect(seen).toEqual([{ value: 1 }, { value: 2.5, total: 5, message: 'half' }]);
    expect(others).toEqual([]);
  });

  test('keeps every digit of a result', async () => {
    const raw = '{"content":[],"structuredContent":{"n":1915883588174806058,"z":-0,"f":1.0,"e":1e400}}';
    const upstream = await startUpstream({ era, pages: [[tool('echo', { rawResult: raw })]] });
    const sent = await send(await connect(upstream.url));
    expect(writeJson(sent)).toContain('{"n":1915883588174806058,"z":-0,"f":1,"e":1e400}');
  });

  test('F26, F33: a silent call ends by its time, is told so, and was executed once', async () => {
    const upstream = await startUpstream({ era });
    upstream.faults.push({ on: 'tools/call', do: { kind: 'hang' } });
    const connection = await connect(upstream.url);
    expect(await send(connection, {}, { timeoutMs: 100 })).toEqual({
      kind: 'lost',
      why: 'timeout',
      reason: 'no answer within 100 ms',
    });
    const [call] = upstream.requests('tools/call');
    await until(() => call!.wasAbandoned);
    const cancelled = (): unknown => upstream.requests('notifications/cancelled').map(({ params }) => params);
    if (era === 'modern') expect(cancelled()).toEqual([]);
    else {
      await until(() => upstream.requests('notifications/cancelled').length === 1);
      expect(cancelled()).toEqual([
        { requestId: (JSON.parse(call!.body) as { id: number }).id, reason: 'no answer within 100 ms' },
      ]);
    }
    expect([upstream.executions.all.length, connection.isOpen]).toEqual([1, true]);
  });

  test('F33: slow bytes without an end are ended by the time, too', async () => {
    const upstream = await startUpstream({
      era,
      pages: [[tool('echo', { progress: [{ value: 1 }], delayMs: 60_000 })]],
    });
    const connection = await connect(upstream.url);
    expect(await send(connection, {}, { timeoutMs: 150 })).toMatchObject({ kind: 'lost', why: 'timeout' });
  });

  test('a call that is given up is lost when it was sent, and not sent before', async () => {
    const upstream = await startUpstream({ era });
    upstream.faults.push({ on: 'tools/call', do: { kind: 'hang' } });
    const connection = await connect(upstream.url);
    const control = new AbortController();
    const sending = send(connection, {}, { signal: control.signal });
    await until(() => upstream.executions.all.length === 1);
    control.abort();
    expect(await sending).toMatchObject({ kind: 'lost', why: 'aborted' });
    expect(await send(connection, {}, { signal: control.signal })).toMatchObject({ kind: 'not-sent' });
    expect(upstream.requests('tools/call')).toHaveLength(1);
  });

  test('what beforeSend throws is thrown, and nothing arrives', async () => {
    const upstream = await startUpstream({ era });
    const connection = await connect(upstream.url);
    const mine = new Error('the mark is taken');
    await expect(send(connection, {}, { beforeSend: () => Promise.reject(mine) })).rejects.toBe(mine);
    expect(await send(connection)).toMatchObject({ kind: 'result' });
    expect(upstream.requests('tools/call')).toHaveLength(1);
  });

  test('a server that is gone was sent nothing, and beforeSend is not called', async () => {
    const upstream = await startUpstream({ era, streams: false });
    const connection = await connect(upstream.url);
    await upstream.close();
    let wasCalled = false;
    const beforeSend = async (): Promise<void> => {
      wasCalled = true;
    };
    expect(await send(connection, {}, { beforeSend })).toEqual({
      kind: 'not-sent',
      reason: 'the connection failed (ECONNREFUSED)',
    });
    expect(wasCalled).toBe(false);
  });

  test.each<[string, Fault['do'], Sent]>([
    ['reset after it came', { kind: 'drop-after-receive' }, { kind: 'lost', why: 'dropped', reason: expect.stringContaining('the connection failed (')  as unknown as string }],
    ['401', { kind: 'status', status: 401 }, { kind: 'status', status: 401 }],
    ['403', { kind: 'status', status: 403 }, { kind: 'status', status: 403 }],
    ['429 with Retry-After', { kind: 'status', status: 429, headers: { 'Retry-After': '3' } }, { kind: 'status', status: 429, retryAfterMs: 3_000 }],
    ['413', { kind: 'status', status: 413 }, { kind: 'status', status: 413 }],
    ['408', { kind: 'status', status: 408 }, { kind: 'lost', why: 'dropped', reason: 'the server answered with status 408' }],
    ['400', { kind: 'status', status: 400 }, { kind: 'lost', why: 'dropped', reason: 'the server answered with status 400' }],
    ['500', { kind: 'status', status: 500 }, { kind: 'lost', why: 'dropped', reason: 'the server answered with status 500' }],
    ['503 with a JSON-RPC error', { kind: 'raw', status: 503, body: '{"jsonrpc":"2.0","id":{id},"error":{"code":-32000,"message":"x"}}' }, { kind: 'lost', why: 'dropped', reason: 'the server answered with status 503: x' }],
    ['404 with method not found', { kind: 'raw', status: 404, body: '{"jsonrpc":"2.0","id":{id},"error":{"code":-32601,"message":"no"}}' }, { kind: 'error', code: -32601, message: 'no' }],
    ['a JSON-RPC error', { kind: 'raw', body: '{"jsonrpc":"2.0","id":{id},"error":{"code":-5,"message":"no"}}' }, { kind: 'error', code: -5, message: 'no' }],
    ['no JSON', { kind: 'raw', body: '{"jsonrpc":' }, { kind: 'lost', why: 'dropped', reason: 'the answer is no JSON' }],
    ['bytes that are compressed', { kind: 'raw', headers: { 'Content-Encoding': 'gzip' }, body: '{}' }, { kind: 'lost', why: 'dropped', reason: 'the answer is compressed, unasked' }],
    ['HTML', { kind: 'raw', headers: { 'Content-Type': 'text/html' }, body: '<p>' }, { kind: 'lost', why: 'dropped', reason: 'the answer (status 200) is neither JSON nor an event stream' }],
    ['202 without a body', { kind: 'status', status: 202, body: '' }, { kind: 'lost', why: 'dropped', reason: 'the answer (status 202) is neither JSON nor an event stream' }],
    ['F144: an unknown id', { kind: 'raw', body: '{"jsonrpc":"2.0","id":"other","result":{}}' }, { kind: 'lost', why: 'dropped', reason: 'the answer is to another request' }],
    ['a result that is no object', { kind: 'raw', body: '{"jsonrpc":"2.0","id":{id},"result":5}' }, { kind: 'result', result: 5 }],
    ['no result and no error', { kind: 'raw', body: '{"jsonrpc":"2.0","id":{id}}' }, { kind: 'lost', why: 'dropped', reason: 'its answer has no result and no error' }],
    ['a stream that ends', { kind: 'drop-mid-stream' }, { kind: 'lost', why: 'dropped', reason: 'the stream ended before the answer' }],
    ['too much', { kind: 'raw', body: `"${'x'.repeat(70_000)}"` }, { kind: 'lost', why: 'dropped', reason: expect.stringContaining('the answer is over the size limit') as unknown as string }],
    ['comments without an end', { kind: 'raw', headers: { 'Content-Type': 'text/event-stream' }, body: ': x\n'.repeat(20_000) }, { kind: 'lost', why: 'dropped', reason: expect.stringContaining('the answer is over the size limit') as unknown as string }],
    ['a redirect that a call does not follow', { kind: 'redirect', status: 302, location: '{self}/mcp' }, { kind: 'lost', why: 'dropped', reason: 'the server answered with status 302' }],
    ['a redirect without a target', { kind: 'status', status: 307 }, { kind: 'status', status: 307 }],
    ['304', { kind: 'status', status: 304, body: '' }, { kind: 'lost', why: 'dropped', reason: 'the server answered with status 304' }],
  ])('a call answered by %s', async (_what, fault, sent) => {
    const upstream = await startUpstream({ era });
    const connection = await connect(upstream.url, { maxAnswerBytes: 65_536 });
    upstream.faults.push({ on: 'tools/call', do: fault });
    expect(await send(connection)).toEqual(sent);
    expect(upstream.requests('tools/call')).toHaveLength(1);
  }); // prettier-ignore

  test('F144: our id as a string is ours; unknown ids are counted, and a second answer is ignored', async () => {
    const upstream = await startUpstream({ era });
    const connection = await connect(upstream.url);
    const answer = (id: string, text: string): string =>
      `data: {"jsonrpc":"2.0","id":${id},"result":{"content":"${text}"}}\n\n`;
    // The ids of this connection are small numbers; `"{id}"` is ours as a string.
    const body = `data: no JSON\n\n${answer('"who"', 'other')}${answer('"{id}"', 'first')}${answer('{id}', 'second')}`;
    upstream.faults.push({
      on: 'tools/call',
      do: { kind: 'raw', headers: { 'Content-Type': 'text/event-stream' }, body },
    });
    const before = connection.ignored;
    expect(await send(connection)).toEqual({ kind: 'result', result: { content: 'first' } });
    expect(connection.ignored - before).toBe(2);
  });

  test.each([307, 308])(
    'F104: %i to the same origin is followed, with beforeSend awaited once',
    async (status) => {
      const upstream = await startUpstream({ era });
      const connection = await connect(upstream.url);
      upstream.faults.push({
        on: 'tools/call',
        times: 5,
        do: { kind: 'redirect', status, location: '/mcp/' },
      });
      let marks = 0;
      const beforeSend = async (): Promise<void> => {
        marks += 1;
      };
      expect(await send(connection, { arguments: '{"a":1}' }, { beforeSend })).toMatchObject({
        kind: 'result',
      });
      expect([marks, upstream.executions.all.length, upstream.requests('tools/call').length]).toEqual([
        1, 1, 6,
      ]);
      upstream.faults.push({
        on: 'tools/call',
        times: 6,
        do: { kind: 'redirect', status, location: '/mcp/' },
      });
      expect(await send(connection)).toEqual({ kind: 'status', status });
    },
  );

  test.each([301, 302, 303, 307, 308])('F104: %i to another origin is not followed', async (status) => {
    const foreign = await startUpstream();
    const upstream = await startUpstream({ era });
    const connection = await connect(upstream.url, { headers: { Authorization: secret, 'X-Api-Key': 'k' } });
    for (const location of [
      foreign.url,
      foreign.url.replace('127.0.0.1', 'localhost'),
      `//127.0.0.1:${foreign.port}/mcp`,
    ]) {
      upstream.faults.push({ on: 'tools/call', times: 1, do: { kind: 'redirect', status, location } });
      expect(await send(connection)).toMatchObject(
        status < 307 ? { kind: 'lost', why: 'dropped' } : { kind: 'status', status },
      );
      upstream.faults.push({ on: 'tools/list', times: 1, do: { kind: 'redirect', status, location } });
      expect(await listFaultOf(connection)).toMatchObject({ code: 'blocked' });
      upstream.faults.push({
        on: era === 'modern' ? 'server/discover' : 'initialize',
        times: 1,
        do: { kind: 'redirect', status, location },
      });
      expect(await faultOf(upstream.url, { era })).toMatchObject({ code: 'blocked' });
    }
    expect(foreign.log).toEqual([]);
  });

  test('F104: a call that was redirected and then refused by the guard was not sent', async () => {
    const upstream = await startUpstream({ era });
    let address = '127.0.0.1';
    const connection = await connect(upstream.url.replace('127.0.0.1', 'localhost'), {
      resolve: async () => [{ address, family: 4 }],
    });
    await until(() => upstream.listeners === 1);
    const headers = { Location: '/mcp/', Connection: 'close' };
    upstream.faults.push({ on: 'tools/call', do: { kind: 'status', status: 307, headers } });
    const beforeSend = async (): Promise<void> => {
      address = '169.254.169.254';
    };
    expect(await send(connection, {}, { beforeSend })).toMatchObject({ kind: 'not-sent' });
  });

  test.each(['json', 'sse'] as const)(
    'is called over connections that stay open, answering as %s',
    async (answerAs) => {
      const upstream = await startUpstream({ era, answerAs });
      const connection = await connect(upstream.url);
      await until(() => upstream.listeners === 1);
      for (let i = 0; i < 10; i += 1) await send(connection);
      // One for the stream of changes, and one or two for the rest.
      expect(upstream.accepted).toBeLessThanOrEqual(3);
    },
  );

  test('F106: a handshake that is redirected to /mcp/ stays there for the whole connection', async () => {
    const upstream = await startUpstream({ era });
    const method = era === 'modern' ? 'server/discover' : 'initialize';
    upstream.faults.push({ on: method, times: 1, do: { kind: 'redirect', status: 301, location: '/mcp/' } });
    const connection = await connect(upstream.url);
    expect(await send(connection)).toMatchObject({ kind: 'result' });
    expect(upstream.requests('tools/call').map(({ path }) => path)).toEqual(['/mcp/']);
  });

  test('hears of changed tools, also after its stream was cut', async () => {
    const upstream = await startUpstream({ era });
    const connection = await connect(upstream.url, { listenBackoffMs: 10 });
    let changes = 0;
    connection.onToolsChanged(() => (changes += 1));
    await until(() => upstream.listeners === 1);
    upstream.toolsChanged(3);
    await until(() => changes === 3);
    upstream.endStreams();
    // What was missed meanwhile counts as one change.
    await until(() => changes === 4 && upstream.listeners === 1);
    upstream.toolsChanged();
    await until(() => changes === 5);
    await connection.close();
    await until(() => upstream.listeners === 0);
  });

  test('hears of changed tools on the stream of a call', async () => {
    const upstream = await startUpstream({ era, streams: false, pages: [[tool('echo', { changes: 200 })]] });
    const connection = await connect(upstream.url);
    let changes = 0;
    connection.onToolsChanged(() => (changes += 1));
    await send(connection);
    expect(changes).toBe(200);
  });

  test.each([401, 403])('%i at the handshake, a listing or a call is about credentials', async (status) => {
    const upstream = await startUpstream({ era });
    const fault = (on: string): Fault => ({
      on,
      times: 1,
      do: { kind: 'status', status, body: 'body with s3cr3t' },
    });
    upstream.faults.push(fault('server/discover'), fault('initialize'));
    const first = await faultOf(upstream.url, { headers: { Authorization: secret } });
    expect(first.code).toBe('auth');
    expect(first.message).toBe(`127.0.0.1 answered with status ${status}`);
    expect(upstream.log).toHaveLength(1);
    upstream.faults.splice(0);
    const listing = await connect(upstream.url);
    upstream.faults.push(fault('tools/list'));
    expect(await listFaultOf(listing)).toMatchObject({
      code: 'auth',
      message: `127.0.0.1 answered with status ${status}`,
    });
    const calling = await connect(upstream.url);
    upstream.faults.push(fault('tools/call'));
    await send(calling);
    // The next call begins with a new connection, and with credentials that are read anew.
    expect([listing.isOpen, calling.isOpen]).toEqual([false, false]);
  });

  test.each<[string, Fault['do'], Partial<ConnectionFault>]>([
    ['an error', { kind: 'raw', body: '{"jsonrpc":"2.0","id":{id},"error":{"code":-5,"message":"no rows"}}' }, { code: 'listing', message: '127.0.0.1 answers tools/list with error -5: no rows' }],
    ['no JSON', { kind: 'raw', body: 'secret' }, { code: 'listing', message: '127.0.0.1: the answer is no JSON' }],
    ['503', { kind: 'status', status: 503 }, { code: 'unreachable', message: '127.0.0.1 answered with status 503' }],
    ['418', { kind: 'status', status: 418 }, { code: 'listing', message: '127.0.0.1 answered with status 418' }],
    ['a reset', { kind: 'drop-after-receive' }, { code: 'unreachable' }],
  ])('a listing answered by %s fails', async (_what, fault, expected) => {
    const upstream = await startUpstream({ era });
    const connection = await connect(upstream.url);
    upstream.faults.push({ on: 'tools/list', do: fault });
    expect(await listFaultOf(connection)).toMatchObject(expected);
  }); // prettier-ignore

  test('pages are asked for by their cursor', async () => {
    const upstream = await startUpstream({ era, pages: [[tool('a')], [tool('b')]] });
    const connection = await connect(upstream.url);
    const first = await connection.listPage(undefined, AbortSignal.timeout(5_000));
    expect(first).toMatchObject({ tools: [{ name: 'a' }], nextCursor: '1' });
    const second = await connection.listPage('1', AbortSignal.timeout(5_000));
    expect(second).toMatchObject({ tools: [{ name: 'b' }] });
    expect(second).not.toHaveProperty('nextCursor');
  });

  test('is closed once, and was sent nothing afterwards', async () => {
    const upstream = await startUpstream({ era });
    const connection = await connect(upstream.url);
    await Promise.all([connection.close(), connection.close()]);
    await connection.close();
    expect(upstream.log.filter(({ http }) => http === 'DELETE')).toHaveLength(era === 'legacy' ? 1 : 0);
    expect([connection.isOpen, upstream.sessions]).toEqual([false, 0]);
    expect(await send(connection)).toMatchObject({ kind: 'not-sent' });
    expect(upstream.requests('tools/call')).toEqual([]);
  });

  test('a verdict that is passed in is not found out anew', async () => {
    const upstream = await startUpstream({ era });
    await connect(upstream.url, { era });
    expect(upstream.log[0]?.method).toBe(era === 'modern' ? 'server/discover' : 'initialize');
  });

  test('a wrong verdict heals', async () => {
    const upstream = await startUpstream({ era });
    const connection = await connect(upstream.url, { era: era === 'modern' ? 'legacy' : 'modern' });
    expect(connection.era).toBe(era);
    expect(await send(connection)).toMatchObject({ kind: 'result' });
  });
});

describe('the era', () => {
  test('is the modern one where a server speaks both', async () => {
    const upstream = await startUpstream({ era: 'both' });
    expect((await connect(upstream.url)).era).toBe('modern');
    expect(upstream.requests('initialize')).toEqual([]);
  });

  test.each<[string, Fault['do']]>([
    ['400', { kind: 'status', status: 400 }],
    ['404', { kind: 'status', status: 404 }],
    ['405', { kind: 'status', status: 405 }],
    ['406', { kind: 'status', status: 406 }],
    ['an error', { kind: 'raw', body: '{"jsonrpc":"2.0","id":{id},"error":{"code":-32601,"message":"no"}}' }],
    ['an error without an id', { kind: 'raw', body: '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}' }],
    ['versions without ours', { kind: 'raw', body: '{"jsonrpc":"2.0","id":{id},"result":{"supportedVersions":["2999-01-01"]}}' }],
    ['HTML', { kind: 'raw', headers: { 'Content-Type': 'text/html' }, body: '<p>' }],
    ['a reset', { kind: 'drop-after-receive' }],
    ['nothing, for a third of the time', { kind: 'hang' }],
  ])('is the legacy one when the probe is answered by %s', async (_what, fault) => {
    const upstream = await startUpstream({ era: 'legacy' });
    upstream.faults.push({ on: 'server/discover', do: fault });
    const connection = await connect(upstream.url, { connectTimeoutMs: 1_500 });
    expect([connection.era, await send(connection)]).toEqual(['legacy', expect.objectContaining({ kind: 'result' })]);
  }); // prettier-ignore

  test('is not told by a lost answer: a modern one that refuses initialize after it can be tried again', async () => {
    const upstream = await startUpstream({ era: 'modern' });
    upstream.faults.push({ on: 'server/discover', times: 1, do: { kind: 'drop-after-receive' } });
    expect(await faultOf(upstream.url)).toMatchObject({ code: 'unreachable' });
    expect((await connect(upstream.url)).era).toBe('modern');
  });

  test.each([500, 502, 503, 429])('is not told by %i: the server is not reached', async (status) => {
    const upstream = await startUpstream();
    upstream.faults.push({ on: 'server/discover', do: { kind: 'status', status } });
    expect(await faultOf(upstream.url)).toMatchObject({
      code: 'unreachable',
      message: `127.0.0.1 answered with status ${status}`,
    });
    expect(upstream.requests('initialize')).toEqual([]);
  });

  test.each(['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'])(
    'F151: an upstream of %s alone gets its own handshake and version',
    async (version) => {
      const upstream = await startUpstream({ era: 'legacy', legacyVersions: [version] });
      const connection = await connect(upstream.url);
      expect(connection.protocolVersion).toBe(version);
      expect(await send(connection)).toMatchObject({ kind: 'result' });
      expect(upstream.requests('initialize')[0]?.params).toEqual({
        protocolVersion: '2025-11-25',
        capabilities: {},
        clientInfo: { name: 'holdfast', version: '1.2.3' },
      });
      for (const method of ['notifications/initialized', 'tools/call'])
        expect(upstream.requests(method)[0]?.headers['mcp-protocol-version']).toBe(version);
    },
  );

  test.each([
    ['2024-01-01', `127.0.0.1 speaks 2024-01-01; ${knownRevisions}`],
    ['<b>secret</b>', `127.0.0.1 speaks an unknown revision; ${knownRevisions}`],
  ])('a revision that we do not speak is refused by name: %s', async (version, message) => {
    const upstream = await startUpstream({ era: 'legacy', legacyVersions: [version] });
    expect(await faultOf(upstream.url)).toMatchObject({ code: 'protocol', message });
    // The session that it opened is not left behind.
    expect(upstream.log.some(({ http }) => http === 'GET')).toBe(false);
  });

  test('what is no MCP server is told by its status', async () => {
    const upstream = await startUpstream();
    for (const on of ['server/discover', 'initialize'])
      upstream.faults.push({ on, do: { kind: 'status', status: 404 } });
    expect(await faultOf(upstream.url)).toMatchObject({
      code: 'protocol',
      message: '127.0.0.1 answered with status 404',
    });
  });

  test('a server that never answers is given up in time', async () => {
    const upstream = await startUpstream();
    for (const on of ['server/discover', 'initialize']) upstream.faults.push({ on, do: { kind: 'hang' } });
    expect(await faultOf(upstream.url, { connectTimeoutMs: 300 })).toMatchObject({ code: 'unreachable' });
  });

  test('a handshake answer without an end is given up at 256 KiB', async () => {
    const upstream = await startUpstream({ era: 'legacy' });
    upstream.faults.push({ on: 'initialize', do: { kind: 'raw', body: `"${'x'.repeat(300_000)}"` } });
    expect(await faultOf(upstream.url)).toMatchObject({
      code: 'protocol',
      message: '127.0.0.1: the answer is over the size limit (262144 bytes)',
    });
  });
});

describe('the guard', () => {
  const guard = { allowLoopback: false, requireAllowedHosts: false, network: 'on' } as const;

  test('F124: refuses before anything is sent', async () => {
    const upstream = await startUpstream();
    const { port } = upstream;
    for (const host of [
      '127.0.0.1',
      'localhost',
      '0.0.0.0',
      '[::ffff:127.0.0.1]',
      '2130706433',
      '0x7f.1',
      '0177.0.0.1',
    ])
      expect(await faultOf(`http://${host}:${port}/mcp`, { guard })).toMatchObject({ code: 'blocked' });
    expect(upstream.log).toEqual([]);
  });

  test('F126: refuses a call when the name has another address by then', async () => {
    const upstream = await startUpstream({ era: 'modern' });
    // No connection is left that the call could use.
    const headers = { Connection: 'close' };
    const body = '{"jsonrpc":"2.0","id":{id},"result":{"supportedVersions":["2026-07-28"]}}';
    upstream.faults.push({ on: 'server/discover', do: { kind: 'raw', headers, body } });
    upstream.faults.push({ on: 'subscriptions/listen', do: { kind: 'status', status: 405, headers } });
    let address = '127.0.0.1';
    const connection = await connect(upstream.url.replace('127.0.0.1', 'localhost'), {
      resolve: async () => [{ address, family: 4 }],
    });
    address = '169.254.169.254';
    expect(await send(connection)).toEqual({
      kind: 'not-sent',
      reason: 'the address guard refuses the host localhost',
    });
    expect(upstream.requests('tools/call')).toEqual([]);
  });

  test('F128: refuses a name with a private IPv6 address', async () => {
    const resolve = async () => [
      { address: '93.184.216.34', family: 4 },
      { address: 'fd00::1', family: 6 },
    ];
    expect(await faultOf('http://mcp.example/', { resolve })).toMatchObject({
      code: 'blocked',
      message: 'the address guard refuses the host mcp.example',
    });
  });
});

describe('a legacy session', () => {
  test('is named in every later request', async () => {
    const upstream = await startUpstream({ era: 'legacy' });
    const connection = await connect(upstream.url);
    await until(() => upstream.listeners === 1);
    await send(connection);
    await connection.close();
    const named = upstream.log.filter(({ headers }) => headers['mcp-session-id'] !== undefined);
    expect(named.map(({ http, method }) => method ?? http).sort()).toEqual([
      'DELETE',
      'GET',
      'notifications/initialized',
      'tools/call',
    ]);
    expect(new Set(named.map(({ headers }) => headers['mcp-session-id'])).size).toBe(1);
  });

  test('F06: is lost by 404, and a new connection goes on', async () => {
    const upstream = await startUpstream({ era: 'legacy' });
    const connection = await connect(upstream.url);
    upstream.forgetSessions();
    expect(await send(connection)).toEqual({ kind: 'session-lost' });
    expect([connection.isOpen, upstream.executions.all.length]).toEqual([false, 0]);
    expect(await send(await connect(upstream.url, { era: connection.era }))).toMatchObject({
      kind: 'result',
    });
  });

  test('is not lost by 404 for a method that is not there', async () => {
    const upstream = await startUpstream({ era: 'legacy' });
    const connection = await connect(upstream.url);
    const body = '{"jsonrpc":"2.0","id":{id},"error":{"code":-32601,"message":"no"}}';
    upstream.faults.push({ on: 'tools/call', do: { kind: 'raw', status: 404, body } });
    expect(await send(connection)).toMatchObject({ kind: 'error', code: -32601 });
    expect(connection.isOpen).toBe(true);
  });

  test('that an older server no longer knows may be a 400: the call is lost, the connection too', async () => {
    const upstream = await startUpstream({ era: 'legacy' });
    const connection = await connect(upstream.url);
    upstream.faults.push({ on: 'tools/call', do: { kind: 'status', status: 400 } });
    expect(await send(connection)).toMatchObject({ kind: 'lost', why: 'dropped' });
    expect(connection.isOpen).toBe(false);
  });

  test('F99: is not needed', async () => {
    const upstream = await startUpstream({ era: 'legacy', sessions: false });
    const connection = await connect(upstream.url);
    expect(await send(connection)).toMatchObject({ kind: 'result' });
    upstream.faults.push({ on: 'tools/call', times: 1, do: { kind: 'status', status: 404 } });
    expect(await send(connection)).toEqual({ kind: 'status', status: 404 });
    expect(connection.isOpen).toBe(true);
    await connection.close();
    expect(upstream.log.filter(({ http }) => http === 'DELETE')).toEqual([]);
  });

  test('with an id that no header carries back is refused', async () => {
    const upstream = await startUpstream({ era: 'legacy' });
    const body = '{"jsonrpc":"2.0","id":{id},"result":{"protocolVersion":"2025-11-25"}}';
    upstream.faults.push({
      on: 'initialize',
      do: { kind: 'raw', headers: { 'Mcp-Session-Id': 'a b' }, body },
    });
    expect(await faultOf(upstream.url)).toMatchObject({ code: 'protocol' });
  });

  test.each([
    ['200 null', { status: 200, body: 'null', headers: { 'Content-Type': 'application/json' } }],
    ['200 {}', { status: 200, body: '{}', headers: { 'Content-Type': 'application/json' } }],
    ['200 and nothing, chunked', { status: 200, body: '', headers: { 'Transfer-Encoding': 'chunked' } }],
    ['202 text', { status: 202, body: 'Accepted', headers: { 'Content-Type': 'text/plain' } }],
    ['200 HTML', { status: 200, body: '<p>ok</p>', headers: { 'Content-Type': 'text/html' } }],
  ])('F90: begins whatever a success says to notifications/initialized: %s', async (_what, answer) => {
    const upstream = await startUpstream({ era: 'legacy' });
    upstream.faults.push({ on: 'notifications/initialized', do: { kind: 'status', ...answer } });
    expect(await send(await connect(upstream.url))).toMatchObject({ kind: 'result' });
  });

  test('does not begin when that is refused, and is ended', async () => {
    const upstream = await startUpstream({ era: 'legacy' });
    upstream.faults.push({ on: 'notifications/initialized', do: { kind: 'status', status: 500 } });
    expect(await faultOf(upstream.url)).toMatchObject({
      code: 'unreachable',
      message: '127.0.0.1 answered with status 500',
    });
    expect(upstream.sessions).toBe(0);
  });

  test.each<[string, Fault['do']]>([
    ['200 text', { kind: 'status', status: 200, headers: { 'Content-Type': 'text/plain' }, body: 'hello' }],
    ['200 HTML', { kind: 'status', status: 200, headers: { 'Content-Type': 'text/html' }, body: '<p>' }],
    ['404', { kind: 'status', status: 404 }],
    ['501', { kind: 'status', status: 501 }],
  ])('F96: GET answered by %s is tried a few times, and then no more', async (_what, fault) => {
    const upstream = await startUpstream({ era: 'legacy' });
    upstream.faults.push({ on: 'GET', do: fault });
    const ends = Promise.withResolvers<void>();
    const log = {
      ...silent,
      debug: (_fields: object, message: string) => message.includes('no stream') && ends.resolve(),
    };
    const connection = await connect(upstream.url, { listenBackoffMs: 5, log });
    await ends.promise;
    expect(upstream.log.filter(({ http }) => http === 'GET')).toHaveLength(3);
    expect(await send(connection)).toMatchObject({ kind: 'result' });
  });

  test('F96: GET answered by 405 is not tried again', async () => {
    const upstream = await startUpstream({ era: 'legacy', streams: false });
    const ends = Promise.withResolvers<void>();
    const log = {
      ...silent,
      debug: (_fields: object, message: string) => message.includes('no stream') && ends.resolve(),
    };
    await connect(upstream.url, { listenBackoffMs: 5, log });
    await ends.promise;
    expect(upstream.log.filter(({ http }) => http === 'GET')).toHaveLength(1);
  });

  test('a ping of the server is answered, and any other request refused', async () => {
    const upstream = await startUpstream({ era: 'legacy' });
    await connect(upstream.url);
    await until(() => upstream.listeners === 1);
    upstream.say({ jsonrpc: '2.0', id: 'p1', method: 'ping' });
    upstream.say({ jsonrpc: '2.0', id: 's1', method: 'sampling/createMessage', params: {} });
    const replies = (): string[] =>
      upstream.log.filter(({ body }) => /"(result|error)"/.test(body)).map(({ body }) => body);
    await until(() => replies().length === 2);
    expect(replies().sort()).toEqual([
      expect.stringMatching(/"id":"p1","result":\{\}/),
      expect.stringMatching(/"id":"s1","error":\{"code":-32601/),
    ]);
  });

  test('a stream of a call that breaks off is taken up again from its last event', async () => {
    const upstream = await startUpstream({ era: 'legacy', streams: false });
    const connection = await connect(upstream.url, { listenBackoffMs: 5 });
    await until(() => upstream.log.some(({ http }) => http === 'GET'));
    upstream.faults.push({ on: 'tools/call', do: { kind: 'drop-mid-stream', id: 'e7', retryMs: 10 } });
    const answer = 'id: e8\ndata: {"jsonrpc":"2.0","id":3,"result":{"content":[]}}\n\n';
    const events = { 'Content-Type': 'text/event-stream' };
    upstream.faults.push({ on: 'GET', times: 1, do: { kind: 'status', status: 503 } });
    upstream.faults.push({
      on: 'GET',
      times: 1,
      do: { kind: 'status', status: 200, headers: events, body: 'id: e8\n\n' },
    });
    upstream.faults.push({
      on: 'GET',
      times: 1,
      do: { kind: 'status', status: 200, headers: events, body: answer },
    });
    const sending = send(connection);
    expect(await sending).toEqual({ kind: 'result', result: { content: [] } });
    expect(JSON.parse(upstream.requests('tools/call')[0]!.body)).toMatchObject({ id: 3 });
    const asked = upstream.log
      .filter(({ http }) => http === 'GET')
      .map(({ headers }) => headers['last-event-id']);
    expect(asked).toEqual([undefined, 'e7', 'e7', 'e8']);
    expect(upstream.executions.all).toHaveLength(1);
  });

  test('a stream that cannot be taken up again is lost', async () => {
    const upstream = await startUpstream({ era: 'legacy' });
    const connection = await connect(upstream.url);
    await until(() => upstream.listeners === 1);
    upstream.faults.push({ on: 'tools/call', do: { kind: 'drop-mid-stream', id: 'e7', retryMs: 10 } });
    upstream.faults.push({ on: 'GET', do: { kind: 'status', status: 404 } });
    expect(await send(connection)).toMatchObject({ kind: 'lost', why: 'dropped' });
  });
});

describe('the modern era', () => {
  test('mirrors method, tool and wished-for arguments in headers, encoded where a header cannot hold them', async () => {
    const upstream = await startUpstream({ era: 'modern', pages: [[tool('größe')]] });
    const connection = await connect(upstream.url);
    const paramHeaders = { 'Mcp-Param-Region': 'eu', 'Mcp-Param-City': 'Köln' };
    expect(await send(connection, { tool: 'größe', paramHeaders })).toMatchObject({ kind: 'result' });
    expect(upstream.requests('tools/call')[0]?.headers).toMatchObject({
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': '=?base64?Z3LDtsOfZQ==?=',
      'mcp-param-region': 'eu',
      'mcp-param-city': '=?base64?S8O2bG4=?=',
    });
  });

  test.each([-32020, -32021, -32022])('400 with %i is a definite answer', async (code) => {
    const upstream = await startUpstream({ era: 'modern' });
    const connection = await connect(upstream.url);
    const body = `{"jsonrpc":"2.0","id":null,"error":{"code":${code},"message":"no"}}`;
    upstream.faults.push({ on: 'tools/call', do: { kind: 'raw', status: 400, body } });
    expect(await send(connection)).toEqual({ kind: 'error', code, message: 'no' });
    expect(connection.isOpen).toBe(code !== -32022);
  });

  test('a result that asks for input is an answer that nobody can act on', async () => {
    const result = { resultType: 'input_required', inputRequests: {}, requestState: 'x' };
    const upstream = await startUpstream({ era: 'modern', pages: [[tool('echo', { result })]] });
    expect(await send(await connect(upstream.url))).toEqual({
      kind: 'error',
      code: -32021,
      message: 'the server asks for input that nobody can give here',
    });
  });

  test('a result of a kind that we did not ask for tells nothing', async () => {
    const result = { resultType: 'task', taskId: 't' };
    const upstream = await startUpstream({ era: 'modern', pages: [[tool('echo', { result })]] });
    expect(await send(await connect(upstream.url))).toMatchObject({ kind: 'lost', why: 'dropped' });
  });
});
