import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ScriptableUpstream, type UpstreamScript } from '../../../../test/servers/index.js';
import { afterTest } from '../../../../test/support/after-test.ts';
import { silent } from '../../../../test/support/log.ts';
import type { OutgoingCall, SendOptions, Sent } from '../connection.js';
import { connectHttp, type HttpConnection, type HttpOptions } from './http-connection.js';

export async function startUpstream(script: Partial<UpstreamScript> = {}): Promise<ScriptableUpstream> {
  const upstream = await ScriptableUpstream.start({ script });
  afterTest(() => upstream.close());
  return upstream;
}

/** @param port  a free one if omitted */
export async function serveHttp(
  listener: RequestListener,
  port = 0,
): Promise<{ origin: string; port: number; close(): Promise<void> }> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const bound = (server.address() as AddressInfo).port;
  const close = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  afterTest(close);
  return { origin: `http://127.0.0.1:${bound}`, port: bound, close };
}

export interface Asked {
  readonly id: unknown;
  readonly method: string;
  readonly params?: Record<string, unknown>;
}

/** Reads the JSON-RPC message of a request; undefined when there is none. */
export async function messageOf(request: IncomingMessage): Promise<Asked | undefined> {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  return text === '' ? undefined : (JSON.parse(text) as Asked);
}

export function reply(response: ServerResponse, status: number, body?: object | string, headers = {}): void {
  const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(text);
}

export async function connect(url: string, options: Partial<HttpOptions> = {}): Promise<HttpConnection> {
  const connection = await connectHttp({
    url,
    headers: {},
    guard: { allowLoopback: true, requireAllowedHosts: false, network: 'on' },
    connectTimeoutMs: 5_000,
    clientVersion: '1.2.3',
    log: silent,
    ...options,
  });
  afterTest(() => connection.close());
  return connection;
}

export function send(
  connection: HttpConnection,
  call: Partial<OutgoingCall> = {},
  options: Partial<SendOptions> = {},
): Promise<Sent> {
  return connection.send(
    { tool: 'echo', arguments: '{}', meta: {}, paramHeaders: {}, ...call },
    {
      beforeSend: async () => {},
      signal: new AbortController().signal,
      timeoutMs: 5_000,
      onProgress: () => {},
      ...options,
    },
  );
}
