import { randomUUID } from 'node:crypto';
import { chmodSync, mkdirSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type CancelEnds,
  ensureError,
  isFinished,
  RunError,
  type NewRun,
  type Run,
  type RunEvent,
  type RunId,
} from '@holdfast/run';
import type {
  Catalogue,
  Claim,
  ClaimKey,
  ClaimRequest,
  LiveWorker,
  News,
  Repeat,
  RunFilter,
  RunStore,
  ServerOwner,
  ServerStore,
  Session,
  SessionStore,
  Signal,
  Store,
  Submission,
  ToolStore,
  Watched,
  WorkerStore,
} from './contract.js';
import {
  sameTools,
  toCatalogue,
  toFinished,
  toPrincipal,
  toRun,
  toRunning,
  traceText,
  upstreamText,
  type RunRow,
} from './rows.js';
import { queuedOf, queueHead, stretchCount, stretchLength, type QueueSample } from './queue-sample.js';
import { callerKey, chooseFairly, headSize, mostCallers, shareOf } from './fair-share.js';
import { Signals } from './signals.js';
import { refusalOf, schemaAfter } from './schema-version.js';
import { sqliteMigrations } from './sqlite-schema.js';

export interface SqliteOptions {
  /** `:memory:` lives and dies with this object. */
  readonly path: string;
  /**
   * `full` (default) survives a power cut. `normal` survives a crash of the process; a power cut
   * may lose the last commits, which were answered already.
   */
  readonly synchronous?: 'full' | 'normal';
  /** How often to look for commits of other processes, in milliseconds. */
  readonly watchMs?: number;
}

/**
 * The run store on one SQLite file, shared by the processes of one machine.
 *
 * Writes gather in the turn of the event loop and commit together; reads go straight to the
 * file. A lock held by another process is waited for without blocking the event loop: with
 * `busy_timeout` at 5,000 ms it stalled for up to 2.8 s, with 0 and this retry for 7 ms.
 *
 * @throws RunError `store-unfit` when the file cannot keep the promise: it is of a newer
 *   version, cannot be written, or its file system cannot do write-ahead logging
 */
export function openSqlite(options: SqliteOptions): Store {
  return new SqliteStore(options);
}

const selectRun = `SELECT runs.*, queue.attempt AS queue_attempt, queue.claimed_at FROM runs LEFT JOIN queue USING (seq)`;

interface QueueRow {
  readonly seq: number;
  readonly caller: string;
  readonly workflow: string;
}

interface Write {
  readonly work: () => unknown;
  /** A power cut may take it back: what is lost is done again and nobody was told. */
  readonly isRelaxed: boolean;
  readonly resolve: (value: never) => void;
  readonly reject: (error: Error) => void;
}

class SqliteStore implements Store {
  readonly kind: 'memory' | 'sqlite';
  readonly hearing = true;
  readonly #db: DatabaseSync;
  readonly #path: string;
  readonly #synchronous: 'full' | 'normal';
  readonly #signals = new Signals();
  readonly #statements = new Map<string, StatementSync>();
  #gathered: Write[] = [];
  #flushing: Promise<void> | undefined;
  #unsent: Signal[] = [];
  #watch: NodeJS.Timeout | undefined;
  #seenVersion = 0;
  #lastTold = 0;
  readonly #origin = randomUUID();
  #isRelaxed = false;
  #closed = false;

  constructor({ path, synchronous = 'full', watchMs = 20 }: SqliteOptions) {
    this.kind = path === ':memory:' ? 'memory' : 'sqlite';
    this.#path = path;
    this.#synchronous = synchronous;
    this.#db = this.#open();
    if (this.kind === 'sqlite') {
      this.#lastTold = this.#one<{ n: number | null }>('SELECT max(n) AS n FROM told')!.n ?? 0;
      this.#watch = setInterval(() => this.#hearOthers(), watchMs).unref();
    }
  }

  #open(): DatabaseSync {
    let db: DatabaseSync | undefined;
    try {
      if (this.kind === 'sqlite') mkdirSync(dirname(resolve(this.#path)), { recursive: true });
      db = new DatabaseSync(this.#path);
      // First of all: without it processes that start at once fail on each other's migration.
      db.exec('PRAGMA busy_timeout = 10000');
      if (this.kind === 'sqlite') {
        const mode = db.prepare('PRAGMA journal_mode = WAL').get()?.['journal_mode'];
        if (mode !== 'wal')
          throw new Error(
            `its file system cannot do write-ahead logging (journal mode ${String(mode)}); use a local disk`,
          );
        // Runs hold arguments and results: for the owner only.
        chmodSync(this.#path, 0o600);
      }
      db.exec(`PRAGMA synchronous = ${this.#synchronous}`);
      migrate(db);
      db.exec('PRAGMA busy_timeout = 0; PRAGMA wal_autocheckpoint = 4000');
      return db;
    } catch (cause) {
      db?.close();
      throw new RunError(
        'store-unfit',
        `the SQLite file ${this.#path} cannot be used as the store: ${ensureError(cause).message}`,
        { cause },
      );
    }
  }

  /** What other processes committed since the last look; the version costs 2.4 µs to read. */
  #hearOthers(): void {
    try {
      const version = this.#one<{ data_version: number }>('PRAGMA data_version')!.data_version;
      if (version === this.#seenVersion) return;
      const told = this.#all<{ n: number; origin: string; session: string; message: string }>(
        'SELECT n, origin, session, message FROM told WHERE n > ? ORDER BY n',
        this.#lastTold,
      );
      for (const { n, origin, session, message } of told) {
        this.#lastTold = n;
        if (origin !== this.#origin) this.#signals.emit({ kind: 'told', id: session, message });
      }
      this.#seenVersion = version;
    } catch {
      return; // The file is busy or away: the next look sees it, and the verbs say what is wrong.
    }
    this.#signals.emit({ kind: 'everything' });
  }

  #prepare(sql: string): StatementSync {
    let statement = this.#statements.get(sql);
    if (statement === undefined) this.#statements.set(sql, (statement = this.#db.prepare(sql)));
    return statement;
  }

  #all<Row>(sql: string, ...values: SQLInputValue[]): Row[] {
    return this.#prepare(sql).all(...values) as Row[];
  }

  #one<Row>(sql: string, ...values: SQLInputValue[]): Row | undefined {
    return this.#prepare(sql).get(...values) as Row | undefined;
  }

  /** @returns how many rows changed */
  #run(sql: string, ...values: SQLInputValue[]): number {
    return Number(this.#prepare(sql).run(...values).changes);
  }

  /** Reads, waiting out another process that holds the file for itself. */
  async #read<T>(work: () => T): Promise<T> {
    for (;;) {
      this.#assertOpen();
      try {
        return work();
      } catch (error) {
        if (!isBusy(error)) throw unavailable(error);
        await shortPause();
      }
    }
  }

  /** Runs `work` in the transaction that gathers in this turn; resolves when it is durable, or at once where it is relaxed. */
  #write<T>(work: () => T, isRelaxed = false): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#gathered.push({ work, isRelaxed, resolve: resolve as (value: never) => void, reject });
      this.#flushing ??= new Promise<void>((turn) => setImmediate(turn)).then(() => this.#flush());
    });
  }

  async #flush(): Promise<void> {
    const writes = this.#gathered;
    this.#gathered = [];
    await this.#commit(writes);
    this.#flushing = this.#gathered.length === 0 ? undefined : this.#flush();
  }

  async #commit(writes: readonly Write[]): Promise<void> {
    try {
      this.#assertOpen();
      this.#setRelaxed(writes.every(({ isRelaxed }) => isRelaxed));
      await this.#begin();
    } catch (error) {
      for (const { reject } of writes) reject(unavailable(error));
      return;
    }
    const results: unknown[] = [];
    try {
      for (const { work } of writes) results.push(work());
      this.#db.exec('COMMIT');
    } catch (error) {
      this.#unsent = [];
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK');
      // One write that fails must not fail its neighbours: each is tried alone.
      if (writes.length > 1) for (const write of writes) await this.#commit([write]);
      else writes[0]!.reject(unavailable(error));
      return;
    }
    for (const [i, { resolve }] of writes.entries()) resolve(results[i] as never);
    const signals = this.#unsent;
    this.#unsent = [];
    for (const signal of signals) this.#signals.emit(signal);
  }

  /** Without waiting for the disk, a relaxed commit costs a tenth; the next full one takes it along. */
  #setRelaxed(isRelaxed: boolean): void {
    if (isRelaxed === this.#isRelaxed || this.#synchronous === 'normal') return;
    this.#db.exec(`PRAGMA synchronous = ${isRelaxed ? 'normal' : 'full'}`);
    this.#isRelaxed = isRelaxed;
  }

  async #begin(): Promise<void> {
    for (;;) {
      try {
        this.#prepare('BEGIN IMMEDIATE').run();
        return;
      } catch (error) {
        if (!isBusy(error)) throw error;
        await shortPause();
        this.#assertOpen();
      }
    }
  }

  #assertOpen(): void {
    if (this.#closed) throw new RunError('store-closed', `the store ${this.#path} is closed`);
  }

  subscribe(listener: (signal: Signal) => void): () => void {
    return this.#signals.subscribe(listener);
  }

  async ping(): Promise<void> {
    await this.#read(() => this.#one('SELECT 1'));
  }

  async close(): Promise<void> {
    clearInterval(this.#watch);
    while (this.#flushing !== undefined) await this.#flushing;
    if (this.#closed) return;
    this.#closed = true;
    this.#statements.clear();
    this.#db.close();
  }

  secret(name: string, make: () => string): Promise<string> {
    return this.#write(() => {
      this.#run('INSERT INTO secrets VALUES (?, ?) ON CONFLICT DO NOTHING', name, make());
      return this.#one<{ value: string }>('SELECT value FROM secrets WHERE name = ?', name)!.value;
    });
  }

  readonly runs: RunStore = {
    submit: async (run, options = {}, now = new Date()) => {
      const upstream = upstreamText(run);
      return this.#write(() => this.#submit(run, upstream, options.repeat, now));
    },
    get: (id) => this.#read(() => this.#runWhere('runs.id = ?', id)),
    news: (watched) => this.#read(() => this.#news(watched)),
    claim: async (request, now = new Date()) => {
      // Looked at first, so that a worker with nothing to do never takes the write lock.
      const isEmpty = await this.#read(
        () => this.#one('SELECT 1 FROM queue WHERE token IS NULL') === undefined,
      );
      return isEmpty ? [] : this.#write(() => this.#claim(request, now), !request.isDurable);
    },
    report: (claim, events, now = new Date()) =>
      this.#write(() => {
        if (!this.#holds(claim)) return false;
        for (const { n, value, total, message } of events) {
          this.#run(
            'INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)',
            claim.seq,
            n,
            now.getTime(),
            value,
            total ?? null,
            message ?? null,
          );
        }
        this.#unsent.push({ kind: 'runs', seqs: [claim.seq] });
        return true;
      }),
    finish: (claim, end, now = new Date()) =>
      this.#write(() => {
        const held = this.#one<{ attempt: number; claimed_at: number }>(
          'DELETE FROM queue WHERE seq = ? AND token = ? RETURNING attempt, claimed_at',
          claim.seq,
          claim.token,
        );
        if (held === undefined) return false;
        this.#run(
          'UPDATE runs SET state = ?, result = ?, error = ?, attempt = ?, started_at = ?, finished_at = ? WHERE seq = ?',
          end.state,
          end.state === 'succeeded' ? end.result : null,
          end.state === 'succeeded' ? null : JSON.stringify(end.error),
          held.attempt,
          held.claimed_at,
          now.getTime(),
          claim.seq,
        );
        this.#unsent.push({ kind: 'runs', seqs: [claim.seq] });
        return true;
      }),
    cancel: (id, ends, now = new Date()) => this.#write(() => this.#cancel(id, ends, now)),
    dispatch: (claim) =>
      this.#write(() => {
        const changed = this.#run(
          'UPDATE queue SET is_dispatched = 1 WHERE seq = ? AND token = ? AND is_dispatched = 0',
          claim.seq,
          claim.token,
        );
        if (changed === 1) return 'won';
        return this.#holds(claim) ? 'lost' : 'stale';
      }),
    revoke: (claim) =>
      this.#write(() => {
        const token = randomUUID();
        const changed = this.#run(
          'UPDATE queue SET token = ? WHERE seq = ? AND token = ? AND is_dispatched = 0',
          token,
          claim.seq,
          claim.token,
        );
        if (changed === 1) return { token };
        return this.#holds(claim) ? 'dispatched' : 'stale';
      }),
    release: (claims) =>
      this.#write(() => {
        for (const { seq, token } of claims) this.#requeue('seq = ? AND token = ?', seq, token);
      }),
    events: (seq) => this.#read(() => this.#events({ seq, after: 0 })),
    list: (filter) => this.#read(() => this.#list(filter)),
    queue: () =>
      this.#read(() => {
        const { oldest, ...sample } = this.#one<QueueSample & { oldest: number | null }>(queueStatement)!;
        return { queued: queuedOf(sample), oldest: oldest === null ? undefined : new Date(oldest) };
      }),
    removeFinished: (before, limit, { rememberUntil } = {}, now = new Date()) =>
      this.#write(() => {
        this.#run('DELETE FROM tombstones WHERE until <= ?', now.getTime());
        const ended = this.#all<{ seq: number; id: string }>(
          `SELECT seq, id FROM runs WHERE state <> 'open' AND finished_at < ? ORDER BY finished_at, seq LIMIT ?`,
          before.getTime(),
          limit,
        );
        for (const { seq, id } of ended) {
          this.#run('DELETE FROM events WHERE seq = ?', seq);
          this.#run('DELETE FROM repeats WHERE seq = ?', seq);
          this.#run('DELETE FROM runs WHERE seq = ?', seq);
          if (rememberUntil !== undefined && id.startsWith('r1_')) {
            this.#run('INSERT OR REPLACE INTO tombstones VALUES (?, ?)', id, rememberUntil.getTime());
          }
        }
        return ended.length;
      }),
  };

  #rowWhere(condition: string, ...values: SQLInputValue[]): RunRow | undefined {
    return this.#one<RunRow>(`${selectRun} WHERE ${condition}`, ...values);
  }

  #runWhere(condition: string, ...values: SQLInputValue[]): Run | undefined {
    const row = this.#rowWhere(condition, ...values);
    return row && toRun(row);
  }

  #submit(run: NewRun, upstream: string | null, repeat: Repeat | undefined, now: Date): Submission {
    if (repeat !== undefined) {
      const earlier = this.#runWhere('runs.seq = (SELECT seq FROM repeats WHERE key = ?)', repeat.key);
      if (
        earlier !== undefined &&
        (!isFinished(earlier) || earlier.submittedAt.getTime() > now.getTime() - repeat.windowMs)
      ) {
        return { kind: 'attached', run: earlier };
      }
    }
    const made = this.#run(
      `INSERT INTO runs (id, workflow, tool, tool_class, realm, principal, arguments, digest, definition, submitted_at, upstream, trace)
       SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12
       WHERE NOT EXISTS (SELECT 1 FROM tombstones WHERE id = ?1 AND until > ?10)
       ON CONFLICT (id) DO NOTHING`,
      run.id,
      run.workflow,
      run.tool,
      run.toolClass,
      run.principal?.realm ?? null,
      run.principal?.id ?? null,
      run.arguments,
      run.digest,
      run.definition,
      now.getTime(),
      upstream,
      traceText(run),
    );
    if (made === 1) {
      this.#run(
        'INSERT INTO queue (seq, workflow, definition, queued_at, caller) SELECT seq, workflow, definition, submitted_at, ? FROM runs WHERE id = ?',
        callerKey(run.principal),
        run.id,
      );
      if (repeat !== undefined) {
        this.#run('INSERT OR REPLACE INTO repeats SELECT ?, seq FROM runs WHERE id = ?', repeat.key, run.id);
      }
      this.#unsent.push({ kind: 'queued' });
    }
    const kept = this.#runWhere('runs.id = ?', run.id);
    if (kept === undefined) return { kind: 'expired' };
    return { kind: made === 1 ? 'fresh' : 'attached', run: kept };
  }

  #news(watched: readonly Watched[]): News[] {
    return watched.flatMap((watch) => {
      const ended = this.#rowWhere(`runs.seq = ? AND runs.state <> 'open'`, watch.seq);
      const events = this.#events(watch);
      return ended === undefined && events.length === 0
        ? []
        : [{ seq: watch.seq, events, ...(ended && { ended: toFinished(ended) }) }];
    });
  }

  #events({ seq, after }: Watched): RunEvent[] {
    return this.#all<{ n: number; at: number; value: number; total: number | null; message: string | null }>(
      'SELECT n, at, value, total, message FROM events WHERE seq = ? AND n > ? ORDER BY n',
      seq,
      after,
    ).map(({ n, at, value, total, message }) => ({
      n,
      at: new Date(at),
      progress: { value, ...(total !== null && { total }), ...(message !== null && { message }) },
    }));
  }

  #claim(request: ClaimRequest, now: Date): Claim[] {
    const { worker, definitions, definitionGraceMs, limit } = request;
    if (!this.#isLive(worker, now)) return [];
    const share = shareOf(request);
    const due = `token IS NULL AND workflow IN (SELECT value FROM json_each(?))
       AND (definition IN (SELECT value FROM json_each(?)) OR queued_at <= ?)`;
    const values = [
      JSON.stringify(share.workflows),
      JSON.stringify(definitions),
      now.getTime() - definitionGraceMs,
    ];
    const head = this.#all<QueueRow>(
      `SELECT seq, caller, workflow FROM queue WHERE ${due} ORDER BY seq LIMIT ${headSize}`,
      ...values,
    );
    const behind =
      head.length < headSize
        ? []
        : this.#queuedCallers().flatMap((caller) =>
            this.#all<QueueRow>(
              `SELECT seq, caller, workflow FROM queue WHERE caller = ? AND seq > ? AND ${due} ORDER BY seq LIMIT ?`,
              caller,
              head.at(-1)!.seq,
              ...values,
              limit,
            ),
          );
    const token = randomUUID();
    const claimed = this.#all<{ seq: number; is_dispatched: number }>(
      `UPDATE queue SET worker = ?, token = ?, attempt = attempt + 1, claimed_at = ?
       WHERE seq IN (SELECT value FROM json_each(?))
       RETURNING seq, is_dispatched`,
      worker,
      token,
      now.getTime(),
      JSON.stringify(chooseFairly([...head, ...behind], share, limit).map(({ seq }) => seq)),
    );
    return claimed
      .map(({ seq, is_dispatched }) => ({
        seq,
        token,
        run: toRunning(this.#rowWhere('runs.seq = ?', seq)!),
        isDispatched: is_dispatched === 1,
      }))
      .sort((a, b) => a.seq - b.seq);
  }

  /** One look into the index for each, however long the queue is. */
  #queuedCallers(): string[] {
    return this.#all<{ caller: string }>(
      `WITH RECURSIVE callers (caller) AS (
         SELECT min(caller) FROM queue
         UNION ALL
         SELECT (SELECT min(caller) FROM queue WHERE queue.caller > callers.caller) FROM callers
         WHERE callers.caller IS NOT NULL LIMIT ${mostCallers}
       )
       SELECT caller FROM callers WHERE caller IS NOT NULL`,
    ).map(({ caller }) => caller);
  }

  #cancel(id: RunId, ends: CancelEnds, now: Date): Run | undefined {
    const open = this.#one<{
      seq: number;
      attempt: number;
      claimed_at: number | null;
      is_dispatched: number;
    }>(
      `DELETE FROM queue WHERE seq = (SELECT seq FROM runs WHERE id = ?)
       RETURNING seq, attempt, claimed_at, is_dispatched`,
      id,
    );
    if (open !== undefined) {
      this.#run(
        `UPDATE runs SET state = 'cancelled', error = ?, attempt = ?, started_at = ?, finished_at = ? WHERE seq = ?`,
        JSON.stringify(
          open.is_dispatched === 1 ? ends.dispatched : open.claimed_at === null ? ends.queued : ends.running,
        ),
        open.attempt,
        open.claimed_at,
        now.getTime(),
        open.seq,
      );
      this.#unsent.push({ kind: 'cancelled', seqs: [open.seq] }, { kind: 'runs', seqs: [open.seq] });
    }
    return this.#runWhere('runs.id = ?', id);
  }

  #holds({ seq, token }: ClaimKey): boolean {
    return this.#one('SELECT 1 FROM queue WHERE seq = ? AND token = ?', seq, token) !== undefined;
  }

  #requeue(condition: string, ...values: SQLInputValue[]): number {
    const count = this.#run(
      `UPDATE queue SET worker = NULL, token = NULL, claimed_at = NULL WHERE ${condition}`,
      ...values,
    );
    if (count > 0) this.#unsent.push({ kind: 'queued' });
    return count;
  }

  #list({ state, tool, principal, like, before, limit }: RunFilter): Run[] {
    const conditions: string[] = [];
    const values: SQLInputValue[] = [];
    const only = (condition: string, ...more: SQLInputValue[]): void => {
      conditions.push(condition);
      values.push(...more);
    };
    if (state === 'queued') only(`runs.state = 'open' AND queue.claimed_at IS NULL`);
    else if (state === 'running') only('queue.claimed_at IS NOT NULL');
    else if (state !== undefined) only('runs.state = ?', state);
    if (tool !== undefined) only('runs.tool = ?', tool);
    if (principal !== undefined) only('runs.principal = ?', principal);
    if (before !== undefined) only('runs.seq < ?', before);
    if (like !== undefined) {
      only(
        'runs.seq BETWEEN ? AND ? AND runs.seq <> ?',
        like.seq - likeReach,
        like.seq + likeReach,
        like.seq,
      );
      only('runs.tool = ? AND runs.digest = ?', like.tool, like.digest);
      only(
        'runs.realm IS ? AND runs.principal IS ?',
        like.principal?.realm ?? null,
        like.principal?.id ?? null,
      );
    }
    const where = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`;
    return this.#all<RunRow>(`${selectRun} ${where} ORDER BY runs.seq DESC LIMIT ?`, ...values, limit).map(
      toRun,
    );
  }

  readonly workers: WorkerStore = {
    join: (worker, leaseMs, now = new Date()) =>
      this.#write(() => {
        this.#run(
          'INSERT OR REPLACE INTO workers VALUES (?, ?, ?, ?)',
          worker.id,
          worker.group,
          JSON.stringify(worker.workflows),
          now.getTime() + leaseMs,
        );
      }),
    renew: (id, leaseMs, now = new Date()) =>
      this.#write(
        () => this.#run('UPDATE workers SET lease_until = ? WHERE id = ?', now.getTime() + leaseMs, id) === 1,
        true,
      ),
    releaseUnknown: (id, known) =>
      this.#write(() =>
        this.#requeue(
          'worker = ? AND token NOT IN (SELECT value FROM json_each(?))',
          id,
          JSON.stringify(known),
        ),
      ),
    leave: (id) =>
      this.#write(() => {
        this.#run('DELETE FROM workers WHERE id = ?', id);
        this.#requeue('worker = ?', id);
      }),
    recover: (now = new Date()) =>
      this.#write(() => {
        const dead = this.#all<{ id: string }>(
          'DELETE FROM workers WHERE lease_until <= ? RETURNING id',
          now.getTime(),
        );
        return dead.reduce((count, { id }) => count + this.#requeue('worker = ?', id), 0);
      }),
    live: (now = new Date()) =>
      this.#read(() =>
        this.#all<{ group: string; workflows: string }>(
          'SELECT "group", workflows FROM workers WHERE lease_until > ?',
          now.getTime(),
        ).map(({ group, workflows }): LiveWorker => ({
          group,
          workflows: JSON.parse(workflows) as string[],
        })),
      ),
  };

  #isLive(worker: string, now: Date): boolean {
    return (
      this.#one('SELECT 1 FROM workers WHERE id = ? AND lease_until > ?', worker, now.getTime()) !== undefined
    );
  }

  readonly sessions: SessionStore = {
    open: (session, { max, idleMs, maxPerPrincipal }, now = new Date()) =>
      this.#write(() => {
        const { realm = null, id: principal = null } = session.principal ?? {};
        this.#run('DELETE FROM sessions WHERE last_used <= ?', now.getTime() - idleMs);
        const { open, own } = this.#one<{ open: number; own: number }>(
          'SELECT count(*) AS open, count(*) FILTER (WHERE realm IS ? AND principal IS ?) AS own FROM sessions',
          realm,
          principal,
        )!;
        if (open >= max) return 'full';
        if (maxPerPrincipal !== undefined && own >= maxPerPrincipal) return 'principal-full';
        this.#run(
          'INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)',
          session.id,
          realm,
          principal,
          session.protocolVersion,
          JSON.stringify(session.client),
          now.getTime(),
        );
        return 'opened';
      }),
    get: (id, idleMs, now = new Date()) =>
      this.#read(() => {
        const row = this.#one<{
          realm: string | null;
          principal: string | null;
          version: string;
          client: string;
        }>('SELECT * FROM sessions WHERE id = ? AND last_used > ?', id, now.getTime() - idleMs);
        return (
          row &&
          ({
            id,
            principal: toPrincipal(row),
            protocolVersion: row.version,
            client: JSON.parse(row.client) as unknown,
          } satisfies Session)
        );
      }),
    touch: (ids, now = new Date()) =>
      this.#write(() => {
        for (const id of ids) this.#run('UPDATE sessions SET last_used = ? WHERE id = ?', now.getTime(), id);
      }, true),
    close: (id) =>
      this.#write(() => {
        if (this.#run('DELETE FROM sessions WHERE id = ?', id) > 0)
          this.#unsent.push({ kind: 'session', id });
      }),
    tell: async (id, message) => {
      this.#signals.emit({ kind: 'told', id, message });
      if (this.kind === 'memory') return;
      await this.#write(() => {
        this.#run('INSERT INTO told (origin, session, message) VALUES (?, ?, ?)', this.#origin, id, message);
        this.#run('DELETE FROM told WHERE n <= (SELECT max(n) FROM told) - ?', toldKept);
      }, true);
    },
    count: (idleMs, now = new Date()) =>
      this.#read(
        () =>
          this.#one<{ open: number }>(
            'SELECT count(*) AS open FROM sessions WHERE last_used > ?',
            now.getTime() - idleMs,
          )!.open,
      ),
  };

  readonly tools: ToolStore = {
    register: (group, definitions) =>
      this.#write(() => {
        const kept = this.#all<{ definition: string }>(
          'SELECT definition FROM tools WHERE "group" = ?',
          group,
        );
        if (sameTools(kept, definitions)) return;
        this.#run('UPDATE catalogue SET revision = revision + 1');
        this.#run('DELETE FROM tools WHERE "group" = ?', group);
        for (const definition of definitions) {
          this.#run(
            'INSERT INTO tools SELECT ?, ?, revision, ? FROM catalogue',
            group,
            definition.name,
            JSON.stringify(definition),
          );
        }
        this.#unsent.push({ kind: 'tools' });
      }),
    list: (known) =>
      this.#read((): Catalogue | undefined => {
        const { revision } = this.#one<{ revision: number }>('SELECT revision FROM catalogue')!;
        if (revision === known) return undefined;
        return toCatalogue(
          revision,
          this.#all('SELECT name, definition FROM tools ORDER BY revision, name'),
          this.#all('SELECT key, catalogue FROM servers ORDER BY key'),
        );
      }),
  };

  readonly servers: ServerStore = {
    publish: (catalogue, { owner, lease }, now = new Date()) =>
      this.#write(() => {
        const isHeld = this.#one(
          'SELECT 1 FROM owners WHERE server = ? AND owner = ? AND lease_until > ?',
          lease,
          owner,
          now.getTime(),
        );
        if (isHeld === undefined) return false;
        const changed = this.#run(
          `INSERT INTO servers (key, catalogue) VALUES (?, ?)
           ON CONFLICT (key) DO UPDATE SET catalogue = excluded.catalogue WHERE catalogue <> excluded.catalogue`,
          catalogue.key,
          JSON.stringify(catalogue),
        );
        if (changed === 0) return true;
        this.#run('UPDATE catalogue SET revision = revision + 1');
        this.#unsent.push({ kind: 'tools' });
        return true;
      }),
    own: (owner, servers, leaseMs, now = new Date()) =>
      this.#write(
        () =>
          this.#all<{ server: string }>(
            `INSERT INTO owners (server, owner, address, lease_until)
             SELECT DISTINCT value, ?1, ?2, ?3 FROM json_each(?4) WHERE true
             ON CONFLICT (server) DO UPDATE
             SET owner = excluded.owner, address = excluded.address, lease_until = excluded.lease_until
             WHERE owner = excluded.owner OR lease_until <= ?5
             RETURNING server`,
            owner.id,
            owner.address,
            now.getTime() + leaseMs,
            JSON.stringify(servers),
            now.getTime(),
          ).map(({ server }) => server),
        true,
      ),
    disown: (owner, servers) =>
      this.#write(() => {
        this.#run(
          'DELETE FROM owners WHERE owner = ? AND server IN (SELECT value FROM json_each(?))',
          owner,
          JSON.stringify(servers),
        );
      }, true),
    owners: (now = new Date()) =>
      this.#read(
        () =>
          new Map(
            this.#all<ServerOwner & { server: string }>(
              'SELECT server, owner AS id, address FROM owners WHERE lease_until > ?',
              now.getTime(),
            ).map(({ server, id, address }) => [server, { id, address }]),
          ),
      ),
  };
}

/** More messages than these are told between two looks of a process only when it is stuck. */
const toldKept = 1_000;
/** How far `like` looks to either side, in submissions. */
const likeReach = 1_000;

/** See `sqliteMigrations`. */
const leastUnit = 1_000;

function migrate(db: DatabaseSync): void {
  db.exec('BEGIN IMMEDIATE');
  const kept = Number(db.prepare('PRAGMA user_version').get()!['user_version']);
  const found = { version: kept % leastUnit, least: Math.floor(kept / leastUnit) };
  const refusal = refusalOf(found, sqliteMigrations.length);
  if (refusal !== undefined) throw new Error(refusal);
  for (const migration of sqliteMigrations.slice(found.version)) db.exec(migration);
  const { version, least } = schemaAfter(sqliteMigrations);
  if (found.version < version) db.exec(`PRAGMA user_version = ${least * leastUnit + version}`);
  db.exec('COMMIT');
}

const shortPause = (): Promise<void> => sleep(0.2 + Math.random() * 2);

/** SQLITE_BUSY and SQLITE_LOCKED, with their extended codes. */
function isBusy(error: unknown): boolean {
  const code = (error as { errcode?: number }).errcode;
  return code !== undefined && ((code & 0xff) === 5 || (code & 0xff) === 6);
}

/** SQLITE_ERROR, TOOBIG, CONSTRAINT, MISMATCH and RANGE: trying again does not help. */
function isRefused(error: unknown): boolean {
  const code = (error as { errcode?: number }).errcode;
  return code !== undefined && [1, 18, 19, 20, 25].includes(code & 0xff);
}

function unavailable(thrown: unknown): Error {
  if (thrown instanceof RunError) return thrown;
  const cause = ensureError(thrown);
  if (isRefused(thrown))
    return new RunError('internal', `the SQLite store refused a value: ${cause.message}`, { cause });
  return new RunError('store-unavailable', `the SQLite store did not do it: ${cause.message}`, { cause });
}

/**
 * The head of the queue is counted; where it is longer, the rest is told from short stretches of it. As one
 * process serves everybody from this file, a count of 100,000 would hold up every call of it.
 */
const queueStatement = `
  WITH head AS MATERIALIZED (
    SELECT seq, queued_at FROM queue WHERE token IS NULL ORDER BY seq LIMIT ${queueHead}
  ), edge AS MATERIALIZED (
    SELECT count(*) AS counted, min(queued_at) AS oldest, max(seq) AS last FROM head
  ), ends AS MATERIALIZED (
    SELECT last, (SELECT max(seq) FROM queue) AS newest FROM edge WHERE counted = ${queueHead}
  ), numbers (i) AS (
    SELECT 0 UNION ALL SELECT i + 1 FROM numbers WHERE i < ${stretchCount - 1}
  ), stretches AS MATERIALIZED (
    SELECT last + (newest - last) * i / ${stretchCount} AS after,
           min(last + (newest - last) * i / ${stretchCount} + ${stretchLength},
               last + (newest - last) * (i + 1) / ${stretchCount}) AS until
    FROM ends CROSS JOIN numbers
  )
  SELECT counted, oldest, (SELECT newest - last FROM ends) AS behind,
         (SELECT sum(until - after) FROM stretches) AS looked,
         (SELECT sum((SELECT count(*) FROM queue WHERE seq > after AND seq <= until AND token IS NULL))
          FROM stretches) AS found
  FROM edge`;
