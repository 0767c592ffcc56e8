import { randomBytes } from 'node:crypto';
import { codes } from '@holdfast/protocol';
import { ensureError, samePrincipal, type Log, type Principal } from '@holdfast/run';
import type { Session, SessionLimits, Store } from '@holdfast/store';
import { ProtocolRefusal } from './wire-errors.js';

/** Use is written at most this often; a write a call cost two thirds of the throughput (BEHAVIOURS R3). */
const touchEveryMs = 60_000;
/** A look-up is remembered this long; a close anywhere forgets it at once. */
const rememberMs = 30_000;

interface Known {
  readonly session: Session;
  readonly readAt: number;
  touchedAt: number;
}

/**
 * Sessions of hosts from before 2026-07-28. They live in the store, so any replica serves any
 * session; here are only remembered look-ups.
 */
export class Sessions {
  readonly #store: Store;
  readonly #limits: SessionLimits;
  readonly #log: Log;
  readonly #known = new Map<string, Known>();
  readonly #inUse = new Map<string, number>();
  readonly #closed = new Set<(id: string) => void>();
  readonly #unsubscribe: () => void;
  readonly #timer: NodeJS.Timeout;
  #closings = 0;

  constructor(store: Store, limits: SessionLimits, log: Log) {
    this.#store = store;
    this.#limits = limits;
    this.#log = log;
    this.#unsubscribe = store.subscribe((signal) => {
      if (signal.kind === 'everything') this.#known.clear();
      if (signal.kind === 'session') this.#hearClosed(signal.id);
    });
    // An open stream is use, though nothing is sent on it.
    this.#timer = setInterval(
      () => this.#touch([...this.#inUse.keys()]),
      Math.min(touchEveryMs, limits.idleMs / 3),
    ).unref();
  }

  /** @throws ProtocolRefusal 503 when there is no room (BEHAVIOURS 18) */
  async open(principal: Principal | null, protocolVersion: string, client: unknown): Promise<Session> {
    const session = { id: randomBytes(24).toString('base64url'), principal, protocolVersion, client };
    const answer = await this.#store.sessions.open(session, this.#limits);
    if (answer === 'opened') {
      this.#remember(session);
      return session;
    }
    throw new ProtocolRefusal(
      codes.badRequest,
      answer === 'full'
        ? 'too many open sessions; close one, or try again later'
        : 'too many open sessions of this caller; close one, or try again later',
      { status: 503 },
    );
  }

  /**
   * The session of that id, in use from now. One that was never opened, is closed or idle, or is
   * somebody else's cannot be told apart (BEHAVIOURS 16, 17).
   *
   * @throws ProtocolRefusal 404
   */
  async use(id: string, principal: Principal | null): Promise<Session> {
    const now = Date.now();
    let known = this.#known.get(id);
    if (known === undefined || now - known.readAt > rememberMs) {
      const closings = this.#closings;
      const session = await this.#store.sessions.get(id, this.#limits.idleMs);
      const touchedAt = known?.touchedAt ?? 0;
      known = session && this.#remember(session, touchedAt);
      // What was closed while it was read must not be remembered as open.
      if (closings !== this.#closings || session === undefined) this.#known.delete(id);
    }
    if (known === undefined || !samePrincipal(known.session.principal, principal)) {
      throw new ProtocolRefusal(codes.sessionNotFound, 'session not found; send initialize to open one', {
        status: 404,
      });
    }
    if (now - known.touchedAt > Math.min(touchEveryMs, this.#limits.idleMs / 3)) {
      known.touchedAt = now;
      this.#touch([id]);
    }
    return known.session;
  }

  async close(id: string): Promise<void> {
    await this.#store.sessions.close(id);
    this.#known.delete(id);
  }

  /** Tells every replica, this one too, something about a session; see `SessionStore.tell`. */
  tell(id: string, message: string): Promise<void> {
    return this.#store.sessions.tell(id, message);
  }

  /** Keeps a session from going idle until the returned function is called. */
  hold(id: string): () => void {
    this.#inUse.set(id, (this.#inUse.get(id) ?? 0) + 1);
    return () => {
      const left = (this.#inUse.get(id) ?? 1) - 1;
      if (left === 0) this.#inUse.delete(id);
      else this.#inUse.set(id, left);
    };
  }

  /** Calls `listener` with each session that is closed anywhere. */
  onClosed(listener: (id: string) => void): () => void {
    this.#closed.add(listener);
    return () => this.#closed.delete(listener);
  }

  count(): Promise<number> {
    return this.#store.sessions.count(this.#limits.idleMs);
  }

  /** A signal is a hint: what hangs on a session ends only when the store has it no longer. */
  #hearClosed(id: string): void {
    this.#closings++;
    this.#known.delete(id);
    if (!this.#inUse.has(id)) return;
    this.#store.sessions.get(id, this.#limits.idleMs).then(
      (session) => {
        if (session === undefined) for (const listener of this.#closed) listener(id);
      },
      (error: unknown) => this.#log.warn({ err: ensureError(error) }, 'closed session not read'),
    );
  }

  stop(): void {
    this.#unsubscribe();
    clearInterval(this.#timer);
  }

  #remember(session: Session, touchedAt = Date.now()): Known {
    if (this.#known.size >= this.#limits.max) this.#known.clear();
    const known = { session, readAt: Date.now(), touchedAt };
    this.#known.set(session.id, known);
    return known;
  }

  #touch(ids: readonly string[]): void {
    if (ids.length === 0) return;
    this.#store.sessions.touch(ids).catch((error: unknown) => {
      this.#log.warn({ sessions: ids.length, err: ensureError(error) }, 'use of sessions not written');
    });
  }
}
