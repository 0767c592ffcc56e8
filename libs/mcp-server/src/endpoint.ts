import { codes } from '@holdfast/protocol';
import type { Log } from '@holdfast/run';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SessionLimits, Store } from '@holdfast/store';
import { authenticate, challengeTo, type AuthProvider } from './auth.js';
import { readJson } from './body.js';
import { Calls, type CallSettings, type IdentityHooks } from './call.js';
import { ToolCatalogue, type CatalogueSettings } from './catalogue.js';
import {
  allowOrigin,
  answerPreflight,
  headerOf,
  isAllowedHost,
  isAllowedOrigin,
  onClose,
  sendEmpty,
  sendJson,
  sendRefusal,
  type Exchange,
  type OriginRules,
} from './http.js';
import { LegacyLeg } from './legacy.js';
import { Limits, type LimitSettings } from './limits.js';
import { isModern, ModernLeg, type ModernParts } from './modern.js';
import type { CallObserver } from './observer.js';
import { Outbox } from './outbox.js';
import type { Refusals } from './refusals.js';
import { RunWatch } from './run-watch.js';
import { Seals } from './seal.js';
import { Sessions } from './sessions.js';
import { errorMessage, ProtocolRefusal } from './wire-errors.js';
import { refusalOf } from './fault.js';

export interface McpSettings extends CallSettings, CatalogueSettings, OriginRules {
  readonly maxBodyBytes: number;
  readonly limits: LimitSettings;
  readonly pollIntervalMs: number;
  readonly listTtlMs: number;
  readonly sessions: SessionLimits;
  /** What an explicit cancellation by a host does to its run (BEHAVIOURS X10). */
  readonly hostCancel: 'detach' | 'cancel';
  /** How hosts from before 2026-07-28 are served. */
  readonly legacy: 'sessions' | 'stateless' | 'reject';
}

export interface McpParts {
  readonly store: Store;
  readonly auth: AuthProvider;
  readonly settings: McpSettings;
  readonly hooks: IdentityHooks;
  readonly serverInfo: { readonly name: string; readonly version: string };
  readonly log: Log;
  readonly observer: CallObserver;
  readonly refusals: Refusals;
}

/** What a hand-over takes: the last event of a stream is written. */
const handOverMs = 1_000;

/**
 * The MCP endpoint: both protocol eras on one path. One HTTP request goes through, in this order:
 * authentication, Origin and Host, method, body, era (BEHAVIOURS R1).
 */
export class McpEndpoint {
  readonly #parts: McpParts;
  readonly #limits: Limits;
  readonly #watch: RunWatch;
  readonly #catalogue: ToolCatalogue;
  readonly #sessions: Sessions;
  readonly #legacy: LegacyLeg;
  readonly #modern: ModernLeg;
  /** Answers that are not finished. */
  readonly #open = new Set<ServerResponse>();
  #isDraining = false;
  #onIdle: (() => void) | undefined;
  /** What the legs of this endpoint are made of; stdio serves from the same. */
  readonly core: ModernParts;

  constructor(parts: McpParts) {
    const { store, settings, hooks, log, observer, serverInfo } = parts;
    this.#parts = parts;
    this.#limits = new Limits(settings.limits, observer);
    this.#watch = new RunWatch(store, settings.pollIntervalMs, log);
    this.#catalogue = new ToolCatalogue({ store, settings, maxAgeMs: settings.pollIntervalMs, log });
    this.#sessions = new Sessions(store, settings.sessions, log);
    const calls = new Calls({
      store,
      catalogue: this.#catalogue,
      watch: this.#watch,
      settings,
      hooks,
      log,
      observer,
      limits: this.#limits,
    });
    const { keepAliveMs, listTtlMs, maxBodyBytes, legacy } = settings;
    const seals = new Seals(settings.runIdKeys);
    this.core = {
      catalogue: this.#catalogue,
      calls,
      seals,
      serverInfo,
      listTtlMs,
      keepAliveMs,
      maxBodyBytes,
      limits: this.#limits,
      log,
    };
    this.#modern = new ModernLeg(this.core);
    this.#legacy = new LegacyLeg({
      ...this.core,
      store,
      hostCancel: settings.hostCancel,
      observer,
      sessions: this.#sessions,
      mode: legacy === 'stateless' ? 'stateless' : 'sessions',
    });
  }

  sessionCount(): Promise<number> {
    return this.#sessions.count();
  }

  /** From here on each connection ends with its answer, so that hosts come back to another replica. Safe twice. */
  endConnections(): void {
    this.#isDraining = true;
    for (const res of this.#open) endConnection(res);
  }

  /**
   * Serves what is under way to its end, for `patienceMs` at most (drain:zero-loss). With other
   * replicas there, calls whose hosts can take them up elsewhere are handed over from the start: by then
   * nothing may bring them back here. Without, those that are left at the end are handed over to the next start.
   * Streams end one after another.
   */
  async drain({ patienceMs, hasReplicas }: { patienceMs: number; hasReplicas: boolean }): Promise<void> {
    this.endConnections();
    this.#legacy.endListening(patienceMs / 2);
    this.#modern.endListening(patienceMs / 2);
    if (hasReplicas) this.core.calls.handOver(patienceMs / 2);
    await this.#idle(patienceMs);
    if (hasReplicas || this.#open.size === 0) return;
    this.core.calls.handOver();
    await this.#idle(handOverMs);
  }

  /** Resolves when every answer is finished, after `patienceMs` at the latest. */
  async #idle(patienceMs: number): Promise<void> {
    const patience = new AbortController();
    const idle = new Promise<void>((resolve) => {
      this.#onIdle = resolve;
      if (this.#open.size === 0) resolve();
    });
    await Promise.race([idle, sleep(patienceMs, undefined, { signal: patience.signal }).catch(() => {})]);
    patience.abort();
  }

  async close(): Promise<void> {
    this.#legacy.close();
    this.#modern.close();
    this.#sessions.stop();
    this.#catalogue.close();
    this.#watch.close();
  }

  /** Serves one HTTP request. Never rejects. */
  async handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    this.#open.add(res);
    res.once('close', () => {
      this.#open.delete(res);
      if (this.#open.size === 0) this.#onIdle?.();
    });
    if (this.#isDraining) endConnection(res);
    try {
      await this.#admit({ req, res });
    } catch (error) {
      // A host that went away while it sent is nobody's fault, and nobody is there to be told.
      if (req.destroyed && !req.complete && !(error instanceof ProtocolRefusal)) return;
      const refusal = refusalOf(error, this.#parts.log);
      // What is left of a body that is far too large is not read.
      if (refusal.status === 413) res.setHeader('Connection', 'close');
      sendRefusal(res, refusal);
      if (refusal.status === 413) req.resume();
    }
  }

  async #admit(exchange: Exchange): Promise<void> {
    const { req, res } = exchange;
    const { auth, settings, refusals, log } = this.#parts;
    // Of every answer, a refusal too: a cache that keeps one page's answer would give it to another.
    res.setHeader('Vary', 'Origin');
    const origin = headerOf(req, 'origin');
    const isOriginAllowed = origin === undefined || isAllowedOrigin(origin, settings);
    const isWelcome = isOriginAllowed && isAllowedHost(headerOf(req, 'host'), settings);
    if (origin !== undefined && isWelcome) allowOrigin(res, origin);
    // A browser asks before it sends anything, its credentials too.
    const isPreflight = req.method === 'OPTIONS';
    if (isPreflight && isWelcome) return answerPreflight(exchange);

    const verdict = isPreflight ? undefined : await authenticate(auth, req);
    if (verdict?.kind === 'refused') {
      refusals.caller(verdict.reason);
      return refuseCaller(exchange, verdict.status);
    }
    if (!isWelcome || verdict === undefined) {
      refusals.name(isOriginAllowed ? 'host' : 'origin', isOriginAllowed ? req.headers.host : origin);
      throw new ProtocolRefusal(
        codes.badRequest,
        isOriginAllowed ? 'this Host is not allowed' : 'this Origin is not allowed',
        { status: 403 },
      );
    }
    const { principal } = verdict;
    const { unreadMs } = settings.limits;
    new Outbox(res, { memory: this.#limits.holdAnswer(principal), unreadMs, log });
    switch (req.method) {
      case 'POST': {
        const { reserve, release } = this.#limits.holdRequest(principal);
        onClose(res, release);
        const body = await readJson(req, { maxBytes: settings.maxBodyBytes, limits: this.#limits, reserve });
        const serves =
          isModern(headerOf(req, 'mcp-protocol-version'), body) || settings.legacy === 'reject'
            ? this.#modern
            : this.#legacy;
        return serves.post(exchange, body, principal);
      }
      case 'GET':
      case 'DELETE': {
        const sessionId = headerOf(req, 'mcp-session-id');
        if (settings.legacy !== 'sessions' || sessionId === undefined) return refuseMethod(res, 'POST');
        return req.method === 'GET'
          ? this.#legacy.get(exchange, sessionId, principal)
          : this.#legacy.delete(exchange, sessionId, principal);
      }
      default:
        return refuseMethod(res, settings.legacy === 'sessions' ? 'GET, POST, DELETE' : 'POST');
    }
  }
}

/** Has the host open a new connection for its next request. A stream that is open already has said so. */
function endConnection(res: ServerResponse): void {
  if (!res.headersSent) res.setHeader('Connection', 'close');
}

/** Says nothing about why (BEHAVIOURS 4). */
function refuseCaller({ req, res }: Exchange, status: 401 | 403 | 503): void {
  const text = { 401: 'Unauthorized', 403: 'Forbidden', 503: 'Service Unavailable' }[status];
  sendJson(res, status, JSON.stringify({ error: { name: text.replaceAll(' ', ''), message: text } }), {
    ...(status === 401 && { 'WWW-Authenticate': challengeTo(req) }),
  });
}

function refuseMethod(res: ServerResponse, allow: string): void {
  if (res.req.method === 'HEAD') return sendEmpty(res, 405, { Allow: allow });
  const refusal = new ProtocolRefusal(codes.badRequest, `method not allowed; this path takes ${allow}`, {
    status: 405,
  });
  sendJson(res, 405, errorMessage(null, refusal), { Allow: allow });
}
