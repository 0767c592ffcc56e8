import type { IncomingMessage, ServerResponse } from 'node:http';
import { isUtf8 } from 'node:buffer';
import { codes, metaKeys, modernVersion } from '@holdfast/protocol';
import { readTraceContext, writeJson, type Log, type Principal, type RunId } from '@holdfast/run';
import { sendError, sendMessage } from './answer.js';
import { callOf, HandedOver, HostGone, type Calls, type Sender } from './call.js';
import { modernResult, type CallAnswer } from './call-result.js';
import type { ToolCatalogue } from './catalogue.js';
import { headerOf, onClose, readAccept, sendEmpty, type Accepts, type Exchange } from './http.js';
import { checkCursor } from './legacy.js';
import type { Limits } from './limits.js';
import {
  metaOf,
  progressTokenOf,
  readMessage,
  type HostRequest,
  type Message,
  type Params,
} from './message.js';
import { progressMessage } from './progress.js';
import { readRequestState, writeRequestState, type HandedCall } from './request-state.js';
import type { Seals } from './seal.js';
import { endInTurns, EventStream } from './sse.js';
import {
  errorMessage,
  internalError,
  methodNotFound,
  ProtocolRefusal,
  resultMessage,
  type RequestId,
} from './wire-errors.js';
import { refusalOf } from './fault.js';

const { protocolVersion: versionKey, clientCapabilities: capabilitiesKey } = metaKeys;
const modernVersions: readonly string[] = [modernVersion];
/** A call that lasts longer than this is answered on a stream, so that proxies see bytes. */
const streamAfterMs = 100;
/** Subscriptions of all hosts of a process over HTTP, or of one over stdio. */
const maxListening = 1_024;

export interface ModernParts {
  readonly catalogue: ToolCatalogue;
  readonly calls: Calls;
  readonly seals: Seals;
  readonly serverInfo: { readonly name: string; readonly version: string };
  readonly listTtlMs: number;
  readonly keepAliveMs: number;
  /** The longest message of a host, in bytes. */
  readonly maxBodyBytes: number;
  readonly limits: Limits;
  readonly log: Log;
}

/** Whether a POST speaks 2026-07-28 or later. Its body says so; a header alone that says so is a modern request that is wrong. */
export function isModern(version: string | undefined, body: unknown): boolean {
  const named = version?.trim();
  if (named !== undefined && /^\d{4}-\d{2}-\d{2}$/.test(named) && named >= modernVersion) return true;
  const params = (body as { params?: unknown } | null)?.params;
  return hasEnvelope(typeof params === 'object' && params !== null ? (params as Params) : {});
}

export function hasEnvelope(params: Params): boolean {
  return versionKey in (metaOf(params) ?? {});
}

/**
 * Checks that a request says all that each request of the era must say.
 *
 * @throws ProtocolRefusal 400
 */
export function checkEnvelope({ params }: HostRequest): void {
  const { [versionKey]: version, [capabilitiesKey]: capabilities } = metaOf(params) ?? {};
  const missing = (key: string, type: string): ProtocolRefusal =>
    new ProtocolRefusal(codes.invalidParams, `params._meta must have ${key}: ${type}`, { status: 400 });
  if (typeof version !== 'string') throw missing(versionKey, 'a string');
  checkVersion(version);
  if (typeof capabilities !== 'object' || capabilities === null || Array.isArray(capabilities))
    throw missing(capabilitiesKey, 'an object');
}

/** @param requested undefined where a request of an older era names none */
function checkVersion(requested: string | undefined): void {
  if (requested !== undefined && modernVersions.includes(requested)) return;
  const name = requested?.slice(0, 64);
  throw new ProtocolRefusal(
    codes.unsupportedVersion,
    `unsupported protocol version: ${name ?? 'none named'}`,
    {
      status: 400,
      data: { supported: modernVersions, ...(name !== undefined && { requested: name }) },
    },
  );
}

/**
 * Checks that the headers, which proxies route by, say what the body says.
 *
 * @throws ProtocolRefusal 400 -32020
 */
function checkHeaders(
  req: IncomingMessage,
  { kind, method, params }: Exclude<Message, { kind: 'response' }>,
): void {
  const version = metaOf(params)?.[versionKey];
  const expected = [
    ['MCP-Protocol-Version', typeof version === 'string' ? version : undefined],
    ['Mcp-Method', method],
    ['Mcp-Name', method === 'tools/call' ? params['name'] : undefined],
  ] as const;
  for (const [name, value] of expected) {
    const header = headerOf(req, name.toLowerCase())?.trim();
    const isGiven = header !== undefined;
    // A notification need not repeat itself, and what the body lacks is another refusal.
    if (typeof value !== 'string' || (!isGiven && kind === 'notification')) continue;
    if (isGiven && (name === 'Mcp-Name' ? plainName(header) : header) === value) continue;
    const problem = isGiven ? 'is not what the body says' : 'is missing';
    throw new ProtocolRefusal(codes.headerMismatch, `the ${name} header ${problem}`, { status: 400 });
  }
}

/** A name as it stands, or `=?base64?…?=`; undefined when that cannot be decoded. */
function plainName(header: string): string | undefined {
  const encoded = /^=\?base64\?(.*)\?=$/.exec(header)?.[1];
  if (encoded === undefined) return header;
  const bytes = Buffer.from(encoded, 'base64');
  return bytes.toString('base64') === encoded && isUtf8(bytes) ? bytes.toString() : undefined;
}

/**
 * The result of a request as JSON text.
 *
 * @throws ProtocolRefusal, HostGone, or a fault of ours
 */
export async function answerModern(
  parts: ModernParts,
  request: HostRequest,
  sender: Sender,
): Promise<string> {
  const { catalogue, serverInfo, listTtlMs } = parts;
  switch (request.method) {
    case 'server/discover':
      return resultOf(
        serverInfo,
        `"supportedVersions":${JSON.stringify(modernVersions)},"capabilities":{"tools":{"listChanged":true}},"ttlMs":0,"cacheScope":"private"`,
      );
    case 'tools/list':
      checkCursor(request.params);
      return resultOf(
        serverInfo,
        `"tools":${await catalogue.list('modern')},"ttlMs":${listTtlMs},"cacheScope":"private"`,
      );
    case 'tools/call':
      return callTool(parts, request, sender);
    default:
      throw methodNotFound(request.method, 404);
  }
}

/** @param members of the result, as JSON text */
function resultOf(
  serverInfo: object,
  members: string,
  { type = 'complete', meta = {} }: { readonly type?: string; readonly meta?: object } = {},
): string {
  const all = { ...meta, [metaKeys.serverInfo]: serverInfo };
  return `{${members && `${members},`}"resultType":"${type}","_meta":${writeJson(all)}}`;
}

async function callTool(
  { calls, seals, serverInfo, log }: ModernParts,
  request: HostRequest,
  sender: Sender,
): Promise<string> {
  const { principal } = sender;
  let runId: RunId | undefined;
  const call = callOf(request, {
    ...sender,
    onRun: (run) => {
      runId = run.id;
      sender.onRun?.(run);
    },
  });
  const handed = handedBy(request.params['requestState'], seals, principal);
  let answer: CallAnswer;
  try {
    answer = await calls.call({ ...call, handed });
  } catch (error) {
    if (error instanceof HandedOver) {
      const requestState = writeRequestState(seals, principal, error, Date.now());
      return resultOf(serverInfo, `"requestState":${JSON.stringify(requestState)}`, {
        type: 'input_required',
      });
    }
    if (error instanceof ProtocolRefusal || error instanceof HostGone) throw error;
    const { reference } = refusalOf(error, log, { request, runId });
    // It may have been accepted: only a token makes a second call the same one.
    const retryable = call.meta?.['idempotency_key'] !== undefined;
    const facts = {
      name: 'InternalError',
      message: internalError,
      outcome: 'unknown',
      data: { reference },
    } as const;
    answer = calls.failed(call.name, { ...facts, retryable });
  }
  return modernResult(answer, serverInfo);
}

/** @throws ProtocolRefusal for a state that was not given to this caller, or too long ago */
function handedBy(state: unknown, seals: Seals, principal: Principal | null): HandedCall | undefined {
  if (state === undefined) return undefined;
  const handed =
    typeof state === 'string' ? readRequestState(seals, principal, state, Date.now()) : undefined;
  if (handed !== undefined) return handed;
  throw new ProtocolRefusal(
    codes.invalidParams,
    'params.requestState is not one of ours, or too old; call again without it',
  );
}

/** What a host that listens has asked for, with the messages for it (MCP 2026-07-28, subscriptions). */
export class Subscription {
  readonly #id: RequestId;
  readonly #serverInfo: object;
  /** Whether it hears of anything. */
  readonly isOpen: boolean;

  /**
   * @param open how many are open already
   * @throws ProtocolRefusal without a filter that can be read, or when too many are open
   */
  constructor({ id, params }: HostRequest, serverInfo: object, open: number) {
    const wanted = params['notifications'] as Params | null | undefined;
    const isFilter = typeof wanted === 'object' && wanted !== null && !Array.isArray(wanted);
    const toolsListChanged = isFilter ? (wanted['toolsListChanged'] ?? false) : undefined;
    if (typeof toolsListChanged !== 'boolean') {
      throw new ProtocolRefusal(
        codes.invalidParams,
        'params.notifications must be an object that says which changes to report, as in {"toolsListChanged": true}',
      );
    }
    if (open >= maxListening)
      throw new ProtocolRefusal(codes.internalError, `${open} subscriptions are open; try again later`);
    this.#id = id;
    this.#serverInfo = serverInfo;
    this.isOpen = toolsListChanged;
  }

  /** What is honoured: the changes of the tools, if they were asked for. */
  acknowledged(): string {
    const notifications = this.isOpen ? { toolsListChanged: true } : {};
    return this.#notice('notifications/subscriptions/acknowledged', { notifications });
  }

  toolsChanged(): string {
    return this.#notice('notifications/tools/list_changed');
  }

  over(): string {
    return resultMessage(this.#id, resultOf(this.#serverInfo, '', { meta: this.#meta() }));
  }

  #notice(method: string, params: object = {}): string {
    return writeJson({ jsonrpc: '2.0', method, params: { ...params, _meta: this.#meta() } })!;
  }

  #meta(): object {
    return { [metaKeys.subscriptionId]: this.#id };
  }
}

/** The wire of hosts on 2026-07-28: one exchange at a time, nothing kept between them. */
export class ModernLeg {
  readonly #parts: ModernParts;
  readonly #listening = new Map<EventStream, Subscription>();
  readonly #unsubscribe: () => void;

  constructor(parts: ModernParts) {
    this.#parts = parts;
    this.#unsubscribe = parts.catalogue.onChange(() => {
      for (const [stream, subscription] of this.#listening) stream.send(subscription.toolsChanged());
    });
  }

  /** Ends the streams on which hosts listen for changes; they open them again elsewhere. */
  endListening(withinMs = 0): void {
    endInTurns(this.#listening.keys(), withinMs);
  }

  close(): void {
    this.endListening();
    this.#unsubscribe();
  }

  async post({ req, res }: Exchange, body: unknown, principal: Principal | null): Promise<void> {
    const accepts = readAccept(req);
    const message = readMessage(body);
    if (message.kind === 'response')
      throw new ProtocolRefusal(codes.invalidRequest, 'responses are not taken; send a request', {
        status: 400,
      });
    try {
      const version = headerOf(req, 'mcp-protocol-version');
      if (isModern(version, body)) checkHeaders(req, message);
      // An older host, where those are not served.
      else if (message.kind === 'request') checkVersion(version ?? askedVersion(message));
      if (message.kind === 'notification') return sendEmpty(res, 202);
      checkEnvelope(message);
      if (message.method === 'subscriptions/listen') this.#listen(message, principal, res);
      else await this.#answer(message, principal, accepts, res);
    } catch (error) {
      const request = message.kind === 'request' ? message : undefined;
      this.#refuse(error, request, (refusal) => sendError(res, accepts, request?.id ?? null, refusal));
    }
  }

  /**
   * One JSON answer when the result is there at once or the host reads nothing else, else a stream of
   * progress and the result.
   */
  async #answer(
    request: HostRequest,
    principal: Principal | null,
    accepts: Accepts,
    res: ServerResponse,
  ): Promise<void> {
    const { id, params } = request;
    const gone = new AbortController();
    onClose(res, () => {
      if (!res.writableFinished) gone.abort();
    });
    const token = accepts.stream ? progressTokenOf(params) : undefined;
    let stream: EventStream | undefined;
    const open = (): EventStream => (stream ??= new EventStream(res, this.#parts.keepAliveMs));
    const patience = accepts.stream ? setTimeout(open, streamAfterMs) : undefined;
    try {
      const message = resultMessage(
        id,
        await answerModern(this.#parts, request, {
          principal,
          trace: readTraceContext(res.req.headers),
          protocolVersion: metaOf(params)![versionKey] as string,
          signal: gone.signal,
          canComeBack: true,
          ...(token !== undefined && {
            onProgress: (progress) => open().send(progressMessage(token, progress)),
          }),
        }),
      );
      if (stream === undefined) sendMessage(res, accepts, message);
      else stream.send(message);
    } catch (error) {
      if (stream === undefined) throw error;
      this.#refuse(error, request, (refusal) => stream!.send(errorMessage(id, refusal)));
    } finally {
      clearTimeout(patience);
      stream?.end();
    }
  }

  #listen(request: HostRequest, principal: Principal | null, res: ServerResponse): void {
    const subscription = new Subscription(request, this.#parts.serverInfo, this.#listening.size);
    onClose(res, this.#parts.limits.holdStream(principal));
    const stream = new EventStream(res, this.#parts.keepAliveMs);
    stream.send(subscription.acknowledged());
    if (!subscription.isOpen) {
      stream.send(subscription.over());
      return stream.end();
    }
    this.#listening.set(stream, subscription);
    onClose(res, () => this.#listening.delete(stream));
  }

  #refuse(error: unknown, request: HostRequest | undefined, send: (refusal: ProtocolRefusal) => void): void {
    if (error instanceof HostGone) return;
    send(refusalOf(error, this.#parts.log, { ...(request && { request }) }));
  }
}

/** The version in the `initialize` of an older host. */
function askedVersion({ params }: HostRequest): string | undefined {
  const { protocolVersion: asked } = params;
  return typeof asked === 'string' ? asked : undefined;
}
