/**
 * The run store: one contract in domain verbs, kept by every store and checked by one suite
 * (`conformance.suite.ts`), so that nothing outside this library knows which store it talks to.
 *
 * Time: a verb that depends on it takes `now`, the instant used instead of the store's own
 * clock. The product never passes it: only the store's clock is compared between processes
 * (BEHAVIOURS R10). The suite does, so that it never sleeps.
 *
 * Faults: every verb may throw RunError `store-unavailable`: the store could not be reached
 * or did not answer in time. It heals by itself. For `submit` and `finish` it means that the
 * outcome is not known; both are safe to repeat.
 */
import type {
  CancelEnds,
  FinishedRun,
  NewRun,
  Principal,
  Progress,
  Run,
  RunEnd,
  RunEvent,
  RunId,
  RunState,
} from '@holdfast/run';
import type { ServerCatalogue, ToolDefinition } from '@holdfast/tools';

export interface Store {
  readonly kind: 'memory' | 'sqlite' | 'postgres' | 'valkey';
  readonly runs: RunStore;
  readonly workers: WorkerStore;
  readonly sessions: SessionStore;
  readonly tools: ToolStore;
  readonly servers: ServerStore;

  /** The value kept under `name`; made with `make` and kept by whoever asks first, in any process. */
  secret(name: string, make: () => string): Promise<string>;

  /** Calls `listener` on each signal until the returned function is called. A listener never throws. */
  subscribe(listener: (signal: Signal) => void): () => void;

  /**
   * Whether signals of other processes arrive. While false an `everything` signal comes about
   * twice a second in their place; when it turns true again, one more.
   */
  readonly hearing: boolean;

  /** Resolves when the store answers. */
  ping(): Promise<void>;

  /** Lets go of connections and timers. Safe twice; verbs after it throw `store-closed`. */
  close(): Promise<void>;
}

/**
 * News from any process. A signal is a hint to look, never a fact: it may come late, twice, or
 * not at all, and a slow poll covers what was missed.
 */
export type Signal =
  /** Runs were queued, or came back to the queue. */
  | { readonly kind: 'queued' }
  /** These runs (by `seq`) reported progress or ended. */
  | { readonly kind: 'runs'; readonly seqs: readonly number[] }
  /** The registered tools changed. */
  | { readonly kind: 'tools' }
  /** These runs (by `seq`) were cancelled; a `runs` signal goes with it. */
  | { readonly kind: 'cancelled'; readonly seqs: readonly number[] }
  /** A session was closed. */
  | { readonly kind: 'session'; readonly id: string }
  /** Somebody told a session something; see `SessionStore.tell`. */
  | { readonly kind: 'told'; readonly id: string; readonly message: string }
  /** Signals may have been missed: look at everything. */
  | { readonly kind: 'everything' };

export interface RunStore {
  /**
   * Keeps a run and queues it, or finds the one already there. Once resolved, the run is
   * durable. Two calls with one id, on any two processes, make one run (BEHAVIOURS R8).
   *
   * - `fresh`: this call made the run
   * - `attached`: it was there already, in whatever state; whether its arguments are the same
   *   is for the caller to compare
   * - `expired`: the run was removed, and its token is remembered as used (BEHAVIOURS R7)
   */
  submit(run: NewRun, options?: { readonly repeat?: Repeat }, now?: Date): Promise<Submission>;

  get(id: RunId): Promise<Run | undefined>;

  /**
   * What is new of the runs that somebody waits for: events after `after`, in order, and the
   * run itself once it has ended. Runs without news are left out. When a run is given as ended,
   * its events are complete.
   */
  news(watched: readonly Watched[]): Promise<News[]>;

  /**
   * Takes up to `limit` queued runs of `workflows` for a worker: of each caller the oldest first, and of the
   * callers those that hold fewest (see `fair-share.ts`). Two claims never take the same run: each carries a fresh random token that `report` and `finish` check.
   * Nothing is claimed for a worker that is not live.
   */
  claim(request: ClaimRequest, now?: Date): Promise<Claim[]>;

  /** Keeps progress of a running attempt. False: the claim is no longer good, nothing was kept. */
  report(
    claim: ClaimKey,
    events: readonly (Progress & { readonly n: number })[],
    now?: Date,
  ): Promise<boolean>;

  /**
   * Ends a run. False: the claim is no longer good (the lease ran out and another attempt has
   * it, or it ended already) and nothing was changed: `run:fenced`.
   */
  finish(claim: ClaimKey, end: RunEnd, now?: Date): Promise<boolean>;

  /**
   * Ends a run that has not ended as cancelled. Whoever holds it finds its claim no longer good.
   *
   * @param ends the error to record, by how far the run is
   * @returns the run as it is then: one that has ended already is left as it is; undefined when there is none
   */
  cancel(id: RunId, ends: CancelEnds, now?: Date): Promise<Run | undefined>;

  /**
   * Makes the dispatch mark of a claim: whoever wins it may send the call, once. It stays with the
   * run whatever becomes of the claim, and is durable when this resolves (BEHAVIOURS X11).
   *
   * - `won`: this call made it
   * - `lost`: it was there already; the call may have been sent
   * - `stale`: the claim is no longer good
   */
  dispatch(claim: ClaimKey): Promise<'won' | 'lost' | 'stale'>;

  /**
   * Takes a claim token back from whoever was given it, so that no dispatch mark can be made on it.
   *
   * - a token: the new one of the claim, which is unmarked; the old one is worth nothing now
   * - `dispatched`: the mark is there, and the claim is as it was
   * - `stale`: the claim is no longer good
   */
  revoke(claim: ClaimKey): Promise<{ readonly token: string } | 'dispatched' | 'stale'>;

  /** Hands runs back to the queue, to be claimed at once by anybody. Claims no longer good are passed over. */
  release(claims: readonly ClaimKey[]): Promise<void>;

  events(seq: number): Promise<RunEvent[]>;

  /** Newest first. `before` is the `seq` of the last run of the page before. */
  list(filter: RunFilter): Promise<Run[]>;

  /**
   * Store-wide: how many runs wait for a worker, and since when the oldest does. Exact up to 2,000 and
   * estimated beyond, at a cost that does not grow with the queue or the history.
   */
  queue(): Promise<{ readonly queued: number; readonly oldest: Date | undefined }>;

  /**
   * Removes up to `limit` runs that ended before `before`, oldest first, in one small step.
   * Runs that have not ended are never removed. With `rememberUntil`, the ids of those made
   * from a token are remembered as used until then.
   * @returns how many were removed
   */
  removeFinished(
    before: Date,
    limit: number,
    options?: { readonly rememberUntil?: Date },
    now?: Date,
  ): Promise<number>;
}

/** Makes `submit` attach to an earlier run of `key` that has not ended or was submitted at most `windowMs` ago. */
export interface Repeat {
  readonly key: string;
  readonly windowMs: number;
}

export type Submission =
  { readonly kind: 'fresh' | 'attached'; readonly run: Run } | { readonly kind: 'expired' };

export interface Watched {
  readonly seq: number;
  /** The `n` of the last event already known; 0 for none. */
  readonly after: number;
}

export interface News {
  readonly seq: number;
  readonly events: readonly RunEvent[];
  /** Present once the run has ended. */
  readonly ended?: FinishedRun;
}

export interface ClaimRequest {
  readonly worker: string;
  readonly workflows: readonly string[];
  /**
   * Digests of the definitions that the worker serves. A run submitted against another one is
   * left for `definitionGraceMs` to workers that match it.
   */
  readonly definitions: readonly string[];
  readonly definitionGraceMs: number;
  readonly limit: number;
  /**
   * Whether the claim must outlive a crash of the store itself. One that does not leaves its run
   * queued and its token worth nothing, and the body may run twice at once: for tools that only read.
   */
  readonly isDurable: boolean;
  /**
   * The slots of the worker, of which each serves some of `workflows`; one pool of `limit` slots for all where
   * omitted. Claims are shared fairly among the callers of a pool.
   */
  readonly pools?: readonly ClaimPool[];
  /**
   * How many of the slots that others leave free one caller may hold, in percent; 100 where omitted. A caller that
   * holds nothing gets any free slot.
   */
  readonly callerShare?: number;
  /**
   * Look at the whole queue, not only behind the last claim. Slower; finds what a lost signal
   * hid, and runs of another definition whose `definitionGraceMs` is over.
   */
  readonly sweep: boolean;
}

export interface ClaimPool {
  readonly workflows: readonly string[];
  readonly free: number;
  /** What the worker holds of these workflows already, by caller. */
  readonly held: readonly { readonly principal: Principal | null; readonly count: number }[];
}

/** What the verbs about a claim need to know of it. */
export interface ClaimKey {
  readonly seq: number;
  readonly token: string;
}

export interface Claim extends ClaimKey {
  /** The run as it is now: running, `attempt` counted up. */
  readonly run: Extract<Run, { readonly state: 'running' }>;
  /** An earlier attempt made the dispatch mark: its call may have been sent. */
  readonly isDispatched: boolean;
}

export interface RunFilter {
  readonly state?: RunState;
  readonly tool?: string;
  /** The id of a principal, in any realm. */
  readonly principal?: string;
  /** Runs of the same tool, caller and arguments as this one, itself left out. */
  readonly like?: Run;
  readonly before?: number;
  readonly limit: number;
}

export interface WorkerStore {
  /** Makes a worker live for `leaseMs`. */
  join(worker: LiveWorker & { readonly id: string }, leaseMs: number, now?: Date): Promise<void>;

  /**
   * Renews the lease of a worker and so of all that it holds.
   * False: the lease ran out and its runs were given back; the worker must `join` anew.
   */
  renew(id: string, leaseMs: number, now?: Date): Promise<boolean>;

  /**
   * Gives back to the queue what a worker holds under none of the claim tokens `known`: claims
   * that were made and whose answer never reached it.
   * @returns how many runs
   */
  releaseUnknown(id: string, known: readonly string[]): Promise<number>;

  /** Ends a lease at once. What the worker still holds goes back to the queue. */
  leave(id: string): Promise<void>;

  /**
   * Gives the runs of workers whose lease ran out back to the queue.
   * @returns how many runs
   */
  recover(now?: Date): Promise<number>;

  live(now?: Date): Promise<LiveWorker[]>;
}

export interface LiveWorker {
  readonly group: string;
  readonly workflows: readonly string[];
}

/** A session of a host from before 2026-07-28. The modern era has none. */
export interface Session {
  /** At least 128 random bits. */
  readonly id: string;
  readonly principal: Principal | null;
  readonly protocolVersion: string;
  /** What the host said of itself at `initialize`: `{capabilities, clientInfo}`. */
  readonly client: unknown;
}

export interface SessionLimits {
  readonly max: number;
  readonly idleMs: number;
  readonly maxPerPrincipal?: number;
}

export interface SessionStore {
  /** Opens a session in one atomic step: idle ones are dropped first, then the limits hold (BEHAVIOURS R3). */
  open(session: Session, limits: SessionLimits, now?: Date): Promise<'opened' | 'full' | 'principal-full'>;

  /** The session, unless it was never opened, is closed, or has been idle for `idleMs`. */
  get(id: string, idleMs: number, now?: Date): Promise<Session | undefined>;

  /** Says that these sessions are in use. */
  touch(ids: readonly string[], now?: Date): Promise<void>;

  close(id: string): Promise<void>;

  /**
   * Tells something to whichever process serves a request of this session, as a `told` signal. Like
   * every signal it may get lost: only for what a host can do without.
   *
   * @param message at most 2,000 characters
   */
  tell(id: string, message: string): Promise<void>;

  /** How many are open: exact while they are few, an estimate where there are many. */
  count(idleMs: number, now?: Date): Promise<number>;
}

export interface ToolStore {
  /**
   * Makes `definitions` the tools of a worker group, replacing what it had. They stay when no
   * worker lives. Registering what is registered already changes nothing.
   */
  register(group: string, definitions: readonly ToolDefinition[]): Promise<void>;

  /**
   * All registered tools by name; of two groups that define one name, the later registration
   * counts. Undefined when nothing has changed since `known`.
   */
  list(known?: number): Promise<Catalogue | undefined>;
}

export interface Catalogue {
  /** Rises with each change. */
  readonly revision: number;
  readonly tools: readonly ToolDefinition[];
  /** The catalogues of upstreams, by key. */
  readonly servers: readonly ServerCatalogue[];
  /** Rows that are not what a store keeps: damaged, or written by something else. The others are listed without them. */
  readonly unreadable: readonly UnreadableRow[];
}

export interface UnreadableRow {
  readonly kind: 'tool' | 'server';
  /** The name of the tool or the key of the server; of a whole list of tools, the group. */
  readonly name: string;
  /** Quotes no value of the row. */
  readonly problem: string;
}

/** Upstream servers: what they publish, and which connector owns each. */
export interface ServerStore {
  /**
   * Keeps the catalogue of a server in place of the one before; part of `tools.list` from then on.
   * It stays when no connector lives. Publishing what is published already changes nothing.
   *
   * Fenced by the lease: an owner that stalled cannot replace what its successor published.
   * @returns false when `lease` is not `owner`'s now: nothing was changed
   */
  publish(catalogue: ServerCatalogue, { owner, lease }: LeaseHolder, now?: Date): Promise<boolean>;

  /**
   * Takes or renews those `leases` (`leaseName`) that nobody else owns, for `leaseMs`. Two owners never
   * own one at a time, by the store's clock.
   * @returns those that `owner` owns then
   */
  own(owner: ServerOwner, leases: readonly string[], leaseMs: number, now?: Date): Promise<string[]>;

  /** Gives up what `owner`, the id of one, owns of `leases`. */
  disown(owner: string, leases: readonly string[]): Promise<void>;

  /** Who owns what now, by name of the lease. */
  owners(now?: Date): Promise<ReadonlyMap<string, ServerOwner>>;
}

/** Who publishes: the id of an owner, and its lease of the server (`leaseName`). */
export interface LeaseHolder {
  readonly owner: string;
  readonly lease: string;
}

/** A connector, once started. */
export interface ServerOwner {
  readonly id: string;
  /** Where workers reach it, `host:port`. */
  readonly address: string;
}
