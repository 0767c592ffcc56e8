import { codes } from '@holdfast/protocol';
import type { Log } from '@holdfast/run';
import { Agent } from 'undici';
import { AddressGuard, hostOf, type GuardSettings, type Resolver } from './address-guard.js';
import { CallWait } from '../call-wait.js';
import {
  ConnectionFault,
  type Connection,
  type OutgoingCall,
  type SendOptions,
  type Sent,
} from '../connection.js';
import { modernMeta, type Era, type ServerInfo } from '../era.js';
import { headerValue } from './header-value.js';
import { networkReason, refusedFault, thrownFault, withReason } from './http-fault.js';
import { shakeHands, type Agreement, type HandshakeOptions } from './http-handshake.js';
import { listen } from './http-listening.js';
import { HttpPeer, type Reply } from './http-peer.js';
import { HttpWire, lowerCased } from './http-wire.js';
import { writeCall, writeMessage } from '../json-rpc.js';
import { modernResult, sentOfStatus } from './http-sent.js';

export interface HttpOptions {
  /** Of the server, placeholders resolved. */
  readonly url: string;
  /** Go with every request, resolved too. They never go to another origin. */
  readonly headers: Readonly<Record<string, string>>;
  /**
   * Those of the caller, in place of `headers` of the same names (BEHAVIOURS 119). Asked for before the handshake, and
   * again by `renewCredentials`. Rejects with a ConnectionFault.
   */
  readonly callerHeaders?: (signal: AbortSignal) => Promise<Readonly<Record<string, string>>>;
  readonly guard: GuardSettings;
  /** The system's when omitted. */
  readonly resolve?: Resolver;
  /** For the whole handshake, and for opening any one connection. */
  readonly connectTimeoutMs: number;
  /** What a connection to this server was last time, so that it is not found out anew. When it changed the other is tried. */
  readonly era?: Era;
  /** The version of ours that servers are told. */
  readonly clientVersion: string;
  readonly log: Log;
  /** Body bytes of the answer to a call, everything on its stream included; 64 MiB when omitted. */
  readonly maxAnswerBytes?: number;
  /** Before the stream of changes is opened again, doubling; 1 s when omitted. */
  readonly listenBackoffMs?: number;
  /** Ends the attempt to connect. */
  readonly signal?: AbortSignal;
}

export type HttpConnection = Connection & {
  readonly era: Era;
  /** Messages of the server that nobody waited for. */
  readonly ignored: number;
};

const defaultMaxAnswerBytes = 64 * 1024 * 1024;
/** One page of a list; all definitions of a server may take 8 MiB. */
const maxListingBytes = 16 * 1024 * 1024;
const farewellMs = 2_000;

/**
 * Connects to an MCP server by Streamable HTTP, in whichever era it speaks.
 * @throws ConnectionFault
 */
export async function connectHttp(options: HttpOptions): Promise<HttpConnection> {
  const way = openWay(options);
  const peer = new HttpPeer(way.wire, way.closing.signal);
  return begin(way, peer, options, async (handshake) => {
    const connection = new PeerConnection({
      way,
      peer,
      options,
      agreement: await shakeHands(peer, handshake),
    });
    const { clientVersion, log, listenBackoffMs: backoffMs = 1_000 } = options;
    const { signal } = way.closing;
    listen(peer, { era: connection.era, clientVersion, backoffMs, signal, log }).catch(() => {});
    return connection;
  });
}

/** The sockets to one server, and what ends them. */
export interface Way {
  readonly host: string;
  readonly guard: AddressGuard;
  readonly wire: HttpWire;
  /** Aborted when the connection is closed. */
  readonly closing: AbortController;
  readonly dispatcher: Agent;
}

/** @throws ConnectionFault `blocked` */
export function openWay({
  guard: settings,
  resolve,
  url: text,
  headers,
  clientVersion,
  connectTimeoutMs,
}: HttpOptions): Way {
  const guard = new AddressGuard(settings, resolve);
  const url = guard.check(text);
  const dispatcher = new Agent({ allowH2: false, pipelining: 1, connect: guard.connector(connectTimeoutMs) });
  const named = { 'user-agent': `holdfast/${clientVersion}`, ...lowerCased(headers) };
  const wire = new HttpWire(dispatcher, guard, { url, headers: named });
  return { host: hostOf(url), guard, wire, dispatcher, closing: new AbortController() };
}

/** Begins within the time; what was opened is let go when that fails. */
export async function begin<T>(
  way: Way,
  peer: HttpPeer,
  { connectTimeoutMs: timeoutMs, clientVersion, era, signal: given, callerHeaders }: HttpOptions,
  handshake: (options: HandshakeOptions) => Promise<T>,
): Promise<T> {
  const deadline = AbortSignal.timeout(timeoutMs);
  const signal = given === undefined ? deadline : AbortSignal.any([deadline, given]);
  try {
    if (callerHeaders !== undefined) way.wire.callerHeaders = await callerHeaders(signal);
    return await handshake({ host: way.host, era, clientVersion, timeoutMs, signal });
  } catch (error) {
    await release(way, peer);
    throw error;
  }
}

async function release({ closing, dispatcher }: Way, peer: HttpPeer): Promise<void> {
  await peer.endSession(AbortSignal.timeout(farewellMs)).catch(() => {});
  closing.abort(new ConnectionFault('unreachable', 'the connection was closed'));
  await dispatcher.destroy().catch(() => {});
}

interface Parts {
  readonly way: Way;
  readonly peer: HttpPeer;
  readonly agreement: Agreement;
  readonly options: HttpOptions;
  /** Whether 404 means a lost session though no session id was given. */
  readonly hasSession?: boolean;
}

/** A connection once the handshake is done. */
export class PeerConnection implements HttpConnection {
  readonly era: Era;
  readonly protocolVersion: string;
  readonly serverInfo: ServerInfo | undefined;
  readonly #way: Way;
  readonly #peer: HttpPeer;
  readonly #host: string;
  readonly #hasSession: boolean;
  readonly #hasTools: boolean;
  readonly #clientVersion: string;
  readonly #callerHeaders: HttpOptions['callerHeaders'];
  readonly #maxBytes: number;
  readonly #log: Log;
  /** Cancellations on their way; the session is not ended under them. */
  readonly #farewells = new Set<Promise<void>>();
  /** Whether the server gave a list of its tools in this session. */
  #hasListed = false;
  #isOpen = true;
  #closed: Promise<void> | undefined;

  constructor({ way, peer, agreement, options, hasSession = agreement.sessionId !== undefined }: Parts) {
    this.era = agreement.era;
    this.protocolVersion = agreement.protocolVersion;
    this.serverInfo = agreement.serverInfo;
    this.#way = way;
    this.#peer = peer;
    this.#host = way.host;
    this.#hasSession = hasSession;
    this.#hasTools = agreement.hasTools;
    this.#clientVersion = options.clientVersion;
    this.#callerHeaders = options.callerHeaders;
    this.#maxBytes = options.maxAnswerBytes ?? defaultMaxAnswerBytes;
    this.#log = options.log;
  }

  get isOpen(): boolean {
    return this.#isOpen && !this.#peer.isGone;
  }

  get ignored(): number {
    return this.#peer.ignored;
  }

  async listPage(cursor: string | undefined, signal: AbortSignal): Promise<unknown> {
    const id = this.#peer.nextId();
    const params = {
      ...(cursor !== undefined && { cursor }),
      ...(this.era === 'modern' && { _meta: modernMeta(this.#clientVersion) }),
    };
    let reply: Reply;
    try {
      reply = await this.#askForTools(id, writeMessage('tools/list', params, id), signal);
    } catch (error) {
      throw thrownFault(this.#host, error);
    }
    if (cursor === undefined && errorIn(reply)?.code === codes.methodNotFound) return { tools: [] };
    this.#noteLoss(reply);
    // A server that did not offer tools may refuse in any words.
    if (cursor === undefined && !this.#hasTools && this.isOpen && errorIn(reply) !== undefined)
      return { tools: [] };
    if (reply.kind !== 'answer')
      throw refusedFault(this.#host, reply, this.isOpen ? 'listing' : 'unreachable');
    if (reply.answer.kind === 'error') {
      const { code } = reply.answer;
      const text = `${this.#host} answers tools/list with error ${code}`;
      throw new ConnectionFault('listing', withReason(text, { error: reply.answer }));
    }
    this.#hasListed = true;
    return reply.answer.result;
  }

  #askForTools(id: number, text: string, signal: AbortSignal): Promise<Reply> {
    return this.#peer.ask({
      id,
      method: 'tools/list',
      text,
      maxBytes: maxListingBytes,
      follow: 'all',
      signal: AbortSignal.any([signal, this.#way.closing.signal]),
    });
  }

  /**
   * Whether the server refuses what it took before in this session, its list: then it does not have the session
   * any more, and did not take the call that it answered with 400 either.
   */
  async #refusesSession(signal: AbortSignal): Promise<boolean> {
    if (!this.#hasListed) return false;
    const id = this.#peer.nextId();
    const reply = await this.#askForTools(id, writeMessage('tools/list', {}, id), signal).catch(
      () => undefined,
    );
    return reply?.kind === 'status' && (reply.status === 400 || reply.status === 404);
  }

  async renewCredentials(signal: AbortSignal): Promise<void> {
    if (this.#callerHeaders !== undefined) this.#way.wire.callerHeaders = await this.#callerHeaders(signal);
  }

  async send(call: OutgoingCall, options: SendOptions): Promise<Sent> {
    const id = this.#peer.nextId();
    const isModern = this.era === 'modern';
    const wait = new CallWait(options.signal, this.#way.closing.signal);
    let isSent = false;
    let refusal: { readonly thrown: unknown } | undefined;
    const stopProgress = this.#peer.onProgress(id, options.onProgress);
    try {
      const reply = await this.#peer.ask({
        id,
        method: 'tools/call',
        text: writeCall(id, call, isModern ? modernMeta(this.#clientVersion) : {}),
        name: call.tool,
        ...(isModern && { headers: paramHeaders(call.paramHeaders) }),
        maxBytes: this.#maxBytes,
        follow: 'strict',
        signal: wait.signal,
        beforeFirstByte: async () => {
          try {
            await options.beforeSend();
          } catch (thrown) {
            refusal = { thrown };
            throw thrown;
          }
        },
        onFirstByte: () => {
          isSent = true;
          wait.start(options.timeoutMs);
        },
        onRedirect: () => (isSent = false),
      });
      this.#noteLoss(reply);
      if (reply.kind === 'status' && reply.status === 400 && this.#hasSession && this.era === 'legacy') {
        if (reply.isAboutSession !== true && (await this.#refusesSession(wait.signal)))
          return { kind: 'session-lost' };
      }
      return this.#sentOf(reply, wait, id);
    } catch (error) {
      if (refusal !== undefined) throw refusal.thrown;
      if (isSent) return this.#lost(wait, id, networkReason(error));
      return { kind: 'not-sent', reason: wait.why === undefined ? networkReason(error) : wait.reason };
    } finally {
      stopProgress();
      wait.end();
    }
  }

  onToolsChanged(listener: () => void): void {
    this.#peer.onToolsChanged(listener);
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.#isOpen = false;
    await Promise.all(this.#farewells);
    await release(this.#way, this.#peer);
    this.#log.debug({ ignored: this.#peer.ignored }, 'connection to an upstream server closed');
  }

  /** Facts of one reply, by BEHAVIOURS R16. */
  #sentOf(reply: Reply, wait: CallWait, id: number): Sent {
    if (reply.kind === 'broken') return this.#lost(wait, id, reply.reason);
    if (reply.kind === 'answer') {
      if (reply.answer.kind === 'error') return reply.answer;
      return this.era === 'modern' ? modernResult(reply.answer.result) : reply.answer;
    }
    return sentOfStatus(reply, this.era, this.#hasSession);
  }

  #lost({ why, reason }: CallWait, id: number, dropped: string): Sent {
    if (why === undefined) {
      // A server that was started again knows none of its sessions, and an older one says so by 400 (BEHAVIOURS 130).
      this.#isOpen = false;
      return { kind: 'lost', why: 'dropped', reason: dropped };
    }
    if (this.era === 'legacy') this.#cancel(id, reason);
    return { kind: 'lost', why, reason };
  }

  /** Tells a legacy server that nobody waits any more; a modern one sees it from the closed stream. */
  #cancel(requestId: number, reason: string): void {
    const method = 'notifications/cancelled';
    const farewell = this.#peer
      .tell(writeMessage(method, { requestId, reason }), method, AbortSignal.timeout(farewellMs))
      .then(
        () => {},
        () => {},
      )
      .finally(() => this.#farewells.delete(farewell));
    this.#farewells.add(farewell);
  }

  /**
   * Whether the next call would meet the same: a lost session, 400 from an older server that lost
   * it, other credentials needed, or another era (BEHAVIOURS 123, 130). Then one connects anew first.
   */
  #noteLoss(reply: Reply): void {
    if (reply.kind !== 'status') return;
    const { status, error } = reply;
    const isLostSession = this.#hasSession && status === 404 && error?.code !== codes.methodNotFound;
    const isLostAgreement =
      status === 400 && (this.era === 'legacy' || error?.code === codes.unsupportedVersion);
    if (isLostSession || isLostAgreement || status === 401 || status === 403) this.#isOpen = false;
  }
}

/** The JSON-RPC error of a reply, whatever its status. */
function errorIn(reply: Reply): { readonly code: number } | undefined {
  if (reply.kind === 'status') return reply.error;
  return reply.kind === 'answer' && reply.answer.kind === 'error' ? reply.answer : undefined;
}

function paramHeaders(wishes: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(wishes).map(([name, value]) => [name, headerValue(value)]));
}
