import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { afterEach, describe, expect, test } from '@jest/globals';
import { McpServer as ModernServer, createMcpHandler } from '@modelcontextprotocol/server';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { connectHttp, type HttpConnection } from './http-connection.js';
import { silent } from '../../../../test/support/log.ts';

const cleanUps: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

async function connectTo(
  handler: (req: IncomingMessage, res: ServerResponse) => void,
): Promise<HttpConnection> {
  const server = createServer(handler);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanUps.push(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  const connection = await connectHttp({
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    headers: {},
    guard: { allowLoopback: true, requireAllowedHosts: false, network: 'on' },
    connectTimeoutMs: 5_000,
    clientVersion: '1',
    log: silent,
  });
  cleanUps.push(() => connection.close());
  return connection;
}

async function use(connection: HttpConnection): Promise<unknown> {
  expect(await connection.listPage(undefined, AbortSignal.timeout(5_000))).toMatchObject({
    tools: [{ name: 'echo' }],
  });
  return connection.send(
    { tool: 'echo', arguments: '{}', meta: {}, paramHeaders: {} },
    {
      beforeSend: async () => {},
      signal: AbortSignal.timeout(5_000),
      timeoutMs: 5_000,
      onProgress: () => {},
    },
  );
}

const hello = { kind: 'result', result: { content: [{ type: 'text', text: 'hello' }] } };

describe('servers that others wrote', () => {
  test('the SDK, version 1, with sessions', async () => {
    const transports = new Map<string, StreamableHTTPServerTransport>();
    const connection = await connectTo((req, res) => {
      const known = transports.get(String(req.headers['mcp-session-id']));
      if (known !== undefined) return void known.handleRequest(req, res);
      const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => void transports.set(id, transport),
      });
      const mcp = new McpServer({ name: 'sdk', version: '1' });
      mcp.registerTool('echo', {}, () => ({ content: [{ type: 'text', text: 'hello' }] }));
      void mcp.connect(transport).then(() => transport.handleRequest(req, res));
    });
    expect([connection.era, connection.serverInfo]).toEqual(['legacy', { name: 'sdk', version: '1' }]);
    expect(await use(connection)).toMatchObject(hello);
  });

  test('the SDK, version 2, in the modern era', async () => {
    const handler = createMcpHandler(() => {
      const mcp = new ModernServer({ name: 'sdk', version: '2' });
      mcp.registerTool('echo', {}, () => ({ content: [{ type: 'text', text: 'hello' }] }));
      return mcp;
    });
    const connection = await connectTo((req, res) => void serveFetch(handler.fetch, req, res));
    expect([connection.era, connection.serverInfo]).toEqual(['modern', { name: 'sdk', version: '2' }]);
    expect(await use(connection)).toMatchObject(hello);
  });
});

/** Serves a handler of the web's requests. */
async function serveFetch(
  handle: (request: Request) => Promise<Response>,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of req as AsyncIterable<Buffer>) chunks.push(chunk);
  const response = await handle(
    new Request(`http://${req.headers.host}${req.url}`, {
      method: req.method!,
      headers: Object.entries(req.headers).map(([name, value]): [string, string] => [name, String(value)]),
      ...(chunks.length > 0 && { body: Buffer.concat(chunks) }),
    }),
  );
  res.writeHead(response.status, Object.fromEntries(response.headers));
  if (response.body === null) res.end();
  else Readable.fromWeb(response.body as Parameters<typeof Readable.fromWeb>[0]).pipe(res);
}
