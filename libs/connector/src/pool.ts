import { setTimeout as sleep } from 'node:timers/promises';
import { type Connection, ConnectionFault, naming } from '@holdfast/mcp-client';
import { ensureError, type Principal } from '@holdfast/run';

/** Opens one connection: with the credentials of `principal` where callers have their own. */
export type Open = (principal: Principal | null, signal: AbortSignal) => Promise<Connection>;

export interface PoolSettings {
  /** The server's name, for people. */
  readonly server: string;
  /** Whether each caller has a connection of his own (BEHAVIOURS R15). */
  readonly perPrincipal: boolean;
  /** Tries in all, the first included (BEHAVIOURS 87). */
  readonly connectRetries: number;
  readonly connectBackoffMs: number;
  /** A caller's own connection is closed after this silence. */
  readonly idleMs: number;
}

interface Place {
  connection: Connection | undefined;
  opening: Promise<Connection> | undefined;
  lastUsed: number;
}

const trouble: ReadonlySet<ConnectionFault['code']> = new Set(['unreachable']);

/** The connections to one server: one that all share, or one a caller. Opened when needed, and again when lost. */
export class Pool {
  readonly #open: Open;
  readonly #settings: PoolSettings;
  readonly #random: () => number;
  readonly #onOpened: (connection: Connection, isShared: boolean) => void;
  readonly #places = new Map<string, Place>();
  /** How many use a connection. */
  readonly #users = new Map<Connection, number>();
  /** Dropped, and closed by their last user. */
  readonly #leaving = new Set<Connection>();
  readonly #closing = new AbortController();
  readonly #sweep: NodeJS.Timeout;

  constructor(
    open: Open,
    settings: PoolSettings,
    onOpened: (connection: Connection, isShared: boolean) => void,
    random: () => number = Math.random,
  ) {
    this.#open = open;
    this.#settings = settings;
    this.#onOpened = onOpened;
    this.#random = random;
    this.#sweep = setInterval(() => this.#closeIdle(), Math.min(settings.idleMs, 60_000)).unref();
  }

  /** Whether a connection is open, to anybody. */
  get isConnected(): boolean {
    return [...this.#places.values()].some(({ connection }) => connection?.isOpen === true);
  }

  /**
   * The connection for a caller; for null the one that all share, or that lists for all.
   * Who waits for the same one waits for the same attempt to open it.
   *
   * @throws ConnectionFault why there is none
   */
  async get(principal: Principal | null): Promise<Connection> {
    const key =
      this.#settings.perPrincipal && principal !== null
        ? JSON.stringify([principal.realm, principal.id])
        : '';
    let place = this.#places.get(key);
    if (place === undefined)
      this.#places.set(key, (place = { connection: undefined, opening: undefined, lastUsed: 0 }));
    place.lastUsed = performance.now();
    if (place.connection?.isOpen === true) return place.connection;
    place.opening ??= this.#reopen(place, key === '' ? null : principal).finally(
      () => (place.opening = undefined),
    );
    return place.opening;
  }

  /** Keeps a connection from being closed by `drop`, until the returned function is called. */
  hold(connection: Connection): () => void {
    this.#users.set(connection, (this.#users.get(connection) ?? 0) + 1);
    return () => {
      const left = this.#users.get(connection)! - 1;
      if (left > 0) return void this.#users.set(connection, left);
      this.#users.delete(connection);
      if (this.#leaving.delete(connection)) void connection.close();
    };
  }

  /**
   * Lets go of a connection that is good for nothing new; the next caller opens another. It is closed once
   * nobody uses it: what went wrong with one call says nothing of those that are under way beside it.
   */
  drop(connection: Connection): void {
    for (const place of this.#places.values()) {
      if (place.connection !== connection) continue;
      place.connection = undefined;
      if (this.#users.has(connection)) this.#leaving.add(connection);
      else void connection.close();
    }
  }

  async #reopen(place: Place, principal: Principal | null): Promise<Connection> {
    if (place.connection !== undefined) this.drop(place.connection);
    const { connectRetries, connectBackoffMs } = this.#settings;
    for (let tries = 1; ; tries++) {
      try {
        const connection = await this.#open(principal, this.#closing.signal);
        if (this.#closing.signal.aborted) {
          void connection.close();
          throw closed();
        }
        place.connection = connection;
        this.#onOpened(connection, principal === null);
        return connection;
      } catch (thrown) {
        if (this.#closing.signal.aborted) throw closed();
        const fault = naming(this.#settings.server, toFault(thrown));
        if (tries >= connectRetries || !trouble.has(fault.code)) throw fault;
        const pauseMs = connectBackoffMs * 2 ** (tries - 1) * (0.5 + this.#random() / 2);
        await sleep(pauseMs, undefined, { signal: this.#closing.signal }).catch(() => {});
      }
    }
  }

  #closeIdle(): void {
    const since = performance.now() - this.#settings.idleMs;
    for (const [key, { connection, opening, lastUsed }] of this.#places) {
      if (key === '' || opening !== undefined || lastUsed > since) continue;
      this.#places.delete(key);
      void connection?.close();
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#sweep);
    this.#closing.abort();
    const open = [...[...this.#places.values()].map(({ connection }) => connection), ...this.#leaving];
    this.#places.clear();
    this.#leaving.clear();
    await Promise.all(open.map((connection) => connection?.close()));
  }
}

function closed(): ConnectionFault {
  return new ConnectionFault('unreachable', 'this connector no longer has the server');
}

/** What a module of the deployment, or a fault of ours, threw is not for callers to read. */
function toFault(thrown: unknown): ConnectionFault {
  if (thrown instanceof ConnectionFault) return thrown;
  return new ConnectionFault('unreachable', 'the connection could not be prepared', {
    cause: ensureError(thrown),
  });
}
