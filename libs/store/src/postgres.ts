import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type CancelEnds,
  RunError,
  isFinished,
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
import { ClaimFloors } from './claim-floors.js';
import { callerKey, headSize, mostCallers, shareOf, withoutClaimed } from './fair-share.js';
import type { ListenerLog, Listening } from './listening.js';
import { Database, type Query } from './postgres-connection.js';
import { PostgresHosts } from './postgres-hosts.js';
import { channel, listenToPostgres } from './postgres-listen.js';
import { prepareDatabase } from './postgres-schema.js';
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
import { readHint, sayUnread, Signals } from './signals.js';
import { WriteBatches, type Dispatched, type Finish, type Report, type Submit } from './write-batches.js';

export interface PostgresOptions {
  /** `postgres://…`; may lead through PgBouncer in transaction mode, and name several servers: see `PostgresHosts`. */
  readonly url: string;
  /** Where to LISTEN: a URL that leads to Postgres directly, `url` when omitted; `off`: poll only. */
  readonly listenUrl?: string | 'off';
  readonly log?: ListenerLog;
  /** Connections besides the one for LISTEN. */
  readonly poolSize?: number;
  /** How often listeners are told to look at everything while notifications are not heard, in milliseconds. */
  readonly pollMs?: number;
  /** How long a statement may take before its connection is given up, in milliseconds. */
  readonly statementMs?: number;
}

/**
 * Opens the run store in schema `holdfast` of a Postgres database, migrating it when needed.
 *
 * Submits, ends, reports and dispatch marks of this process gather into one statement each while an earlier one
 * is under way, and send one notification together.
 *
 * @throws RunError `store-unfit` with the remedy when trying again does not help,
 *   `store-unavailable` when the database cannot be reached now
 */
export async function openPostgres({
  url,
  listenUrl = url,
  log = silent,
  poolSize = 10,
  pollMs = 500,
  statementMs = 10_000,
}: PostgresOptions): Promise<Store> {
  const hosts = new PostgresHosts(url);
  const listenHosts = listenUrl === 'off' ? undefined : new PostgresHosts(listenUrl);
  await prepareDatabase(hosts, (message) => log.warn({ store: hosts.name }, message));
  const store = new PostgresStore(new Database(hosts, { poolSize, statementMs }), pollMs, log);
  if (listenHosts !== undefined) await store.listen(listenHosts, log);
  return store;
}

const silent: ListenerLog = { info: () => {}, warn: () => {} };

const ms = (time: string): string => `(extract(epoch FROM ${time}) * 1000)::bigint`;

const runColumns = `runs.seq, runs.id, runs.workflow, runs.tool, runs.tool_class, runs.realm, runs.principal,
  runs.arguments, runs.digest, runs.definition, runs.upstream, runs.trace, ${ms('runs.submitted_at')} AS submitted_at, runs.attempt,
  ${ms('runs.started_at')} AS started_at, ${ms('runs.finished_at')} AS finished_at,
  runs.state, runs.result, runs.error`;

const queueColumns = `queue.attempt AS queue_attempt, ${ms('queue.claimed_at')} AS claimed_at`;

/**
 * Every look into `runs` and `queue` by key is written so that it can only be a look-up of each
 * key: LATERAL with OFFSET 0, or `= ANY (ARRAY(...))`. How long the queue is changes faster than
 * the planner's idea of it, and a plain join was planned as a walk through its whole index: with
 * 1,000,000 ended runs behind it a claim of ten read 20,473 pages instead of 88.
 */
const runOf = (seq: string): string =>
  `(SELECT * FROM holdfast.runs WHERE runs.seq = ${seq} OFFSET 0) AS runs`;
const queueOf = (seq: string): string =>
  `(SELECT attempt, claimed_at FROM holdfast.queue WHERE queue.seq = ${seq} OFFSET 0) AS queue`;

const selectRun = `SELECT ${runColumns}, ${queueColumns}
  FROM holdfast.runs LEFT JOIN LATERAL ${queueOf('runs.seq')} ON true`;

class PostgresStore implements Store {
  readonly kind = 'postgres';
  readonly #db: Database;
  readonly #signals = new Signals();
  readonly #floors = new ClaimFloors();
  /** Marks our own notifications, whose signals were given when their statement was done. */
  readonly #origin = randomUUID().slice(0, 8);
  readonly #sayUnread: () => void;
  readonly #poll: NodeJS.Timeout;
  readonly #batches: WriteBatches;
  #listener: Listening | undefined;
  #closed: Promise<void> | undefined;

  constructor(db: Database, pollMs: number, log: ListenerLog) {
    this.#db = db;
    this.#sayUnread = sayUnread(log);
    this.#batches = new WriteBatches({
      submit: (items) => this.#submitAll(items),
      finish: (items) => this.#finishAll(items),
      report: (items) => this.#reportAll(items),
      dispatch: (items) => this.#dispatchAll(items),
      isItemsFault: (error) => (error as RunError).code === 'internal',
    });
    this.#poll = setInterval(() => {
      if (!this.hearing) this.#emit({ kind: 'everything' });
    }, pollMs).unref();
  }

  async listen(hosts: PostgresHosts, log: ListenerLog): Promise<void> {
    this.#listener = listenToPostgres({
      hosts,
      log,
      notify: async (payload) => {
        await this.#db.query(`SELECT pg_notify('${channel}', $1)`, [payload]);
      },
      onPayload: (payload) => this.#hear(payload),
      onHearing: () => this.#emit({ kind: 'everything' }),
    });
    await this.#listener.start();
  }

  get hearing(): boolean {
    return this.#listener?.hearing ?? false;
  }

  subscribe(listener: (signal: Signal) => void): () => void {
    return this.#signals.subscribe(listener);
  }

  /** The statements that write say what they send. */
  #hear(payload: string): void {
    const hint = readHint(payload);
    if (hint === undefined) return this.#sayUnread();
    const { origin, signal, lowest } = hint;
    if (origin === this.#origin) return;
    if (signal.kind === 'queued') this.#emitQueued(lowest);
    else if (signal.kind === 'cancelled') this.#emitCancelled(signal.seqs);
    else this.#emit(signal);
  }

  #emit(signal: Signal): void {
    if (signal.kind === 'everything') this.#floors.lower(0);
    this.#signals.emit(signal);
  }

  /** @param lowest  the smallest `seq` that became due */
  #emitQueued(lowest: number): void {
    this.#floors.lower(lowest);
    this.#emit({ kind: 'queued' });
  }

  async ping(): Promise<void> {
    await this.#db.query('SELECT 1');
  }

  close(): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  async #close(): Promise<void> {
    clearInterval(this.#poll);
    await this.#batches.close();
    await this.#listener?.close();
    await this.#db.close();
  }

  async secret(name: string, make: () => string): Promise<string> {
    await this.#db.query(
      'INSERT INTO holdfast.secrets (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING',
      [name, make()],
    );
    // In a statement of its own, which sees what another process has just committed.
    const [row] = await this.#db.query<{ value: string }>(
      'SELECT value FROM holdfast.secrets WHERE name = $1',
      [name],
    );
    return row!.value;
  }

  readonly runs: RunStore = {
    submit: (run, { repeat } = {}, now) =>
      repeat === undefined ? this.#batches.submit(run, undefined, now) : this.#submitRepeat(run, repeat, now),
    get: async (id) => {
      const [row] = await this.#db.prepared<RunRow>(`${selectRun} WHERE runs.id = $1`, [id]);
      return row && toRun(row);
    },
    news: (watched) => this.#news(watched),
    claim: (request, now) => this.#claim(request, now),
    report: (claim, events, now) => this.#batches.report(claim, events, now),
    finish: (claim, end, now) => this.#batches.finish(claim, end, now),
    cancel: (id, ends, now) => this.#cancel(id, ends, now),
    dispatch: (claim) => this.#batches.dispatch(claim),
    revoke: (claim) => this.#revoke(claim),
    release: async (claims) => {
      const back = await this.#requeue(
        this.#db.query,
        'seq = ANY ($2) AND (seq, token) IN (SELECT * FROM unnest($2::bigint[], $3::text[]))',
        claims.map(({ seq }) => seq),
        claims.map(({ token }) => token),
      );
      if (back.count > 0) this.#emitQueued(back.lowest);
    },
    events: async (seq) => {
      const rows = await this.#db.query<{ n: number; at: number; progress: string }>(
        `SELECT n, ${ms('at')} AS at, progress FROM holdfast.events WHERE seq = $1 ORDER BY n`,
        [seq],
      );
      return rows.map(({ n, at, progress }) => toEvent([n, at, progress]));
    },
    list: (filter) => this.#list(filter),
    queue: async () => {
      const [row] = await this.#db.prepared<QueueSample & { oldest: number | null }>(queueStatement);
      const { oldest } = row!;
      return { queued: queuedOf(row!), oldest: oldest === null ? undefined : new Date(oldest) };
    },
    removeFinished: (before, limit, { rememberUntil } = {}, now) =>
      this.#removeFinished(before, limit, rememberUntil, now),
  };

  /** Losers of a race are read in a following statement: the winner's row may be newer than this one's snapshot. */
  async #submitAll(items: readonly Submit[]): Promise<Submission[]> {
    const submissions: (Submission | undefined)[] = items.map(() => undefined);
    let left = items.map((_, i) => i);
    // More than once only for runs that were removed between the two statements.
    for (let tries = 0; left.length > 0 && tries < 5; tries++) {
      const tried = left.map((i) => items[i]!);
      const made = await this.#insert(this.#db.prepared, tried);
      for (const [i, run] of made) submissions[left[i]!] = { kind: 'fresh', run };
      if (made.size > 0) this.#emitQueued(Math.min(...[...made.values()].map(({ seq }) => seq)));
      left = left.filter((i) => submissions[i] === undefined);
      if (left.length === 0) break;
      const found = await this.#findSubmitted(left.map((i) => items[i]!));
      for (const i of left) submissions[i] = found.get(items[i]!.run.id);
      left = left.filter((i) => submissions[i] === undefined);
    }
    return submissions.map((submission) => {
      if (submission === undefined)
        throw new RunError('store-unavailable', 'a run was removed again and again while it was submitted');
      return submission;
    });
  }

  /**
   * Keeps and queues those of `items` that are new, by their position. Rows go in by the order
   * of their ids, so that two processes that submit the same ones wait instead of deadlock.
   */
  async #insert(query: Query, items: readonly Submit[]): Promise<Map<number, Run>> {
    const rows = await query<{ seq: number; id: string; at: number }>(
      `WITH item AS MATERIALIZED (
         SELECT u.*, nextval('holdfast.runs_seq_seq') AS seq, coalesce(u.given, now()) AS at
         FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
                     $8::text[], $9::text[], $10::text[], $11::text[], $12::timestamptz[], $14::text[])
           AS u (id, workflow, tool, tool_class, realm, principal, arguments, digest, definition, upstream, trace, given, caller)
         WHERE NOT EXISTS (
           SELECT FROM holdfast.tombstones WHERE id = u.id AND until > coalesce(u.given, now()) OFFSET 0)
       ), made AS (
         INSERT INTO holdfast.runs
           (seq, id, workflow, tool, tool_class, realm, principal, arguments, digest, definition, upstream, trace, submitted_at)
         SELECT seq, id, workflow, tool, tool_class, realm, principal, arguments, digest, definition, upstream, trace, at
         FROM item ORDER BY id COLLATE "C", seq
         ON CONFLICT (id) DO NOTHING
         RETURNING seq, id, workflow, definition, submitted_at
       ), queued AS (
         INSERT INTO holdfast.queue (seq, workflow, definition, queued_at, caller)
         SELECT made.seq, made.workflow, made.definition, submitted_at, caller
         FROM made JOIN item USING (seq) ORDER BY made.seq
       )
       SELECT seq, id, ${ms('submitted_at')} AS at,
              (SELECT pg_notify('${channel}', $13 || ' queued ' || min(seq)) FROM made)
       FROM made`,
      [
        items.map(({ run }) => run.id),
        items.map(({ run }) => run.workflow),
        items.map(({ run }) => run.tool),
        items.map(({ run }) => run.toolClass),
        items.map(({ run }) => run.principal?.realm),
        items.map(({ run }) => run.principal?.id),
        items.map(({ run }) => run.arguments),
        items.map(({ run }) => run.digest),
        items.map(({ run }) => run.definition),
        items.map(({ upstream }) => upstream),
        items.map(({ run }) => traceText(run)),
        items.map(({ now }) => now),
        this.#origin,
        items.map(({ run }) => callerKey(run.principal)),
      ],
    );
    return new Map(
      rows.map(({ seq, id, at }) => {
        // Of two with one id the first is kept.
        const i = items.findIndex(({ run }) => run.id === id);
        const run: Run = { ...items[i]!.run, state: 'queued', attempt: 0, seq, submittedAt: new Date(at) };
        return [i, run];
      }),
    );
  }

  async #findSubmitted(items: readonly Submit[]): Promise<Map<string, Submission>> {
    const rows = await this.#db.prepared<RunRow>(`${selectRun} WHERE runs.id = ANY ($1)`, [
      items.map(({ run }) => run.id),
    ]);
    const found = new Map<string, Submission>(
      rows.map((row) => [row.id, { kind: 'attached', run: toRun(row) }]),
    );
    const missing = items.filter(({ run }) => !found.has(run.id));
    if (missing.length === 0) return found;
    const remembered = await this.#db.query<{ id: string }>(
      `SELECT id FROM holdfast.tombstones JOIN unnest($1::text[], $2::timestamptz[]) AS u (id, given) USING (id)
       WHERE id = ANY ($1) AND until > coalesce(u.given, now())`,
      [missing.map(({ run }) => run.id), missing.map(({ now }) => now)],
    );
    for (const { id } of remembered) found.set(id, { kind: 'expired' });
    return found;
  }

  async #submitRepeat(run: NewRun, repeat: Repeat, now: Date | undefined): Promise<Submission> {
    const upstream = upstreamText(run);
    const submission = await this.#db.transaction(async (query): Promise<Submission | undefined> => {
      await query(`SELECT pg_advisory_xact_lock(hashtextextended('holdfast repeat ' || $1, 0))`, [
        repeat.key,
      ]);
      const [earlier] = await query<RunRow & { is_recent: boolean }>(
        `SELECT ${runColumns}, ${queueColumns},
                runs.submitted_at > coalesce($2::timestamptz, now()) - $3 * interval '1 millisecond' AS is_recent
         FROM holdfast.repeats CROSS JOIN LATERAL ${runOf('repeats.seq')} LEFT JOIN LATERAL ${queueOf('repeats.seq')} ON true
         WHERE repeats.key = $1`,
        [repeat.key, now, repeat.windowMs],
      );
      if (earlier !== undefined) {
        const kept = toRun(earlier);
        if (!isFinished(kept) || earlier.is_recent) return { kind: 'attached', run: kept };
      }
      const made = (await this.#insert(query, [{ run, upstream, repeat, now }])).get(0);
      if (made === undefined) return undefined;
      await query(
        `INSERT INTO holdfast.repeats (key, seq) VALUES ($1, $2)
         ON CONFLICT (key) DO UPDATE SET seq = excluded.seq`,
        [repeat.key, made.seq],
      );
      return { kind: 'fresh', run: made };
    });
    // The id itself was there already, under another key or under none.
    if (submission === undefined) return this.#batches.submit(run, undefined, now);
    if (submission.kind === 'fresh') this.#emitQueued(submission.run.seq);
    return submission;
  }

  /**
   * Looks only behind the floor of this set of workflows, so that dead rows of ended runs are
   * not read again and again. The floor is where the sequence stood: what is below it and not
   * yet visible will be notified when it commits.
   */
  async #claim(request: ClaimRequest, now: Date | undefined, tries = 1): Promise<Claim[]> {
    const { worker, definitions, definitionGraceMs, limit, isDurable, sweep } = request;
    const { workflows, pools, free, held, share } = shareOf(request);
    const token = randomUUID();
    let claims: Claim[];
    let isShort: boolean;
    const look = this.#floors.look(`${workflows.join('\n')}\n\n${definitions.join('\n')}`);
    try {
      const rows = await this.#db.prepared<ClaimRow>(claimStatement, [
        sweep || !this.hearing ? 0 : look.from,
        worker,
        token,
        workflows,
        definitions,
        definitionGraceMs,
        limit,
        now,
        isDurable,
        pools,
        free,
        held.map(({ pool }) => pool),
        held.map(({ caller }) => caller),
        held.map(({ count }) => count),
        share,
      ]);
      const claimed = rows.filter(({ id }) => id !== null);
      const { last, left, chosen, is_live } = rows[0]!;
      look.done(!is_live ? 0 : left === null ? last : left - 1);
      claims = claimed.map((row) => ({
        seq: row.seq,
        token,
        run: toRunning(row),
        isDispatched: row.is_dispatched,
      }));
      isShort = claims.length < Math.min(chosen, limit);
    } catch (error) {
      look.failed();
      throw error;
    }
    if (!isShort) return claims;
    // Claims of others held what this one chose. They are done in a moment, and then others are the oldest.
    if (tries === maxClaimTries) {
      this.#emit({ kind: 'queued' });
      return claims;
    }
    await sleep(Math.random() * 2 ** tries);
    return [...claims, ...(await this.#claim(withoutClaimed(request, claims), now, tries + 1))];
  }

  async #reportAll(items: readonly Report[]): Promise<boolean[]> {
    const sorted = bySeq(items);
    const events = sorted.flatMap(({ i, claim: { seq }, events, now }) =>
      events.map(({ n, ...progress }) => ({ i, seq, n, now, progress: JSON.stringify(progress) })),
    );
    const rows = await this.#db.prepared<{ i: number }>(
      // The lock makes an end wait for the events before it, and refuses those after it.
      `WITH held AS MATERIALIZED (
         SELECT u.i, queue.seq
         FROM unnest($1::integer[], $2::bigint[], $3::text[]) AS u (i, seq, token)
         CROSS JOIN LATERAL (
           SELECT seq FROM holdfast.queue WHERE queue.seq = u.seq AND queue.token = u.token FOR SHARE
         ) AS queue
       ), kept AS (
         INSERT INTO holdfast.events (seq, n, at, progress)
         SELECT e.seq, e.n, coalesce(e.given, now()), e.progress
         FROM unnest($4::integer[], $5::bigint[], $6::bigint[], $7::timestamptz[], $8::text[])
           AS e (i, seq, n, given, progress)
         WHERE e.i = ANY (ARRAY(SELECT i FROM held))
         ON CONFLICT DO NOTHING
       )
       SELECT i, (SELECT pg_notify('${channel}', $9 || ' runs ' || string_agg(DISTINCT seq::text, ',')) FROM held)
       FROM held`,
      [
        sorted.map(({ i }) => i),
        sorted.map(({ claim }) => claim.seq),
        sorted.map(({ claim }) => claim.token),
        events.map(({ i }) => i),
        events.map(({ seq }) => seq),
        events.map(({ n }) => n),
        events.map(({ now }) => now),
        events.map(({ progress }) => progress),
        this.#origin,
      ],
    );
    return this.#told(items, rows);
  }

  async #finishAll(items: readonly Finish[]): Promise<boolean[]> {
    const sorted = firstOfEach(bySeq(items));
    const rows = await this.#db.prepared<{ i: number }>(
      `WITH held AS MATERIALIZED (
         SELECT u.*, queue.attempt, queue.claimed_at
         FROM unnest($1::integer[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[])
           AS u (i, seq, token, state, result, error, given)
         CROSS JOIN LATERAL (
           SELECT attempt, claimed_at FROM holdfast.queue
           WHERE queue.seq = u.seq AND queue.token = u.token FOR UPDATE
         ) AS queue
       ), gone AS (
         DELETE FROM holdfast.queue WHERE seq = ANY (ARRAY(SELECT seq FROM held))
       ), ended AS (
         UPDATE holdfast.runs
         SET state = held.state, result = held.result, error = held.error, attempt = held.attempt,
             started_at = held.claimed_at, finished_at = coalesce(held.given, now())
         FROM held
         WHERE runs.seq = held.seq AND runs.seq = ANY (ARRAY(SELECT seq FROM held))
       )
       SELECT i, (SELECT pg_notify('${channel}', $8 || ' runs ' || string_agg(seq::text, ',')) FROM held)
       FROM held`,
      [
        sorted.map(({ i }) => i),
        sorted.map(({ claim }) => claim.seq),
        sorted.map(({ claim }) => claim.token),
        sorted.map(({ end }) => end.state),
        sorted.map(({ end }) => (end.state === 'succeeded' ? end.result : undefined)),
        sorted.map(({ end }) => (end.state === 'succeeded' ? undefined : JSON.stringify(end.error))),
        sorted.map(({ now }) => now),
        this.#origin,
      ],
    );
    return this.#told(items, rows);
  }

  async #dispatchAll(claims: readonly ClaimKey[]): Promise<Dispatched[]> {
    const sorted = bySeq(claims.map((claim) => ({ claim })));
    const rows = await this.#db.prepared<{ i: number; was_dispatched: boolean }>(
      `WITH held AS MATERIALIZED (
         SELECT u.i, queue.seq, queue.is_dispatched
         FROM unnest($1::integer[], $2::bigint[], $3::text[]) AS u (i, seq, token)
         CROSS JOIN LATERAL (
           SELECT seq, is_dispatched FROM holdfast.queue
           WHERE queue.seq = u.seq AND queue.token = u.token FOR UPDATE
         ) AS queue
       ), marked AS (
         UPDATE holdfast.queue SET is_dispatched = true
         WHERE seq = ANY (ARRAY(SELECT seq FROM held WHERE NOT is_dispatched))
       )
       SELECT i, is_dispatched AS was_dispatched FROM held`,
      [
        sorted.map(({ i }) => i),
        sorted.map(({ claim }) => claim.seq),
        sorted.map(({ claim }) => claim.token),
      ],
    );
    const found = new Map(rows.map((row) => [row.i, row]));
    const winners = new Set(firstOfEach(sorted).map(({ i }) => i));
    return claims.map((_, i) => {
      const row = found.get(i);
      if (row === undefined) return 'stale';
      return row.was_dispatched || !winners.has(i) ? 'lost' : 'won';
    });
  }

  async #revoke({ seq, token }: ClaimKey): ReturnType<RunStore['revoke']> {
    const fresh = randomUUID();
    const [held] = await this.#db.query<{ is_dispatched: boolean }>(
      `WITH held AS MATERIALIZED (
         SELECT seq, is_dispatched FROM holdfast.queue WHERE seq = $1 AND token = $2 FOR UPDATE
       ), revoked AS (
         UPDATE holdfast.queue SET token = $3
         WHERE seq = ANY (ARRAY(SELECT seq FROM held WHERE NOT is_dispatched))
       )
       SELECT is_dispatched FROM held`,
      [seq, token, fresh],
    );
    if (held === undefined) return 'stale';
    return held.is_dispatched ? 'dispatched' : { token: fresh };
  }

  /** Tells listeners of the items that were done, and the callers which those are. */
  #told(items: readonly { claim: ClaimKey }[], done: readonly { i: number }[]): boolean[] {
    const positions = new Set(done.map(({ i }) => i));
    if (positions.size > 0)
      this.#emit({ kind: 'runs', seqs: [...new Set([...positions].map((i) => items[i]!.claim.seq))] });
    return items.map((_, i) => positions.has(i));
  }

  async #cancel(id: RunId, ends: CancelEnds, now: Date | undefined): Promise<Run | undefined> {
    const [cancelled] = await this.#db.query<{ seq: number }>(
      `WITH held AS (
         DELETE FROM holdfast.queue WHERE seq = (SELECT seq FROM holdfast.runs WHERE id = $1)
         RETURNING queue.seq, queue.attempt, queue.claimed_at, queue.is_dispatched
       ), ended AS (
         UPDATE holdfast.runs
         SET state = 'cancelled', error = CASE WHEN held.is_dispatched THEN $6 WHEN held.claimed_at IS NULL THEN $2 ELSE $3 END,
             attempt = held.attempt, started_at = held.claimed_at, finished_at = coalesce($4::timestamptz, now())
         FROM held WHERE runs.id = $1
       )
       SELECT seq, pg_notify('${channel}', $5 || ' cancelled ' || seq) FROM held`,
      [
        id,
        JSON.stringify(ends.queued),
        JSON.stringify(ends.running),
        now,
        this.#origin,
        JSON.stringify(ends.dispatched),
      ],
    );
    if (cancelled !== undefined) this.#emitCancelled([cancelled.seq]);
    return this.runs.get(id);
  }

  #emitCancelled(seqs: readonly number[]): void {
    this.#emit({ kind: 'cancelled', seqs });
    this.#emit({ kind: 'runs', seqs });
  }

  /** `$1` is the origin; `condition` uses `values` from `$2` on. The caller emits, once it is committed. */
  async #requeue(query: Query, condition: string, ...values: unknown[]): Promise<Requeued> {
    const [back] = await query<Requeued>(
      `WITH held AS (
         SELECT seq FROM holdfast.queue WHERE ${condition} ORDER BY seq FOR UPDATE
       ), back AS (
         UPDATE holdfast.queue SET worker = NULL, token = NULL, claimed_at = NULL
         WHERE seq = ANY (ARRAY(SELECT seq FROM held))
         RETURNING seq
       )
       SELECT count(*) AS count, min(seq) AS lowest, pg_notify('${channel}', $1 || ' queued ' || min(seq))
       FROM back HAVING count(*) > 0`,
      [this.#origin, ...values],
    );
    return back ?? { count: 0, lowest: 0 };
  }

  async #news(watched: readonly Watched[]): Promise<News[]> {
    if (watched.length === 0) return [];
    // One statement, so that what is told as ended is told with all that it said.
    const rows = await this.#db.prepared<(RunRow | Nulls<RunRow>) & { watched: number; said: string | null }>(
      `SELECT u.seq AS watched, said.events AS said, ${runColumns}, NULL AS queue_attempt, NULL AS claimed_at
       FROM unnest($1::bigint[], $2::bigint[]) AS u (seq, after)
       LEFT JOIN LATERAL ${runOf('u.seq')} ON runs.state <> 'open'
       CROSS JOIN LATERAL (
         SELECT json_agg(json_build_array(n, ${ms('at')}, progress) ORDER BY n)::text AS events
         FROM holdfast.events WHERE events.seq = u.seq AND n > u.after
       ) AS said
       WHERE runs.seq IS NOT NULL OR said.events IS NOT NULL`,
      [watched.map(({ seq }) => seq), watched.map(({ after }) => after)],
    );
    return rows.map(({ watched: seq, said, ...row }) => ({
      seq,
      events: said === null ? [] : (JSON.parse(said) as EventRow[]).map(toEvent),
      ...(row.id !== null && { ended: toFinished(row) }),
    }));
  }

  async #list({ state, tool, principal, like, before, limit }: RunFilter): Promise<Run[]> {
    const conditions: string[] = [];
    const values: unknown[] = [];
    const only = (condition: string, ...more: unknown[]): void => {
      conditions.push(condition.replace(/\?/g, () => `$${values.push(more.shift())}`));
    };
    // Open runs are found by way of the queue, or few of them among many ended ones would be a long search.
    const isOpen = state === 'queued' || state === 'running';
    const seq = isOpen ? 'queue.seq' : 'runs.seq';
    if (state === 'queued') only('queue.token IS NULL');
    else if (state === 'running') only('queue.token IS NOT NULL');
    else if (state !== undefined) only('runs.state = ?', state);
    if (tool !== undefined) only('runs.tool = ?', tool);
    if (principal !== undefined) only('runs.principal = ?', principal);
    if (before !== undefined) only(`${seq} < ?`, before);
    if (like !== undefined) {
      only(`${seq} BETWEEN ? AND ? AND ${seq} <> ?`, like.seq - likeReach, like.seq + likeReach, like.seq);
      only('runs.tool = ? AND runs.digest = ?', like.tool, like.digest);
      const { realm = null, id = null } = like.principal ?? {};
      only('runs.realm IS NOT DISTINCT FROM ? AND runs.principal IS NOT DISTINCT FROM ?', realm, id);
    }
    const rows = await this.#db.query<RunRow>(
      `SELECT ${runColumns}, ${queueColumns}
       FROM ${
         isOpen
           ? `holdfast.queue CROSS JOIN LATERAL ${runOf('queue.seq')}`
           : `holdfast.runs LEFT JOIN LATERAL ${queueOf('runs.seq')} ON true`
       }
       ${conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`}
       ORDER BY ${seq} DESC LIMIT $${values.push(limit)}`,
      values,
    );
    return rows.map(toRun);
  }

  /**
   * Walks from the oldest run on, page by page, and stops at a page of runs that were all
   * submitted after `before`: nothing behind it can have ended earlier. So neither an index on
   * a column that changes nor a look at every run is needed.
   */
  async #removeFinished(
    before: Date,
    limit: number,
    rememberUntil: Date | undefined,
    now: Date | undefined,
  ): Promise<number> {
    await this.#db.query('DELETE FROM holdfast.tombstones WHERE until <= coalesce($1::timestamptz, now())', [
      now,
    ]);
    const due: { seq: number; id: string }[] = [];
    for (let last = 0; ;) {
      const page = await this.#db.query<{ seq: number; id: string; is_due: boolean; is_young: boolean }>(
        `SELECT seq, id, state <> 'open' AND finished_at < $2 AS is_due, submitted_at >= $2 AS is_young
         FROM holdfast.runs WHERE seq > $1 ORDER BY seq LIMIT ${pageSize}`,
        [last, before],
      );
      due.push(...page.filter(({ is_due }) => is_due));
      if (page.length < pageSize || due.length >= limit || page.every(({ is_young }) => is_young)) break;
      last = page.at(-1)!.seq;
    }
    due.length = Math.min(due.length, limit);
    if (due.length === 0) return 0;
    const remembered = due.map(({ id }) => id).filter((id) => id.startsWith('r1_'));
    if (rememberUntil !== undefined && remembered.length > 0) {
      // Committed before the runs go: a submit that no longer meets the run sees this.
      await this.#db.query(
        `INSERT INTO holdfast.tombstones (id, until)
         SELECT id, $2 FROM unnest($1::text[]) AS u (id) ORDER BY id COLLATE "C"
         ON CONFLICT (id) DO UPDATE SET until = excluded.until`,
        [remembered, rememberUntil],
      );
    }
    const [removed] = await this.#db.query<{ count: number }>(
      `WITH said AS (
         DELETE FROM holdfast.events WHERE seq = ANY ($1)
       ), repeated AS (
         DELETE FROM holdfast.repeats WHERE seq = ANY ($1)
       ), gone AS (
         DELETE FROM holdfast.runs WHERE seq = ANY ($1) RETURNING 1
       )
       SELECT count(*) AS count FROM gone`,
      [due.map(({ seq }) => seq)],
    );
    return removed!.count;
  }

  readonly workers: WorkerStore = {
    join: async (worker, leaseMs, now) => {
      await this.#db.query(
        `INSERT INTO holdfast.workers (id, worker_group, workflows, lease_until)
         VALUES ($1, $2, $3, ${leaseEnd('$4', '$5')})
         ON CONFLICT (id) DO UPDATE SET worker_group = excluded.worker_group, workflows = excluded.workflows,
           lease_until = excluded.lease_until`,
        [worker.id, worker.group, JSON.stringify(worker.workflows), now, leaseMs],
      );
    },
    renew: async (id, leaseMs, now) => {
      const rows = await this.#db.query(
        `UPDATE holdfast.workers SET lease_until = ${leaseEnd('$2', '$3')} WHERE id = $1 RETURNING 1`,
        [id, now, leaseMs],
      );
      return rows.length === 1;
    },
    releaseUnknown: async (id, known) => {
      const back = await this.#requeue(
        this.#db.query,
        'worker = $2 AND token <> ALL ($3::text[])',
        id,
        known,
      );
      if (back.count > 0) this.#emitQueued(back.lowest);
      return back.count;
    },
    leave: async (id) => {
      const back = await this.#db.transaction(async (query) => {
        await query('DELETE FROM holdfast.workers WHERE id = $1', [id]);
        return this.#requeue(query, 'worker = $2', id);
      });
      if (back.count > 0) this.#emitQueued(back.lowest);
    },
    recover: (now) => this.#recover(now),
    live: async (now) => {
      const rows = await this.#db.query<{ worker_group: string; workflows: string }>(
        `SELECT worker_group, workflows FROM holdfast.workers WHERE lease_until > coalesce($1::timestamptz, now())`,
        [now],
      );
      return rows.map(({ worker_group, workflows }): LiveWorker => ({
        group: worker_group,
        workflows: JSON.parse(workflows) as string[],
      }));
    },
  };

  async #recover(now: Date | undefined): Promise<number> {
    // Mostly nobody died, and one read says so.
    const [dead] = await this.#db.query(
      'SELECT FROM holdfast.workers WHERE lease_until <= coalesce($1::timestamptz, now()) LIMIT 1',
      [now],
    );
    if (dead === undefined) return 0;
    const back = await this.#db.transaction(async (query) => {
      // The delete waits for claims of the worker that are under way; only the next statement sees what they took.
      const gone = await query<{ id: string }>(
        'DELETE FROM holdfast.workers WHERE lease_until <= coalesce($1::timestamptz, now()) RETURNING id',
        [now],
      );
      const ids = gone.map(({ id }) => id);
      return this.#requeue(query, 'worker = ANY ($2)', ids);
    });
    if (back.count > 0) this.#emitQueued(back.lowest);
    return back.count;
  }

  readonly sessions: SessionStore = {
    open: (session, { max, idleMs, maxPerPrincipal }, now) =>
      this.#db.transaction(async (query) => {
        const { realm, id: principal } = session.principal ?? {};
        // One at a time: each counts what those before it opened.
        await query(`SELECT pg_advisory_xact_lock(hashtextextended('holdfast sessions', 0))`);
        await query(`DELETE FROM holdfast.sessions WHERE last_used <= ${earlier('$1', '$2')}`, [now, idleMs]);
        const [row] = await query<{ open: number; own: number }>(
          `SELECT count(*) AS open,
                  count(*) FILTER (WHERE realm IS NOT DISTINCT FROM $1 AND principal IS NOT DISTINCT FROM $2) AS own
           FROM holdfast.sessions`,
          [realm, principal],
        );
        if (row!.open >= max) return 'full';
        if (maxPerPrincipal !== undefined && row!.own >= maxPerPrincipal) return 'principal-full';
        await query(
          `INSERT INTO holdfast.sessions (id, realm, principal, version, client, last_used)
           VALUES ($1, $2, $3, $4, $5, coalesce($6::timestamptz, now()))`,
          [session.id, realm, principal, session.protocolVersion, JSON.stringify(session.client), now],
        );
        return 'opened';
      }),
    get: async (id, idleMs, now) => {
      const [row] = await this.#db.prepared<{
        realm: string | null;
        principal: string | null;
        version: string;
        client: string;
      }>(
        `SELECT realm, principal, version, client FROM holdfast.sessions
         WHERE id = $3 AND last_used > ${earlier('$1', '$2')}`,
        [now, idleMs, id],
      );
      return (
        row &&
        ({
          id,
          principal: toPrincipal(row),
          protocolVersion: row.version,
          client: JSON.parse(row.client) as unknown,
        } satisfies Session)
      );
    },
    touch: async (ids, now) => {
      await this.#db.query(
        `WITH used AS (SELECT id FROM holdfast.sessions WHERE id = ANY ($1) ORDER BY id FOR UPDATE)
         UPDATE holdfast.sessions SET last_used = coalesce($2::timestamptz, now())
         WHERE id = ANY (ARRAY(SELECT id FROM used))`,
        [ids, now],
      );
    },
    close: async (id) => {
      const rows = await this.#db.query(
        `WITH gone AS (DELETE FROM holdfast.sessions WHERE id = $1 RETURNING id)
         SELECT pg_notify('${channel}', $2 || ' session ' || id) FROM gone`,
        [id, this.#origin],
      );
      if (rows.length > 0) this.#emit({ kind: 'session', id });
    },
    tell: async (id, message) => {
      this.#emit({ kind: 'told', id, message });
      const told = JSON.stringify({ id, message });
      await this.#db.query(`SELECT pg_notify('${channel}', $1)`, [`${this.#origin} told ${told}`]);
    },
    count: async (idleMs, now) => {
      const [row] = await this.#db.prepared<{ open: number }>(sessionsStatement, [now, idleMs]);
      return row!.open;
    },
  };

  readonly tools: ToolStore = {
    register: async (group, definitions) => {
      const isChanged = await this.#db.transaction(async (query) => {
        // One registration at a time, so that revisions follow the order of the commits.
        await query('SELECT revision FROM holdfast.catalogue FOR UPDATE');
        const kept = await query<{ definition: string }>(
          'SELECT definition FROM holdfast.tools WHERE worker_group = $1',
          [group],
        );
        if (sameTools(kept, definitions)) return false;
        await query('DELETE FROM holdfast.tools WHERE worker_group = $1', [group]);
        await query(
          `WITH next AS (UPDATE holdfast.catalogue SET revision = revision + 1 RETURNING revision), put AS (
             INSERT INTO holdfast.tools (worker_group, name, revision, definition)
             SELECT $1, u.name, next.revision, u.definition
             FROM next, unnest($2::text[], $3::text[]) AS u (name, definition)
           )
           SELECT pg_notify('${channel}', $4 || ' tools')`,
          [
            group,
            definitions.map(({ name }) => name),
            definitions.map((definition) => JSON.stringify(definition)),
            this.#origin,
          ],
        );
        return true;
      });
      if (isChanged) this.#emit({ kind: 'tools' });
    },
    list: async (known): Promise<Catalogue | undefined> => {
      // One statement, so that all of it is of one revision.
      const rows = await this.#db.prepared<CatalogueRow>(
        `SELECT catalogue.revision, listed.name, listed.definition, listed.server
         FROM holdfast.catalogue LEFT JOIN (
           SELECT revision, name, definition, NULL AS server FROM holdfast.tools
           UNION ALL
           SELECT NULL, key, NULL, catalogue FROM holdfast.servers
         ) AS listed ON true
         WHERE catalogue.revision IS DISTINCT FROM $1
         ORDER BY listed.revision, listed.name`,
        [known],
      );
      if (rows.length === 0) return undefined;
      return toCatalogue(
        rows[0]!.revision,
        rows.flatMap(({ name, definition }) => (definition === null ? [] : [{ name, definition }])),
        rows.flatMap(({ name, server }) => (server === null ? [] : [{ key: name, catalogue: server }])),
      );
    },
  };

  readonly servers: ServerStore = {
    publish: async (catalogue, { owner, lease }, now) => {
      // One statement: a process that stops here holds no lock. The lock on the lease makes a successor wait.
      const [row] = await this.#db.query<{ is_held: boolean; is_changed: boolean }>(
        `WITH held AS MATERIALIZED (
           SELECT FROM holdfast.owners
           WHERE server = $1 AND owner = $2 AND lease_until > coalesce($3::timestamptz, now()) FOR SHARE
         ), put AS (
           INSERT INTO holdfast.servers (key, catalogue) SELECT $4, $5 WHERE EXISTS (SELECT FROM held)
           ON CONFLICT (key) DO UPDATE SET catalogue = excluded.catalogue
           WHERE servers.catalogue <> excluded.catalogue
           RETURNING 1
         ), next AS (
           UPDATE holdfast.catalogue SET revision = revision + 1 WHERE EXISTS (SELECT FROM put)
         )
         SELECT EXISTS (SELECT FROM held) AS is_held, EXISTS (SELECT FROM put) AS is_changed,
                (SELECT pg_notify('${channel}', $6 || ' tools') FROM put)`,
        [lease, owner, now, catalogue.key, JSON.stringify(catalogue), this.#origin],
      );
      if (row!.is_changed) this.#emit({ kind: 'tools' });
      return row!.is_held;
    },
    own: async (owner, servers, leaseMs, now) => {
      const owned = await this.#db.prepared<{ server: string }>(
        // In the order of the keys, so that two owners wait instead of deadlock. Not waiting for the disk:
        // what a crash of the server takes back is renewed or taken anew.
        `INSERT INTO holdfast.owners (server, owner, address, lease_until)
         SELECT DISTINCT u.server COLLATE "C", $2, $3, ${leaseEnd('$4', '$5')}
         FROM unnest($1::text[]) AS u (server) ORDER BY 1
         ON CONFLICT (server) DO UPDATE
         SET owner = excluded.owner, address = excluded.address, lease_until = excluded.lease_until
         WHERE owners.owner = excluded.owner OR owners.lease_until <= coalesce($4::timestamptz, now())
         RETURNING server, set_config('synchronous_commit', 'off', true)`,
        [servers, owner.id, owner.address, now, leaseMs],
      );
      return owned.map(({ server }) => server);
    },
    disown: async (owner, servers) => {
      await this.#db.query(
        `DELETE FROM holdfast.owners WHERE server = ANY (ARRAY(
           SELECT server FROM holdfast.owners WHERE server = ANY ($1) AND owner = $2 ORDER BY server FOR UPDATE))`,
        [servers, owner],
      );
    },
    owners: async (now) => {
      const rows = await this.#db.query<ServerOwner & { server: string }>(
        `SELECT server, owner AS id, address FROM holdfast.owners
         WHERE lease_until > coalesce($1::timestamptz, now())`,
        [now],
      );
      return new Map(rows.map(({ server, id, address }) => [server, { id, address }]));
    },
  };
}

/** `left`: the lowest `seq` that may be due and was not taken. */
type ClaimRow = RunRow & {
  last: number;
  left: number | null;
  /** Of those that are to be taken, how many there are. */
  chosen: number;
  is_live: boolean;
  is_dispatched: boolean;
};

interface CatalogueRow {
  readonly revision: number;
  /** Of the tool, or the key of the server. */
  readonly name: string;
  readonly definition: string | null;
  readonly server: string | null;
}

type Nulls<Row> = { [Column in keyof Row]: null };

type EventRow = [n: number, at: number, progress: string];

function toEvent([n, at, progress]: EventRow): RunEvent {
  return { n, at: new Date(at), progress: JSON.parse(progress) as RunEvent['progress'] };
}

/** In the order in which everybody locks rows of the queue, with the position that an item had. */
function bySeq<Item extends { readonly claim: ClaimKey }>(items: readonly Item[]): (Item & { i: number })[] {
  return items.map((item, i) => ({ ...item, i })).sort((a, b) => a.claim.seq - b.claim.seq);
}

/** Of several about one claim the first counts. */
function firstOfEach<Item extends { readonly claim: ClaimKey }>(items: readonly Item[]): Item[] {
  return items.filter(
    ({ claim }, at) =>
      items.findIndex((other) => other.claim.seq === claim.seq && other.claim.token === claim.token) === at,
  );
}

interface Requeued {
  readonly count: number;
  /** The smallest `seq` of them. */
  readonly lowest: number;
}

/** How much of sessions is read to count them. */
const [fewSessions, sessionPlaces, placePages] = [20, 4, 10];
/** How far `like` looks to either side, in submissions. */
const likeReach = 1_000;
/** How many runs retention reads at a time. */
const pageSize = 1_000;

/** With the pauses between them some 100 ms. */
const maxClaimTries = 7;

const earlier = (now: string, byMs: string): string =>
  `coalesce(${now}::timestamptz, now()) - ${byMs} * interval '1 millisecond'`;
const leaseEnd = (now: string, leaseMs: string): string =>
  `coalesce(${now}::timestamptz, now()) + ${leaseMs} * interval '1 millisecond'`;

/**
 * Of one row without a run when nothing was due. The lock on the worker's row makes `recover`
 * wait for this claim, or this claim find the worker gone: a dead worker never keeps a run.
 * A claim that need not be durable does not wait for the disk; the setting ends with it.
 * By ctid, which the lock holds still: by seq a claim of ten read 20 pages of the index more. A
 * row that came back to the queue after the snapshot is passed over; its notification follows.
 *
 * @internal exported for the test of what it reads
 */
export const claimStatement = `
  WITH RECURSIVE live AS MATERIALIZED (
    SELECT FROM holdfast.workers
    WHERE id = $2 AND lease_until > coalesce($8::timestamptz, now()) FOR KEY SHARE
  ), head AS MATERIALIZED (
    SELECT ctid AS place_of, seq, caller, workflow FROM holdfast.queue
    WHERE seq > $1::bigint AND token IS NULL AND workflow = ANY ($4)
      AND (definition = ANY ($5) OR queued_at <= ${earlier('$8', '$6')})
      AND EXISTS (SELECT FROM live)
    ORDER BY seq LIMIT ${headSize}
  ), edge AS MATERIALIZED (
    SELECT max(seq) AS last FROM head HAVING count(*) = ${headSize}
  ), callers (caller) AS (
    SELECT (SELECT caller FROM holdfast.queue ORDER BY caller LIMIT 1) FROM edge
    UNION ALL
    SELECT (SELECT queue.caller FROM holdfast.queue WHERE queue.caller > callers.caller ORDER BY queue.caller LIMIT 1)
    FROM callers WHERE callers.caller IS NOT NULL
  ), behind AS MATERIALIZED (
    SELECT queued.*
    FROM (SELECT caller FROM callers WHERE caller IS NOT NULL LIMIT ${mostCallers}) AS one
    CROSS JOIN LATERAL (
      SELECT ctid AS place_of, seq, caller, workflow FROM holdfast.queue
      WHERE queue.caller = one.caller AND seq > (SELECT last FROM edge)
        AND token IS NULL AND workflow = ANY ($4)
        AND (definition = ANY ($5) OR queued_at <= ${earlier('$8', '$6')})
      ORDER BY seq LIMIT $7
    ) AS queued
  ), turns AS MATERIALIZED (
    SELECT place_of, seq, pool, free,
           coalesce(held.count, 0) + row_number() OVER (PARTITION BY pool, caller ORDER BY seq) AS turn
    FROM (SELECT * FROM head UNION ALL SELECT * FROM behind) AS queued
    JOIN unnest($4::text[], $10::integer[], $11::integer[]) AS served (workflow, pool, free) USING (workflow)
    LEFT JOIN unnest($12::integer[], $13::text[], $14::integer[]) AS held (pool, caller, count) USING (pool, caller)
  ), chosen AS MATERIALIZED (
    SELECT place_of
    FROM (SELECT *, row_number() OVER (PARTITION BY pool ORDER BY turn, seq) AS place FROM turns) AS placed
    WHERE place <= free AND (turn = 1 OR turn * (100 - $15::integer) <= $15::integer * (free - place))
    ORDER BY turn, seq
  ), due AS MATERIALIZED (
    SELECT locked.ctid
    FROM chosen CROSS JOIN LATERAL (
      SELECT ctid FROM holdfast.queue WHERE ctid = chosen.place_of AND token IS NULL FOR UPDATE SKIP LOCKED
    ) AS locked
    LIMIT $7
  ), taken AS (
    UPDATE holdfast.queue
    SET worker = $2, token = $3, attempt = attempt + 1, claimed_at = coalesce($8::timestamptz, now())
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM due))
    RETURNING seq, attempt, claimed_at, is_dispatched
  )
  SELECT sequence.last, sequence.commits, EXISTS (SELECT FROM live) AS is_live,
    coalesce(
      (SELECT min(seq) FROM head WHERE seq <> ALL (ARRAY(SELECT seq FROM taken))),
      (SELECT edge.last + 1 FROM edge)
    ) AS "left", (SELECT count(*) FROM chosen) AS chosen, ${runColumns}, queue.attempt AS queue_attempt, ${ms('queue.claimed_at')} AS claimed_at, queue.is_dispatched
  FROM (
    SELECT last_value - 1 + is_called::integer AS last,
           CASE WHEN NOT $9::boolean THEN set_config('synchronous_commit', 'off', true) END AS commits
    FROM holdfast.runs_seq_seq
  ) AS sequence
  LEFT JOIN (taken AS queue CROSS JOIN LATERAL ${runOf('queue.seq')}) ON true
  ORDER BY runs.seq`;

/**
 * The head of the queue is counted, which is exact and shows the oldest run. Where the queue is longer, what is
 * behind the head is counted in short stretches of the sequence and taken to be alike in between.
 *
 * In all some 120 pages, however long the queue is and however much has ended: a count of 100,000 read 3,600.
 *
 * @internal exported for the test of what it reads
 */
export const queueStatement = `
  WITH head AS MATERIALIZED (
    SELECT seq, queued_at FROM holdfast.queue WHERE token IS NULL ORDER BY seq LIMIT ${queueHead}
  ), edge AS MATERIALIZED (
    SELECT count(*) AS counted, min(queued_at) AS oldest, max(seq) AS last FROM head
  ), ends AS MATERIALIZED (
    SELECT last, (SELECT max(seq) FROM holdfast.queue) AS newest FROM edge WHERE counted = ${queueHead}
  ), stretches AS MATERIALIZED (
    SELECT last + (newest - last) * i / ${stretchCount} AS after,
           least(last + (newest - last) * i / ${stretchCount} + ${stretchLength},
                 last + (newest - last) * (i + 1) / ${stretchCount}) AS until
    FROM ends CROSS JOIN generate_series(0, ${stretchCount - 1}) AS i
  )
  SELECT counted, ${ms('oldest')} AS oldest,
         (SELECT newest - last FROM ends) AS behind,
         (SELECT sum(until - after)::bigint FROM stretches) AS looked,
         (SELECT count(*) FROM stretches CROSS JOIN LATERAL (
            SELECT FROM holdfast.queue WHERE seq > after AND seq <= until AND token IS NULL OFFSET 0
          ) AS queued) AS found
  FROM edge`;

/** Where one of the places in which sessions are counted begins, and where it ends. */
const placeStart = (i: number): string => `(SELECT pages * ${i} / ${sessionPlaces} FROM size)`;
const placeEnd = (i: number): string => `least(${placeStart(i)} + ${placePages}, ${placeStart(i + 1)})`;
const page = (number: string): string => `('(' || ${number} || ',0)')::tid`;

const sessionPlace = (i: number): string => `
  SELECT count(*) AS found, ${placeEnd(i)} - ${placeStart(i)} AS looked
  FROM holdfast.sessions
  WHERE ctid >= (SELECT ${page(placeStart(i))}) AND ctid < (SELECT ${page(placeEnd(i))})
    AND last_used > ${earlier('$1', '$2')}`;

/**
 * A few by their keys. Where there are more, all on a few pages in each of some places of the table, and as many
 * on the others: exact for some 1,000 sessions. By ranges of ctid: a page sample of Postgres reads now more pages
 * and now fewer, and so was off by a sixth. Postgres 13 reads the whole table for them.
 *
 * @internal exported for the test of what it reads
 */
export const sessionsStatement = `
  WITH few AS MATERIALIZED (
    SELECT last_used FROM holdfast.sessions ORDER BY id LIMIT ${fewSessions}
  ), size AS MATERIALIZED (
    SELECT pg_relation_size('holdfast.sessions') / current_setting('block_size')::integer AS pages
  )
  SELECT CASE WHEN (SELECT count(*) FROM few) < ${fewSessions}
    THEN (SELECT count(*) FROM few WHERE last_used > ${earlier('$1', '$2')})
    ELSE (
      SELECT round(sum(found) * (SELECT pages FROM size) / sum(looked))
      FROM (${Array.from({ length: sessionPlaces }, (_, i) => sessionPlace(i)).join(' UNION ALL ')}) AS places
    )
  END::bigint AS open`;
