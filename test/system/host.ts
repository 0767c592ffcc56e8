import {
  Agent,
  request,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
} from 'node:http';

/** An answer to one HTTP request, read to its end. */
export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** The JSON-RPC messages in it, from JSON or from a stream, in order. */
  readonly messages: readonly Message[];
}

export interface Message {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: Record<string, unknown>;
  readonly result?: ToolResult & Record<string, unknown>;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown };
}

export interface ToolResult {
  readonly content?: readonly { readonly type: string; readonly text?: string }[];
  readonly structuredContent?: Record<string, unknown>;
  readonly isError?: boolean;
  readonly _meta?: {
    readonly 'holdfast/run'?: { readonly id: string; readonly attempt: number; readonly reattached: boolean };
    readonly 'holdfast/error'?: {
      readonly name: string;
      readonly message: string;
      readonly outcome: string;
      readonly run_id: string | null;
    };
  };
}

export interface Sending {
  readonly method?: string;
  readonly headers?: OutgoingHttpHeaders;
  /** Sent as it is; objects as JSON. */
  readonly body?: unknown;
}

/** An exchange under way, so that a test can cut it. */
export interface Exchange {
  readonly answer: Promise<Answer>;
  /** What has come so far of a stream. */
  received(): string;
  /** Resets the TCP connection, as a host that crashes does. */
  cut(): void;
}

// Connections are not shared: a test that cuts one cuts its own.
const agent = new Agent({ keepAlive: false });

/** One HTTP request, byte for byte as given. */
export function exchange(url: string, { method = 'POST', headers = {}, body }: Sending = {}): Exchange {
  let req!: ClientRequest;
  let text = '';
  const answer = new Promise<Answer>((resolve, reject) => {
    req = request(url, { method, agent, headers }, (res: IncomingMessage) => {
      res.setEncoding('utf8');
      res.on('data', (chunk: string) => (text += chunk));
      res.on('error', reject);
      res.on('end', () =>
        resolve({ status: res.statusCode!, headers: res.headers, body: text, messages: messagesOf(text) }),
      );
    });
    req.on('error', reject);
    req.end(
      body === undefined
        ? undefined
        : typeof body === 'string' || Buffer.isBuffer(body)
          ? body
          : JSON.stringify(body),
    );
  });
  answer.catch(() => {});
  return {
    answer,
    received: () => text,
    cut: () => void (req.socket === null ? req.destroy() : req.socket.resetAndDestroy()),
  };
}

/** One message a line, as over stdio. */
export function messagesOfLines(text: string): Message[] {
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Message);
}

export function messagesOf(text: string): Message[] {
  if (text.trimStart().startsWith('{')) return [JSON.parse(text) as Message];
  return text
    .split(/\r?\n\r?\n/)
    .map((frame) =>
      frame
        .split(/\r?\n/)
        .filter((line) => line.startsWith('data:'))
        .map((line) => line.slice(5).trim())
        .join('\n'),
    )
    .filter((data) => data !== '')
    .map((data) => JSON.parse(data) as Message);
}

export interface CallOptions {
  /** `_meta.idempotency_key`, of any type; left out when undefined. */
  readonly token?: unknown;
  readonly meta?: Record<string, unknown>;
  readonly id?: unknown;
  /** `arguments` as raw JSON text. */
  readonly raw?: string;
  /** The gateway to send to, when not the host's own. */
  readonly via?: string;
}

/** A host of one era, raw: what it sends is in the test's hands. */
export interface Host {
  readonly era: 'legacy' | 'modern';
  /** Any request; `params` are given the era's envelope. */
  send(method: string, params?: Record<string, unknown>, options?: Pick<CallOptions, 'id' | 'via'>): Exchange;
  begin(tool: string, args: Record<string, unknown>, options?: CallOptions): Exchange;
  /** A call read to its end: its result, or the JSON-RPC error as a rejection. */
  call(tool: string, args: Record<string, unknown>, options?: CallOptions): Promise<ToolResult>;
}

export const eras = ['legacy', 'modern'] as const;

const accept = 'application/json, text/event-stream';
let nextId = 1;

/** Opens a host: on the legacy era it has a session from here on. */
export async function openHost(
  era: Host['era'],
  url: string,
  key?: string,
): Promise<Host & { readonly session?: string }> {
  const auth: Record<string, string> = key === undefined ? {} : bearer(key);
  return era === 'legacy' ? legacyHost(url, auth) : modernHost(url, auth);
}

/** What a host sends first, and needs no session for. */
export function greeting(era: Host['era'], auth: Record<string, string> = {}): Sending {
  const headers = { 'content-type': 'application/json', accept, ...auth };
  if (era === 'modern') {
    return {
      headers: { ...headers, 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list' },
      body: { jsonrpc: '2.0', id: 0, method: 'tools/list', params: { _meta: envelope } },
    };
  }
  const clientInfo = { name: 'test', version: '1' };
  return {
    headers,
    body: {
      jsonrpc: '2.0',
      id: 0,
      method: 'initialize',
      params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo },
    },
  };
}

export const bearer = (key: string): { authorization: string } => ({ authorization: `Bearer ${key}` });

async function legacyHost(url: string, auth: Record<string, string>): Promise<Host & { session: string }> {
  const base = { 'content-type': 'application/json', accept, ...auth };
  const opened = await exchange(url, greeting('legacy', auth)).answer;
  const session = opened.headers['mcp-session-id'];
  if (typeof session !== 'string') throw new Error(`initialize answered ${opened.status}: ${opened.body}`);
  const headers = { ...base, 'mcp-session-id': session, 'mcp-protocol-version': '2025-11-25' };
  await exchange(url, { headers, body: { jsonrpc: '2.0', method: 'notifications/initialized' } }).answer;
  return {
    session,
    ...makeHost('legacy', url, (method, params, id, via) =>
      exchange(via, { headers, body: message(id, method, params) }),
    ),
  };
}

function modernHost(url: string, auth: Record<string, string>): Host {
  return makeHost('modern', url, (method, params, id, via) => {
    const name = /"name":("(?:[^"\\]|\\.)*")/.exec(params)?.[1];
    const headers = {
      'content-type': 'application/json',
      accept,
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...(method === 'tools/call' && name !== undefined && { 'mcp-name': JSON.parse(name) as string }),
      ...auth,
    };
    return exchange(via, { headers, body: message(id, method, params) });
  });
}

/** `params` is raw JSON text of an object that ends in `}`. */
function message(id: unknown, method: string, params: string): string {
  return `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"method":${JSON.stringify(method)},"params":${params}}`;
}

/** What every modern request carries in its `_meta`. */
export const envelope = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
};

function makeHost(
  era: Host['era'],
  url: string,
  post: (method: string, params: string, id: unknown, via: string) => Exchange,
): Host {
  const send: Host['send'] = (method, params = {}, { id = nextId++, via = url } = {}) => {
    const meta = { ...(params['_meta'] as object | undefined), ...(era === 'modern' && envelope) };
    return post(method, JSON.stringify(era === 'modern' ? { ...params, _meta: meta } : params), id, via);
  };
  const begin: Host['begin'] = (tool, args, { token, meta = {}, id = nextId++, raw, via = url } = {}) => {
    const full = {
      ...meta,
      ...(token !== undefined && { idempotency_key: token }),
      ...(era === 'modern' && envelope),
    };
    const params = `{"name":${JSON.stringify(tool)},"arguments":${raw ?? JSON.stringify(args)},"_meta":${JSON.stringify(full)}}`;
    return post('tools/call', params, id, via);
  };
  return {
    era,
    send,
    begin,
    call: async (tool, args, options) => resultOf(await begin(tool, args, options).answer),
  };
}

/** The result of a call. @throws Error with the JSON-RPC error, or what came instead */
export function resultOf({ status, body, messages }: Answer): ToolResult {
  const last = messages.at(-1);
  if (last?.result !== undefined) return last.result;
  throw Object.assign(new Error(`HTTP ${status}: ${body}`), { status, code: last?.error?.code, body });
}

export const textOf = ({ content }: ToolResult): string => content?.map(({ text }) => text).join('\n') ?? '';
export const errorNameOf = ({ _meta }: ToolResult): string | undefined => _meta?.['holdfast/error']?.name;
export const runOf = ({ _meta }: ToolResult): { id: string; attempt: number; reattached: boolean } =>
  _meta!['holdfast/run']!;
