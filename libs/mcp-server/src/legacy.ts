import type { IncomingMessage, ServerResponse } from 'node:http';
import { codes, legacyVersions } from '@holdfast/protocol';
import {
  ensureError,
  readTraceContext,
  writeJson,
  type Log,
  type Principal,
  type Progress,
  type Run,
} from '@holdfast/run';
import type { Session, Store } from '@holdfast/store';
import { callOf, HandedOver, HostGone, type Calls, type Sender } from './call.js';
import { legacyResult } from './call-result.js';
import { cancelRun } from './cancel-run.js';
import type { ToolCatalogue } from './catalogue.js';
import { EventIds, type StreamPosition } from './event-id.js';
import { sendError, sendMessage } from './answer.js';
import { headerOf, onClose, readAccept, sendEmpty, type Accepts, type Exchange } from './http.js';
import { progressTokenOf, readMessage, type HostRequest, type Message, type Params } from './message.js';
import type { Limits } from './limits.js';
import type { CallObserver } from './observer.js';
import { progressMessage } from './progress.js';
import type { Seals } from './seal.js';
import type { Sessions } from './sessions.js';
import { endInTurns, EventStream } from './sse.js';
import {
  errorMessage,
  isRequestId,
  methodNotFound,
  ProtocolRefusal,
  resultMessage,
  type RequestId,
} from './wire-errors.js';
import { refusalOf } from './fault.js';

const versions: readonly string[] = legacyVersions;

/** Says that the list of tools is another. */
export const toolsChanged = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';

/** What a cancellation is sealed for on its way to the replica that has the call. */
const cancelPurpose = 'mcp-cancel/v1';

/**
 * A host waits this long before it takes a broken stream up again. The SDK's tries twice: with 2,000 it did not
 * survive a restart of 4 s, with 6,000 it did.
 */
const retryMs = 6_000;
/** A call that lasts longer than this is answered on a stream, so that proxies see bytes and hosts can resume. */
const streamAfterMs = 100;

export interface LegacyParts {
  readonly store: Store;
  readonly sessions: Sessions;
  readonly catalogue: ToolCatalogue;
  readonly calls: Calls;
  readonly seals: Seals;
  readonly limits: Limits;
  readonly serverInfo: { readonly name: string; readonly version: string };
  /** `sessions`: each host has one, in the store. `stateless`: none is made and none is needed. */
  readonly mode: 'sessions' | 'stateless';
  readonly hostCancel: 'detach' | 'cancel';
  readonly observer: CallObserver;
  readonly keepAliveMs: number;
  readonly log: Log;
}

/**
 * The wire of hosts from before 2026-07-28: `initialize`, sessions, streams that can be taken up
 * again. Sessions are in the store and the id of an event says where its stream was, so any
 * replica serves any request (BEHAVIOURS X1).
 */
export class LegacyLeg {
  readonly #parts: LegacyParts;
  readonly #eventIds: EventIds;
  /** Calls that wait on this replica, by session and request, so that a host can cancel them. */
  readonly #waiting = new Map<string, WaitingCall>();
  /** The GET stream of each session on this replica. */
  readonly #streams = new Map<string, EventStream>();
  readonly #forget: readonly (() => void)[];

  constructor(parts: LegacyParts) {
    this.#parts = parts;
    this.#eventIds = new EventIds(parts.seals);
    this.#forget = [
      parts.sessions.onClosed((id) => this.#streams.get(id)?.end()),
      parts.store.subscribe((signal) => {
        if (signal.kind === 'told') this.#hear(signal.id, signal.message);
      }),
      parts.catalogue.onChange(() => {
        for (const stream of this.#streams.values()) stream.send(toolsChanged);
      }),
    ];
  }

  /** Ends the open GET streams; hosts open them again elsewhere. Calls that wait can still be cancelled. */
  endListening(withinMs = 0): void {
    endInTurns(this.#streams.values(), withinMs);
  }

  close(): void {
    this.endListening();
    for (const forget of this.#forget) forget();
  }

  async post({ req, res }: Exchange, body: unknown, principal: Principal | null): Promise<void> {
    const accepts = readAccept(req);
    const message = readMessage(body);
    try {
      checkVersion(req);
      const session = await this.#sessionOf(headerOf(req, 'mcp-session-id'), message, principal);
      if (message.kind === 'response') return sendEmpty(res, 202);
      if (message.kind === 'notification') {
        if (message.method === 'notifications/cancelled')
          await this.#cancel(session, message.params['requestId']);
        return sendEmpty(res, 202);
      }
      await this.#serve(message, session, principal, accepts, res);
    } catch (error) {
      const request = message.kind === 'request' ? message : undefined;
      const refusal = refusalOf(error, this.#parts.log, { ...(request && { request }) });
      sendError(res, accepts, request?.id ?? null, refusal);
    }
  }

  /** The stream of a session; with `Last-Event-ID`, that of one call from where it broke. */
  async get({ req, res }: Exchange, id: string, principal: Principal | null): Promise<void> {
    if (!readAccept(req).stream) {
      throw new ProtocolRefusal(codes.badRequest, 'Accept must allow text/event-stream', { status: 406 });
    }
    checkVersion(req);
    const session = await this.#parts.sessions.use(id, principal);
    const lastEventId = headerOf(req, 'last-event-id');
    if (lastEventId !== undefined) return this.#resume(lastEventId, session, res);

    onClose(res, this.#parts.limits.holdStream(principal));
    onClose(res, this.#parts.sessions.hold(id));
    const stream = new EventStream(res, this.#parts.keepAliveMs);
    // One stream a session: a host that reconnects replaces the one that it lost.
    this.#streams.get(id)?.end();
    this.#streams.set(id, stream);
    onClose(res, () => {
      if (this.#streams.get(id) === stream) this.#streams.delete(id);
    });
  }

  async delete({ req, res }: Exchange, id: string, principal: Principal | null): Promise<void> {
    checkVersion(req);
    await this.#parts.sessions.use(id, principal);
    await this.#parts.sessions.close(id);
    sendEmpty(res, 200);
  }

  async #sessionOf(
    id: string | undefined,
    message: Message,
    principal: Principal | null,
  ): Promise<Session | undefined> {
    if (this.#parts.mode === 'stateless' || (message.kind === 'request' && message.method === 'initialize'))
      return undefined;
    if (id !== undefined) return this.#parts.sessions.use(id, principal);
    throw new ProtocolRefusal(
      codes.badRequest,
      'the Mcp-Session-Id header is missing; send initialize to open a session',
      { status: 400 },
    );
  }

  async #serve(
    request: HostRequest,
    session: Session | undefined,
    principal: Principal | null,
    accepts: Accepts,
    res: ServerResponse,
  ): Promise<void> {
    const { id, method, params } = request;
    if (method === 'tools/call') return this.#call(request, session, principal, accepts, res);
    const json = await answerLegacy(this.#parts, request);
    if (method !== 'initialize' || this.#parts.mode === 'stateless')
      return sendMessage(res, accepts, resultMessage(id, json));
    const opened = await this.#parts.sessions.open(principal, negotiated(params), clientOf(params));
    sendMessage(res, accepts, resultMessage(id, json), { 'Mcp-Session-Id': opened.id });
  }

  /**
   * A tool call: one JSON answer when the result is there at once or the host reads nothing else,
   * else a stream of progress and the result. A refusal before the stream is an HTTP status; after
   * it, and for a call that got as far as a run, it is on the stream.
   */
  async #call(
    request: HostRequest,
    session: Session | undefined,
    principal: Principal | null,
    accepts: Accepts,
    res: ServerResponse,
  ): Promise<void> {
    const { id } = request;
    const token = accepts.stream ? progressTokenOf(request.params) : undefined;
    const host = this.#waitingHost(id, session, res);
    let stream: CallStream | undefined;
    let accepted: Run | undefined;
    const open = (run: Run): CallStream =>
      (stream ??= this.#openCall(res, session, {
        runId: run.id,
        requestId: id,
        ...(token !== undefined && { progressToken: token }),
        after: 0,
      }));
    let patience: NodeJS.Timeout | undefined;
    try {
      const sender: Sender = {
        canComeBack: accepts.stream && isResumable(session),
        principal,
        trace: readTraceContext(res.req.headers),
        protocolVersion: session?.protocolVersion,
        signal: host.signal,
        onRun: (run) => {
          accepted = run;
          host.waitsFor(run);
          if (accepts.stream) patience = setTimeout(() => open(run), accepts.json ? streamAfterMs : 0);
        },
        ...(token !== undefined && { onProgress: (progress, n) => open(accepted!).progress(progress, n) }),
      };
      const message = resultMessage(id, legacyResult(await this.#parts.calls.call(callOf(request, sender))));
      if (stream === undefined) sendMessage(res, accepts, message);
      else stream.finish(message);
    } catch (error) {
      if (error instanceof HostGone) return stream === undefined ? sendEmpty(res, 202) : stream.drop();
      // The id of the event that opens the stream is all that the host needs to take it up elsewhere.
      if (error instanceof HandedOver) return open(accepted!).leave();
      const refusal = refusalOf(error, this.#parts.log, { request, runId: accepted?.id });
      if (stream === undefined) sendError(res, accepts, id, refusal);
      else stream.finish(errorMessage(id, refusal));
    } finally {
      clearTimeout(patience);
      host.answered();
    }
  }

  async #resume(lastEventId: string, session: Session, res: ServerResponse): Promise<void> {
    const position = this.#eventIds.read(session.id, lastEventId);
    if (position === 'over')
      throw new ProtocolRefusal(codes.badRequest, 'the request of this stream was cancelled', {
        status: 405,
      });
    const run = position && (await this.#parts.store.runs.get(position.runId));
    if (run === undefined) {
      throw new ProtocolRefusal(codes.badRequest, 'Last-Event-ID names no stream of this session', {
        status: 400,
      });
    }
    const { requestId, progressToken, after, last } = position!;
    const host = this.#waitingHost(requestId, session, res);
    host.waitsFor(run);
    const stream = this.#openCall(res, session, position!);
    try {
      const answer = await this.#parts.calls.resume(
        run,
        { after, ...(last !== undefined && { last }) },
        {
          signal: host.signal,
          canComeBack: true,
          ...(progressToken !== undefined && { onProgress: (progress, n) => stream.progress(progress, n) }),
        },
      );
      stream.finish(resultMessage(requestId, legacyResult(answer)));
    } catch (error) {
      if (error instanceof HostGone) return stream.drop();
      if (error instanceof HandedOver) return stream.leave();
      stream.finish(errorMessage(requestId, refusalOf(error, this.#parts.log, { runId: run.id })));
    } finally {
      host.answered();
    }
  }

  /** The host that waits for the answer to a request: its signal aborts when it goes away or cancels. */
  #waitingHost(requestId: RequestId, session: Session | undefined, res: ServerResponse): WaitingHost {
    const waiting: WaitingCall = { gone: new AbortController(), run: undefined, isCancelled: false };
    const host: WaitingHost = {
      signal: waiting.gone.signal,
      waitsFor: (run) => {
        waiting.run = run;
        this.#cancelRunOf(waiting);
      },
      answered: () => {},
    };
    onClose(res, () => {
      if (!res.writableFinished) waiting.gone.abort();
    });
    // Without a session, equal ids of two hosts cannot be told apart: such a host hangs up instead.
    if (session === undefined) return host;
    onClose(res, this.#parts.sessions.hold(session.id));
    const key = `${session.id} ${writeJson(requestId)}`;
    this.#waiting.set(key, waiting);
    return {
      ...host,
      answered: () => {
        if (this.#waiting.get(key) === waiting) this.#waiting.delete(key);
      },
    };
  }

  /** A host no longer wants an answer. The notice may land on another replica than the call, so all are told. */
  async #cancel(session: Session | undefined, requestId: unknown): Promise<void> {
    // A longer id than any host makes would not fit into a signal; its wait ends when the host hangs up.
    const id = isRequestId(requestId) ? writeJson(requestId)! : '';
    if (session !== undefined && id !== '' && id.length <= 300)
      await this.#parts.sessions.tell(session.id, this.#parts.seals.seal(cancelPurpose, session.id, id));
  }

  /** Whoever reaches the store's channel can send there; what no gateway sealed for this session ends nothing. */
  #hear(sessionId: string, sealed: string): void {
    const requestId = this.#parts.seals.open(cancelPurpose, sessionId, sealed);
    if (typeof requestId === 'string') this.#endWait(sessionId, requestId);
  }

  /** Nothing more is sent for a cancelled request; its run goes on, unless the deployment says otherwise (BEHAVIOURS 52, X10). */
  #endWait(sessionId: string, requestId: string): void {
    const waiting = this.#waiting.get(`${sessionId} ${requestId}`);
    if (waiting === undefined) return;
    waiting.isCancelled = true;
    waiting.gone.abort();
    this.#cancelRunOf(waiting);
  }

  /** A cancellation may come before the call has a run: whoever learns of the other last ends it. */
  #cancelRunOf({ run, isCancelled }: WaitingCall): void {
    const { hostCancel, store, observer, log } = this.#parts;
    if (hostCancel === 'detach' || !isCancelled || run === undefined) return;
    cancelRun(store, observer, run).catch((error: unknown) => {
      log.warn({ runId: run.id, err: ensureError(error) }, 'run not cancelled');
    });
  }

  #openCall(res: ServerResponse, session: Session | undefined, start: StreamPosition): CallStream {
    const resumable = isResumable(session) ? session : undefined;
    const stream = new EventStream(res, this.#parts.keepAliveMs);
    let position = start;
    const eventId = (): string | undefined => resumable && this.#eventIds.write(resumable.id, position);
    if (resumable) stream.prime(eventId()!, retryMs);
    return {
      progress: (progress, n) => {
        position = { ...position, after: n, last: progress.value };
        stream.send(progressMessage(start.progressToken!, progress), eventId());
      },
      finish: (message) => {
        stream.send(message, eventId());
        stream.end();
      },
      leave: () => stream.end(),
      drop: () => {
        if (resumable) stream.prime(this.#eventIds.write(resumable.id, 'over'), retryMs);
        stream.end();
      },
    };
  }
}

/**
 * The result of a request that needs no session, as JSON text. Of `initialize` it is what
 * there is to say of the server.
 *
 * @throws ProtocolRefusal, or a fault of ours
 */
export async function answerLegacy(
  { catalogue, serverInfo }: Pick<LegacyParts, 'catalogue' | 'serverInfo'>,
  { method, params }: HostRequest,
): Promise<string> {
  switch (method) {
    case 'initialize':
      return JSON.stringify({
        protocolVersion: negotiated(params),
        capabilities: { tools: { listChanged: true } },
        serverInfo,
      });
    case 'ping':
      return '{}';
    case 'tools/list':
      checkCursor(params);
      return `{"tools":${await catalogue.list('legacy')}}`;
    default:
      throw methodNotFound(method);
  }
}

/** @throws ProtocolRefusal when a host names no version */
function negotiated({ protocolVersion: asked }: Params): string {
  if (typeof asked !== 'string')
    throw new ProtocolRefusal(codes.invalidParams, 'params.protocolVersion must be a string', {
      status: 400,
    });
  return versions.includes(asked) ? asked : legacyVersions[0];
}

/** The longest name, title and version of a host that are kept, in characters. */
const longestName = 256;
/** More than the capabilities of any host: each of them is a few words. */
const mostCapabilities = 4_096;

/** What a session keeps of its host: bounded, whatever the host sends. */
function clientOf({ capabilities, clientInfo }: Params): Session['client'] {
  const info = Object.entries(typeof clientInfo === 'object' ? (clientInfo ?? {}) : {});
  const kept = info.flatMap(([name, value]) =>
    ['name', 'title', 'version'].includes(name) && typeof value === 'string'
      ? [[name, value.slice(0, longestName).toWellFormed()]]
      : [],
  );
  const isKept = typeof capabilities === 'object' && writeJson(capabilities)!.length <= mostCapabilities;
  return {
    capabilities: isKept ? (capabilities ?? {}) : {},
    clientInfo: Object.fromEntries(kept) as object,
  };
}

interface WaitingCall {
  readonly gone: AbortController;
  /** Known once the call is accepted. */
  run: Run | undefined;
  isCancelled: boolean;
}

interface WaitingHost {
  readonly signal: AbortSignal;
  waitsFor(run: Run): void;
  answered(): void;
}

/** The stream of one call. */
interface CallStream {
  progress(progress: Progress, n: number): void;
  finish(message: string): void;
  /** Ends it without an answer; the host takes it up elsewhere. */
  leave(): void;
  /** Ends it without an answer; a host that is still there is told not to take it up again. */
  drop(): void;
}

/** Only hosts on 2025-11-25 know an event without data, and only they take a stream up again. */
function isResumable(session: Session | undefined): session is Session {
  return session !== undefined && session.protocolVersion >= '2025-11-25';
}

/** Absent is 2025-03-26 by the specification; the session knows better. Two headers that differ are none. */
function checkVersion(req: IncomingMessage): void {
  const header = headerOf(req, 'mcp-protocol-version');
  if (header === undefined) return;
  const named = new Set(header.split(',').map((version) => version.trim()));
  const [version] = named;
  if (named.size === 1 && versions.includes(version!)) return;
  throw new ProtocolRefusal(
    codes.unsupportedVersion,
    `unsupported MCP-Protocol-Version: ${header.slice(0, 64)}`,
    {
      status: 400,
      data: { supported: [...versions], requested: header.slice(0, 64) },
    },
  );
}

/** The list is one page, so no cursor was ever given out. */
export function checkCursor(params: Params): void {
  if (params['cursor'] !== undefined)
    throw new ProtocolRefusal(codes.invalidParams, 'unknown cursor; the list is one page');
}
