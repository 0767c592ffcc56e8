import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { reset } from './tcp-proxy.ts';
import { serveControl } from './upstream-control.ts';
import { Executions } from './upstream-executions.ts';
import {
  defaultScript,
  type Fault,
  type LoggedRequest,
  type ScriptedTool,
  type UpstreamScript,
} from './upstream-script.ts';

const modernVersion = '2026-07-28';
const metaPrefix = 'io.modelcontextprotocol/';

type Json = Record<string, unknown>;
type Entry = { -readonly [key in keyof LoggedRequest]: LoggedRequest[key] };

export interface UpstreamOptions {
  /** Port; a free one if omitted. */
  port?: number;
  /** Control port; a free one if omitted. */
  controlPort?: number;
  /** File for executions; kept only in memory if omitted. */
  file?: string;
  script?: Partial<UpstreamScript>;
}

/**
 * An MCP server over Streamable HTTP, of both eras, that follows its script, logs every request and
 * counts its executions. Use it as an object in the same process, over its control port, or as a
 * separate process (`startUpstreamProcess`).
 */
export class ScriptableUpstream {
  script: UpstreamScript;
  readonly faults: Fault[] = [];
  readonly log: LoggedRequest[] = [];
  readonly executions: Executions;
  readonly #sessions = new Set<string>();
  /** Streams of server-initiated messages, with the id of the subscription in the modern era. */
  readonly #streams = new Map<ServerResponse, unknown>();
  readonly #server: Server;
  readonly #control: Server;
  #accepted = 0;

  private constructor({ file, script }: UpstreamOptions) {
    this.script = { ...structuredClone(defaultScript), ...script };
    this.executions = new Executions(file);
    this.#server = createServer((req, res) => void this.#serve(req, res));
    this.#server.on('connection', () => (this.#accepted += 1));
    this.#server.keepAliveTimeout = 60_000;
    this.#control = serveControl(this);
  }

  static async start(options: UpstreamOptions = {}): Promise<ScriptableUpstream> {
    const upstream = new ScriptableUpstream(options);
    await listenOn(upstream.#server, options.port ?? 0);
    await listenOn(upstream.#control, options.controlPort ?? 0);
    return upstream;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/mcp`;
  }

  get controlUrl(): string {
    return `http://127.0.0.1:${(this.#control.address() as AddressInfo).port}`;
  }

  /** Number of known sessions. */
  get sessions(): number {
    return this.#sessions.size;
  }

  /** Number of clients that listen for server-initiated messages. */
  get listeners(): number {
    return this.#streams.size;
  }

  /** Number of connections opened so far. */
  get accepted(): number {
    return this.#accepted;
  }

  /** The requests of one JSON-RPC method. */
  requests(method: string): LoggedRequest[] {
    return this.log.filter((entry) => entry.method === method);
  }

  /** Forgets every session. */
  forgetSessions(): void {
    this.#sessions.clear();
  }

  toolsChanged(times = 1): void {
    for (const [stream, id] of this.#streams)
      for (let i = 0; i < times; i += 1) this.#push(stream, changed(id));
  }

  /** Sends a server-initiated message on every stream, for example a request. */
  say(message: object): void {
    for (const stream of this.#streams.keys()) this.#push(stream, message);
  }

  /** Ends the streams of server-initiated messages. */
  endStreams(): void {
    for (const stream of this.#streams.keys()) stream.end();
  }

  /** Resets open connections and frees the ports. Safe twice. */
  async close(): Promise<void> {
    await Promise.all(
      [this.#server, this.#control].map(async (server) => {
        const closed = new Promise<void>((resolve) => server.close(() => resolve()));
        server.closeAllConnections();
        await closed;
      }),
    );
  }

  async #serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const body = await readBody(req);
    const message = parse(body);
    const entry: Entry = {
      http: req.method ?? '',
      path: req.url ?? '',
      headers: Object.fromEntries(Object.entries(req.headers).map(([name, value]) => [name, String(value)])),
      body,
      ...(typeof message?.['method'] === 'string' && { method: message['method'] }),
      ...(isObject(message?.['params']) && { params: message['params'] }),
      wasAbandoned: false,
    };
    this.log.push(entry);
    res.once('close', () => (entry.wasAbandoned = !res.writableFinished));

    const { credential } = this.script;
    if (credential !== null && req.headers[credential.header.toLowerCase()] !== credential.value)
      return end(res, 401, { error: 'the body of a 401' });
    const fault = this.#faultFor(entry);
    if (fault !== undefined && (await this.#fail(fault, req, res, message))) return;
    if (req.method === 'POST' && message !== undefined) return this.#post(req, res, message);
    return this.#other(req, res);
  }

  #faultFor({ http, method, params }: LoggedRequest): Fault | undefined {
    const index = this.faults.findIndex(
      ({ on, tool }) => (on === method || on === http) && (tool === undefined || tool === params?.['name']),
    );
    const fault = this.faults[index];
    if (fault?.times !== undefined) {
      fault.times -= 1;
      if (fault.times <= 0) this.faults.splice(index, 1);
    }
    return fault;
  }

  /** @returns whether the request was handled */
  async #fail(
    { do: what }: Fault,
    req: IncomingMessage,
    res: ServerResponse,
    message: Json | undefined,
  ): Promise<boolean> {
    const execute = (): void => {
      const tool = this.#tool(message);
      if (tool !== undefined) this.#execute(tool, message!);
    };
    switch (what.kind) {
      case 'drop-after-receive':
        execute();
        reset(req.socket);
        return true;
      case 'hang':
        execute();
        return true;
      case 'drop-mid-stream':
        execute();
        res.writeHead(200, { 'Content-Type': 'text/event-stream' });
        if (what.id !== undefined) res.write(`id: ${what.id}\nretry: ${what.retryMs ?? 100}\ndata: \n\n`);
        else res.write(': nothing yet\n\n');
        res.end();
        return true;
      case 'status':
        res.writeHead(what.status, what.headers).end(what.body ?? 'the body of a refusal');
        return true;
      case 'redirect':
        res
          .writeHead(what.status, { Location: what.location.replace('{self}', new URL(this.url).origin) })
          .end();
        return true;
      case 'raw':
        execute();
        res
          .writeHead(what.status ?? 200, { 'Content-Type': 'application/json', ...what.headers })
          .end(what.body.replaceAll('{id}', JSON.stringify(message?.['id'] ?? null)));
        return true;
    }
  }

  /** Handles GET and DELETE. */
  #other(req: IncomingMessage, res: ServerResponse): void {
    const session = req.headers['mcp-session-id'];
    const isKnown = typeof session === 'string' && this.#sessions.has(session);
    if (this.script.era === 'modern') return end(res, 405);
    if (this.script.sessions && !isKnown) return end(res, session === undefined ? 400 : 404);
    if (req.method === 'DELETE') {
      if (typeof session === 'string') this.#sessions.delete(session);
      return end(res, this.script.sessions ? 200 : 405);
    }
    if (req.method !== 'GET' || !this.script.streams) return end(res, 405);
    this.#openStream(res, undefined);
  }

  async #post(req: IncomingMessage, res: ServerResponse, message: Json): Promise<void> {
    const meta = isObject(message['params']) ? message['params']['_meta'] : undefined;
    const isModern = isObject(meta) && `${metaPrefix}protocolVersion` in meta;
    if (isModern && this.script.era !== 'legacy') return this.#modern(req, res, message, meta);
    if (this.script.era === 'modern') return refuse(res, 400, message, -32022, 'unsupported version');
    return this.#legacy(req, res, message);
  }

  async #legacy(req: IncomingMessage, res: ServerResponse, message: Json): Promise<void> {
    if (message['method'] === 'initialize') return this.#initialize(res, message);
    const session = req.headers['mcp-session-id'];
    if (this.script.sessions && session === undefined)
      return refuse(res, 400, message, -32000, 'a session id is needed');
    if (this.script.sessions && !this.#sessions.has(String(session)))
      return refuse(res, 404, message, -32001, 'no such session');
    if (message['id'] === undefined || message['method'] === undefined) return end(res, 202);
    return this.#answer(res, message, false);
  }

  #initialize(res: ServerResponse, message: Json): void {
    const { legacyVersions, sessions } = this.script;
    const asked = (message['params'] as Json | undefined)?.['protocolVersion'];
    const protocolVersion = legacyVersions.find((version) => version === asked) ?? legacyVersions[0];
    if (sessions) {
      const id = randomUUID();
      this.#sessions.add(id);
      res.setHeader('Mcp-Session-Id', id);
    }
    const capabilities = { tools: { listChanged: true } };
    const serverInfo = { name: 'scriptable', version: '1' };
    this.#send(res, {
      jsonrpc: '2.0',
      id: message['id'],
      result: { protocolVersion, capabilities, serverInfo },
    });
  }

  async #modern(req: IncomingMessage, res: ServerResponse, message: Json, meta: Json): Promise<void> {
    const version = meta[`${metaPrefix}protocolVersion`];
    const { headers } = req;
    const { method, params } = message as { method: string; params: Json };
    if (version !== modernVersion) return refuse(res, 400, message, -32022, 'unsupported version');
    if (!isObject(meta[`${metaPrefix}clientCapabilities`]))
      return refuse(res, 400, message, -32602, 'no client capabilities');
    const isNamed = method !== 'tools/call' || decode(headers['mcp-name']) === params['name'];
    if (headers['mcp-protocol-version'] !== version || headers['mcp-method'] !== method || !isNamed)
      return refuse(res, 400, message, -32020, 'header and body differ');
    if (method === 'server/discover') {
      const result = {
        resultType: 'complete',
        supportedVersions: [modernVersion],
        capabilities: { tools: { listChanged: true } },
        ttlMs: 0,
        cacheScope: 'private',
        _meta: { [`${metaPrefix}serverInfo`]: { name: 'scriptable', version: '1' } },
      };
      return this.#send(res, { jsonrpc: '2.0', id: message['id'], result });
    }
    if (method === 'subscriptions/listen' && this.script.streams) return this.#openStream(res, message['id']);
    return this.#answer(res, message, true);
  }

  /** Handles `ping`, `tools/list` and `tools/call`. */
  async #answer(res: ServerResponse, message: Json, isModern: boolean): Promise<void> {
    const { id, method } = message;
    if (method === 'ping') return this.#send(res, { jsonrpc: '2.0', id, result: {} });
    if (method === 'tools/list') return this.#list(res, message, isModern);
    if (method !== 'tools/call') return refuse(res, isModern ? 404 : 200, message, -32601, 'no such method');
    const tool = this.#tool(message);
    if (tool === undefined) return refuse(res, 200, message, -32602, 'no such tool');
    return this.#call(res, message, tool, isModern);
  }

  #list(res: ServerResponse, { id, params }: Json, isModern: boolean): void {
    const { pages, listResults, changesPerList } = this.script;
    const cursor = (params as Json | undefined)?.['cursor'];
    const page = typeof cursor === 'string' ? Number(cursor) : 0;
    const result = listResults?.[typeof cursor === 'string' ? cursor : ''] ?? {
      tools: (pages[page] ?? []).map(({ definition }) => definition),
      ...(page + 1 < pages.length && { nextCursor: String(page + 1) }),
      ...(isModern && { resultType: 'complete', ttlMs: 0, cacheScope: 'private' }),
    };
    this.#send(res, { jsonrpc: '2.0', id, result });
    this.toolsChanged(changesPerList);
  }

  async #call(res: ServerResponse, message: Json, tool: ScriptedTool, isModern: boolean): Promise<void> {
    const { id, params } = message as { id: unknown; params: Json };
    this.#execute(tool, message);
    const token = isObject(params['_meta']) ? params['_meta']['progressToken'] : undefined;
    const isStream =
      tool.progress !== undefined || tool.changes !== undefined || this.script.answerAs === 'sse';
    if (isStream) openEvents(res);
    for (const { value, ...rest } of tool.progress ?? [])
      if (token !== undefined)
        this.#push(
          res,
          notification('notifications/progress', { progressToken: token, progress: value, ...rest }),
        );
    for (let i = 0; i < (tool.changes ?? 0); i += 1) this.#push(res, changed(undefined));
    if (tool.delayMs !== undefined) await delay(tool.delayMs, undefined, { ref: false });
    const text = JSON.stringify(params['arguments'] ?? {});
    const result = tool.rawResult ?? JSON.stringify(tool.result ?? { content: [{ type: 'text', text }] });
    const kind = isModern && tool.rawResult === undefined ? withResultType(result) : result;
    const outcome = tool.error === undefined ? `"result":${kind}` : `"error":${JSON.stringify(tool.error)}`;
    const answer = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},${outcome}}`;
    if (isStream) {
      this.#pushText(res, answer);
      res.end();
    } else res.writeHead(200, { 'Content-Type': 'application/json' }).end(answer);
  }

  #execute({ definition: { name } }: ScriptedTool, message: Json): void {
    const meta = (message['params'] as Json)['_meta'];
    const key = isObject(meta) ? meta['idempotency_key'] : undefined;
    this.executions.add({ tool: name, key: typeof key === 'string' ? key : '' });
  }

  #tool(message: Json | undefined): ScriptedTool | undefined {
    if (message?.['method'] !== 'tools/call' || !isObject(message['params'])) return undefined;
    const { name } = message['params'];
    return this.script.pages.flat().find(({ definition }) => definition.name === name);
  }

  #openStream(res: ServerResponse, subscription: unknown): void {
    openEvents(res);
    if (subscription === undefined) res.write(': open\n\n');
    else {
      const params = { notifications: { toolsListChanged: true }, _meta: subscriptionMeta(subscription) };
      this.#push(res, notification('notifications/subscriptions/acknowledged', params));
    }
    this.#streams.set(res, subscription);
    res.once('close', () => this.#streams.delete(res));
  }

  #send(res: ServerResponse, message: object): void {
    if (this.script.answerAs === 'json') return end(res, 200, message);
    openEvents(res);
    this.#push(res, message);
    res.end();
  }

  #push(res: ServerResponse, message: object): void {
    this.#pushText(res, JSON.stringify(message));
  }

  #pushText(res: ServerResponse, message: string): void {
    if (!res.destroyed) res.write(`event: message\ndata: ${message}\n\n`);
  }
}

function openEvents(res: ServerResponse): void {
  res.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' });
}

function end(res: ServerResponse, status: number, body?: object): void {
  if (body === undefined) res.writeHead(status).end();
  else res.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
}

function refuse(
  res: ServerResponse,
  status: number,
  { id = null }: Json,
  code: number,
  message: string,
): void {
  end(res, status, { jsonrpc: '2.0', id, error: { code, message } });
}

function notification(method: string, params: object): object {
  return { jsonrpc: '2.0', method, params };
}

function changed(subscription: unknown): object {
  return notification(
    'notifications/tools/list_changed',
    subscription === undefined ? {} : { _meta: subscriptionMeta(subscription) },
  );
}

function subscriptionMeta(id: unknown): Json {
  return { [`${metaPrefix}subscriptionId`]: id };
}

function withResultType(result: string): string {
  return JSON.stringify({ resultType: 'complete', ...(JSON.parse(result) as object) });
}

/** A header in the notation of the modern era. */
function decode(header: string | string[] | undefined): string | undefined {
  const text = String(header);
  const [, encoded] = /^=\?base64\?(.*)\?=$/.exec(text) ?? [];
  return encoded === undefined ? text : Buffer.from(encoded, 'base64').toString();
}

async function readBody(req: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of req as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

function parse(text: string): Json | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

async function listenOn(server: Server, port: number): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
}

/** As a program, it serves until it is killed, and prints its URLs on stdout. */
async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      port: { type: 'string' },
      'control-port': { type: 'string' },
      file: { type: 'string' },
      script: { type: 'string' },
    },
  });
  const upstream = await ScriptableUpstream.start({
    port: Number(values.port ?? 0),
    controlPort: Number(values['control-port'] ?? 0),
    ...(values.file !== undefined && { file: values.file }),
    ...(values.script !== undefined && { script: JSON.parse(values.script) as Partial<UpstreamScript> }),
  });
  process.stdout.write(`${JSON.stringify({ url: upstream.url, controlUrl: upstream.controlUrl })}\n`);
}

if (import.meta.main) void main();
