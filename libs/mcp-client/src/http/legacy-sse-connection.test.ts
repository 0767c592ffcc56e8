import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from '@jest/globals';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { ConnectionFault, type SendOptions, type Sent } from '../connection.js';
import { type HttpConnection, type HttpOptions } from './http-connection.js';
import { connectLegacySse } from './legacy-sse-connection.js';
import { silent } from '../../../../test/support/log.ts';

const cleanUps: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

async function serve(
  handler: (req: IncomingMessage, res: ServerResponse) => void,
): Promise<{ url: string; server: Server }> {
  const server = createServer(handler);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanUps.push(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/sse`, server };
}

async function connect(url: string, options: Partial<HttpOptions> = {}): Promise<HttpConnection> {
  const connection = await connectLegacySse({
    url,
    headers: {},
    guard: { allowLoopback: true, requireAllowedHosts: false, network: 'on' },
    connectTimeoutMs: 5_000,
    clientVersion: '1',
    log: silent,
    ...options,
  });
  cleanUps.push(() => connection.close());
  return connection;
}

async function faultOf(url: string, options: Partial<HttpOptions> = {}): Promise<ConnectionFault> {
  const outcome = await connect(url, options).catch((error: unknown) => error);
  if (outcome instanceof ConnectionFault) return outcome;
  throw new Error('it connected, or failed otherwise', { cause: outcome });
}

function send(connection: HttpConnection, tool = 'echo', options: Partial<SendOptions> = {}): Promise<Sent> {
  return connection.send(
    { tool, arguments: '{}', meta: {}, paramHeaders: {} },
    {
      beforeSend: async () => {},
      signal: new AbortController().signal,
      timeoutMs: 5_000,
      onProgress: () => {},
      ...options,
    },
  );
}

/** A server of the SDK, with a tool that answers and one that never does. */
async function startSdkServer(): Promise<{
  url: string;
  headers: IncomingMessage['headers'][];
  streams: Set<ServerResponse>;
  calls: () => number;
}> {
  const transports = new Map<string, SSEServerTransport>();
  const streams = new Set<ServerResponse>();
  const headers: IncomingMessage['headers'][] = [];
  let calls = 0;
  const open = async (res: ServerResponse): Promise<void> => {
    const transport = new SSEServerTransport('/messages', res);
    const mcp = new McpServer({ name: 'sdk', version: '1' });
    mcp.registerTool('echo', {}, async ({ _meta, sendNotification }) => {
      calls += 1;
      const params = { progressToken: _meta!.progressToken!, progress: 1 };
      await sendNotification({ method: 'notifications/progress', params });
      return { content: [{ type: 'text', text: 'hello' }] };
    });
    mcp.registerTool('silence', {}, () => {
      calls += 1;
      return new Promise(() => {});
    });
    transports.set(transport.sessionId, transport);
    streams.add(res);
    res.once('close', () => transports.delete(transport.sessionId));
    await mcp.connect(transport);
  };
  const { url } = await serve((req, res) => {
    headers.push(req.headers);
    if (req.method === 'GET') return void open(res);
    const session = new URL(req.url!, 'http://x').searchParams.get('sessionId') ?? '';
    const transport = transports.get(session);
    if (transport === undefined) res.writeHead(404).end('no session');
    else void transport.handlePostMessage(req, res);
  });
  return { url, headers, streams, calls: () => calls };
}

describe('a server of HTTP+SSE', () => {
  test('is listed and called, with configured headers on every request', async () => {
    const sdk = await startSdkServer();
    const connection = await connect(sdk.url, { headers: { 'X-Key': 'k' } });
    expect(connection.serverInfo).toEqual({ name: 'sdk', version: '1' });
    expect(await connection.listPage(undefined, AbortSignal.timeout(5_000))).toMatchObject({
      tools: [{ name: 'echo' }, { name: 'silence' }],
    });
    const progress: unknown[] = [];
    expect(await send(connection, 'echo', { onProgress: (one) => progress.push(one) })).toMatchObject({
      kind: 'result',
      result: { content: [{ type: 'text', text: 'hello' }] },
    });
    expect(progress).toEqual([{ value: 1 }]);
    expect(sdk.headers.map((one) => one['x-key'])).toEqual(Array(sdk.headers.length).fill('k'));
  });

  test('that is silent ends a call by its time', async () => {
    const sdk = await startSdkServer();
    const connection = await connect(sdk.url);
    expect(await send(connection, 'silence', { timeoutMs: 100 })).toMatchObject({
      kind: 'lost',
      why: 'timeout',
    });
    expect(await send(connection)).toMatchObject({ kind: 'result' });
  });

  test('whose stream ends has dropped the calls that wait, and takes no more', async () => {
    const sdk = await startSdkServer();
    const connection = await connect(sdk.url);
    const waiting = send(connection, 'silence');
    while (sdk.calls() === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    for (const stream of sdk.streams) stream.end();
    expect(await waiting).toMatchObject({ kind: 'lost', why: 'dropped' });
    expect(connection.isOpen).toBe(false);
    expect(await send(connection)).toEqual({
      kind: 'not-sent',
      reason: 'the stream of the server has ended',
    });
    expect(sdk.calls()).toBe(1);
  });

  test('is let go when it is closed', async () => {
    const sdk = await startSdkServer();
    const connection = await connect(sdk.url);
    const gone = Promise.all(
      [...sdk.streams].map((stream) => new Promise((resolve) => stream.once('close', resolve))),
    );
    await connection.close();
    await connection.close();
    await gone;
    expect(connection.isOpen).toBe(false);
  });
});

/** A server whose stream begins with these bytes, and that answers a POST with a status. */
const scripted = (stream: string, post = 202): Promise<{ url: string }> =>
  serve((req, res) => {
    if (req.method !== 'GET') return void res.writeHead(post).end();
    res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write(stream);
  });

describe('no connection comes', () => {
  test.each(['http://127.0.0.1:1/messages', '//localhost/messages', 'https://evil.example/m'])(
    'of an endpoint of another origin: %s',
    async (endpoint) => {
      const { url } = await scripted(`event: endpoint\ndata: ${endpoint}\n\n`);
      expect(await faultOf(url)).toMatchObject({ code: 'blocked' });
    },
  );

  test('of a stream that names no endpoint in time', async () => {
    const { url } = await scripted(': hello\n\n');
    expect(await faultOf(url, { connectTimeoutMs: 100 })).toMatchObject({ code: 'unreachable' });
  });

  test('of a server that takes the handshake and never answers', async () => {
    const { url } = await scripted('event: endpoint\ndata: /messages\n\n');
    expect(await faultOf(url, { connectTimeoutMs: 100 })).toMatchObject({ code: 'unreachable' });
  });

  test.each([
    [401, 'auth'],
    [404, 'protocol'],
    [503, 'unreachable'],
  ])('of a server that answers GET with %i', async (status, code) => {
    const { url } = await serve((_req, res) => void res.writeHead(status).end());
    expect(await faultOf(url)).toMatchObject({
      code,
      message: `127.0.0.1 answered with status ${status}`,
    });
  });

  test('of a server that refuses the handshake', async () => {
    const { url } = await scripted('event: endpoint\ndata: /messages\n\n', 403);
    expect(await faultOf(url)).toMatchObject({
      code: 'auth',
      message: '127.0.0.1 answered with status 403',
    });
  });

  test('of an event without an end', async () => {
    const { url } = await scripted(`event: endpoint\ndata: ${'x'.repeat(5_000)}`);
    expect(await faultOf(url, { maxAnswerBytes: 1_000 })).toMatchObject({ code: 'unreachable' });
  });
});
