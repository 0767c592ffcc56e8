import type { ServerResponse } from 'node:http';
import {
  createMcpHandler,
  inputRequired,
  ProtocolError,
  Server,
  type McpHttpHandler,
  type ServerContext,
} from '@modelcontextprotocol/server';
import { parseJson, readTraceContext, type Log, type Principal, type TraceContext } from '@holdfast/run';
import { HandedOver, HostGone, type Calls } from './call.js';
import type { ToolCatalogue } from './catalogue.js';
import { headerOf, onClose, readAccept, sendJson, type Exchange } from './http.js';
import { checkCursor } from './legacy.js';
import { restoreNumbers, withPlainNumbers } from './plain-numbers.js';
import { readRequestState, writeRequestState, type HandedCall } from './request-state.js';
import type { Seals } from './seal.js';
import { EventStream, streamHeaders } from './sse.js';
import { callFailure, codes, faultOf, internalError, ProtocolRefusal, toRefusal } from './wire-errors.js';

/** What sets the modern era apart in a body (MCP 2026-07-28, request envelope). */
const envelopeKey = 'io.modelcontextprotocol/protocolVersion';
const firstModernVersion = '2026-07-28';
/** A call that lasts longer than this is answered on a stream, so that proxies see bytes. */
const streamAfterMs = 100;

export interface ModernParts {
  readonly catalogue: ToolCatalogue;
  readonly calls: Calls;
  readonly seals: Seals;
  readonly serverInfo: { readonly name: string; readonly version: string };
  readonly listTtlMs: number;
  readonly keepAliveMs: number;
  readonly log: Log;
}

/** Whether a POST speaks 2026-07-28 or later. Its body says so; a header alone that says so is a modern request that is wrong. */
export function isModern(version: string | undefined, body: unknown): boolean {
  if (
    version !== undefined &&
    /^\d{4}-\d{2}-\d{2}$/.test(version.trim()) &&
    version.trim() >= firstModernVersion
  )
    return true;
  const meta = (body as { params?: { _meta?: unknown } } | null)?.params?._meta;
  return typeof meta === 'object' && meta !== null && envelopeKey in meta;
}

/** What the way that a host came by says of its calls. */
interface ServedOver {
  readonly principalOf: (context: ServerContext) => Principal | null;
  /** The arguments as they were sent; the SDK's copy lacks a key called __proto__. */
  readonly argumentsOf?: (context: ServerContext, given: unknown) => unknown;
  readonly traceOf?: (context: ServerContext) => TraceContext | undefined;
  /** Where the list is put, for whoever puts it into the answer; the list in the answer is empty then. */
  readonly listOf?: (context: ServerContext) => ListBox | undefined;
  /** Whether there is another replica for the host to come back to. */
  readonly canComeBack: boolean;
}

/**
 * The list of tools beside the answer that it belongs into. The SDK takes an answer apart and writes it
 * anew: of a list of 800 kB that takes ten times as long as to send it.
 */
interface ListBox {
  /** The tools as JSON; undefined until they are read. */
  json?: string;
}

/** The handlers of one server object of the SDK, for the modern HTTP leg and for stdio. */
export function makeServer(
  { catalogue, calls, seals, serverInfo, listTtlMs, log }: ModernParts,
  { principalOf, argumentsOf = (_context, given) => given, traceOf, listOf, canComeBack }: ServedOver,
): Server {
  const server = new Server(serverInfo, { capabilities: { tools: { listChanged: true } } });
  server.setRequestHandler('tools/list', async ({ params }, context) => {
    try {
      checkCursor({ ...params });
      const json = await catalogue.list();
      const box = listOf?.(context);
      if (box !== undefined) box.json = json;
      const tools = box === undefined ? (parseJson(json) as never) : [];
      return { tools, ttlMs: listTtlMs, cacheScope: 'private' };
    } catch (error) {
      throw toProtocolError(error, log);
    }
  });
  server.setRequestHandler('tools/call', async ({ params }, context) => {
    const { id, _meta: meta, signal, notify } = context.mcpReq;
    const principal = principalOf(context);
    const progressToken = meta?.progressToken;
    let sent: Promise<unknown> = Promise.resolve();
    try {
      const result = await calls.call({
        id,
        name: params.name,
        arguments: argumentsOf(context, params.arguments),
        meta,
        principal,
        trace: traceOf?.(context),
        protocolVersion: versionOf(context),
        signal,
        canComeBack,
        ...handedBy(context.mcpReq.requestState(), seals, principal),
        ...(progressToken !== undefined && {
          onProgress: ({ value, total, message }) => {
            const progress = {
              progressToken,
              progress: value,
              ...(total !== undefined && { total }),
              ...(message !== undefined && { message }),
            };
            sent = notify({ method: 'notifications/progress', params: progress }).catch(() => {});
          },
        }),
      });
      await sent;
      return parseJson(result) as never;
    } catch (error) {
      if (error instanceof HandedOver) {
        return inputRequired({
          requestState: writeRequestState(seals, principal, error, Date.now()),
        }) as never;
      }
      if (faultOf(error) === undefined || error instanceof HostGone) throw toProtocolError(error, log);
      log.error({ err: error }, 'call failed');
      return parseJson(
        callFailure(
          {
            name: 'InternalError',
            message: internalError,
            outcome: 'unknown',
            // It may have been accepted: only a token makes a second call the same one.
            retryable: meta?.['idempotency_key'] !== undefined,
          },
          { listsOutput: calls.listsOutput(params.name) },
        ),
      ) as never;
    }
  });
  return server;
}

/** What the request says of its era; over stdio a host of before says it in its handshake. */
function versionOf({ mcpReq }: ServerContext): string | undefined {
  const version = (mcpReq.envelope as Readonly<Record<string, unknown>> | undefined)?.[envelopeKey];
  return typeof version === 'string' ? version : undefined;
}

/** @throws ProtocolRefusal for a state that was not given to this caller, or too long ago */
function handedBy(
  state: unknown,
  seals: Seals,
  principal: Principal | null,
): { readonly handed?: HandedCall } {
  if (state === undefined) return {};
  const handed =
    typeof state === 'string' ? readRequestState(seals, principal, state, Date.now()) : undefined;
  if (handed === undefined) {
    throw new ProtocolRefusal(
      codes.invalidParams,
      'params.requestState is not one of ours, or too old; call again without it',
    );
  }
  return { handed };
}

function toProtocolError(error: unknown, log: Log): ProtocolError {
  const fault = faultOf(error);
  if (fault !== undefined && !(fault instanceof HostGone)) log.error({ err: fault }, 'request failed');
  const { code, message, data } = toRefusal(error);
  return new ProtocolError(code, message, data);
}

/** The wire of hosts on 2026-07-28: the SDK's, one exchange at a time, nothing kept between them. */
export class ModernLeg {
  readonly #handler: McpHttpHandler;
  readonly #keepAliveMs: number;
  readonly #unsubscribe: () => void;
  readonly #listening = new Set<ServerResponse>();

  constructor(parts: ModernParts) {
    this.#keepAliveMs = parts.keepAliveMs;
    this.#handler = createMcpHandler(
      () =>
        makeServer(parts, {
          principalOf: ({ http }) => (http?.authInfo?.extra?.['principal'] ?? null) as Principal | null,
          argumentsOf: ({ http }) => http?.authInfo?.extra?.['arguments'],
          traceOf: ({ http }) => http?.authInfo?.extra?.['trace'] as TraceContext | undefined,
          listOf: ({ http }) => http?.authInfo?.extra?.['list'] as ListBox | undefined,
          canComeBack: true,
        }),
      {
        legacy: 'reject',
        keepAliveMs: parts.keepAliveMs,
      },
    );
    this.#unsubscribe = parts.catalogue.onChange(() => this.#handler.notify.toolsChanged());
  }

  /** Ends the streams on which hosts listen for changes; they open them again elsewhere. */
  endListening(): void {
    for (const res of this.#listening) res.end();
  }

  async close(): Promise<void> {
    this.#unsubscribe();
    await this.#handler.close();
  }

  async post({ req, res }: Exchange, body: unknown, principal: Principal | null): Promise<void> {
    const accepts = readAccept(req);
    const gone = new AbortController();
    onClose(res, () => {
      if (!res.writableFinished) gone.abort();
    });
    if ((body as { method?: unknown } | null)?.method === 'subscriptions/listen') {
      this.#listening.add(res);
      onClose(res, () => this.#listening.delete(res));
    }
    const headers = new Headers();
    for (const name of Object.keys(req.headers)) headers.set(name, headerOf(req, name)!);
    // What a host can read is our business here; the SDK wants to hear both.
    headers.set('accept', 'application/json, text/event-stream');
    const message = withPlainNumbers(body);
    const list: ListBox = {};
    const restore: Restore = (text) => withList(message === body ? text : restoreNumbers(text), list);
    if (!accepts.stream) withoutProgress(message);
    withTextCursor(message);
    // Without a body: it is read already. The SDK looks at no URL, and one of a host may be malformed.
    const request = new Request('http://localhost/', { method: 'POST', headers, signal: gone.signal });
    const answered = this.#handler.fetch(request, {
      parsedBody: message,
      authInfo: {
        token: '',
        clientId: '',
        scopes: [],
        extra: {
          principal,
          arguments: (body as ToolCall | null)?.params?.arguments,
          trace: readTraceContext(req.headers),
          list,
        },
      },
    });
    const slow = Symbol();
    let patience: NodeJS.Timeout | undefined;
    const first = accepts.stream
      ? await Promise.race([
          answered,
          new Promise<typeof slow>((resolve) => (patience = setTimeout(() => resolve(slow), streamAfterMs))),
        ])
      : await answered;
    clearTimeout(patience);
    if (first === slow) return this.#stream(answered, res, restore);
    await passOn(first as Response, res, accepts, restore, this.#keepAliveMs);
  }

  /** An answer that takes its time: the stream is opened before it is there. */
  async #stream(answered: Promise<Response>, res: ServerResponse, restore: Restore): Promise<void> {
    const stream = new EventStream(res, this.#keepAliveMs);
    try {
      const response = await answered;
      if (isStream(response)) await pipe(response, res, restore);
      else if (response.body !== null) stream.send(restore((await response.text()).trim()));
    } finally {
      stream.end();
    }
  }
}

type Restore = (text: string) => string;

/** The answer with the list in it. No text of others can look like the empty list: quotes in it are escaped. */
function withList(text: string, { json }: ListBox): string {
  return json === undefined ? text : text.replace('"tools":[]', () => `"tools":${json}`);
}

/** What is looked at of a body before the SDK has read it. */
interface ToolCall {
  readonly params?: { readonly arguments?: unknown };
}

/** Who reads no stream gets no progress: the SDK would open one for it. */
function withoutProgress(message: unknown): void {
  const meta = (message as { params?: { _meta?: { progressToken?: unknown } } } | null)?.params?._meta;
  if (typeof meta === 'object' && meta !== null) delete meta.progressToken;
}

/** No cursor is good here; of one that is no text the SDK would say that the fault is ours. */
function withTextCursor(message: unknown): void {
  const params = (message as { params?: { cursor?: unknown } } | null)?.params;
  if (typeof params === 'object' && params !== null && params.cursor !== undefined)
    params.cursor = JSON.stringify(params.cursor);
}

function isStream(response: Response): boolean {
  return response.headers.get('content-type')?.startsWith('text/event-stream') === true;
}

async function passOn(
  response: Response,
  res: ServerResponse,
  accepts: { readonly json: boolean },
  restore: Restore,
  keepAliveMs: number,
): Promise<void> {
  if (res.destroyed) return void response.body?.cancel();
  if (isStream(response)) {
    // The SDK sends its own keep-alive comments on a stream that it opened.
    for (const [name, value] of response.headers) res.setHeader(name, value);
    res.writeHead(response.status, streamHeaders);
    await pipe(response, res, restore);
    res.end();
    return;
  }
  const text = restore(await response.text());
  if (text === '' || accepts.json || response.status !== 200) return answerOnce(response, res, text);
  const stream = new EventStream(res, keepAliveMs);
  stream.send(text.trim());
  stream.end();
}

function answerOnce(response: Response, res: ServerResponse, text: string): void {
  if (text !== '') return sendJson(res, response.status, text);
  res.writeHead(response.status, { 'Content-Length': 0 });
  res.end();
}

async function pipe(response: Response, res: ServerResponse, restore: Restore): Promise<void> {
  const decoder = new TextDecoder();
  for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
    if (res.destroyed) return;
    if (!res.write(restore(decoder.decode(chunk, { stream: true })))) {
      await new Promise<void>((resolve) => {
        res.once('drain', resolve);
        onClose(res, resolve);
      });
    }
  }
}
