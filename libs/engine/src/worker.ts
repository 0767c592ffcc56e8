import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  ensureError,
  everyLane,
  laneOf,
  onceEvery,
  RunError,
  systemClock,
  traceIdOf,
  traceOf,
  withinSpan,
  type Progress,
  type RepeatedFault,
  type Run,
  type RunEnd,
  type ServiceLog,
  type Span,
  type ToolClass,
} from '@holdfast/run';
import { hasCallerAtShare, type Claim, type ClaimPool, type ClaimRequest, type Store } from '@holdfast/store';
import type { Tool } from '@holdfast/tools';
import { attemptRun, endUnfinished, type Stop } from './attempt.js';
import { attemptSpan, endAttemptSpan, traceWait } from './attempt-spans.js';
import { ProgressReport } from './progress-report.js';
import { ServerDirectory } from './server-directory.js';
import { attemptUpstream, endUnfinishedUpstream, type HeldClaim } from './upstream-attempt.js';
import type { Upstreams } from './upstreams.js';

export interface WorkerSettings {
  readonly group: string;
  readonly concurrency: number;
  /** See `ClaimRequest.callerShare`. */
  readonly callerShare: number;
  readonly leaseMs: number;
  readonly drainMs: number;
  readonly workflowPrefix: string;
  /** How long a call of an upstream waits for a connector that takes it, in milliseconds. */
  readonly connectorWaitMs: number;
}

/** What happened, for metrics. */
export interface WorkerObserver {
  claimed(queueSeconds: number): void;
  finished(end: {
    state: RunEnd['state'];
    error: string | undefined;
    toolClass: ToolClass;
    executeSeconds: number;
  }): void;
  leaseLost(): void;
}

export interface WorkerParts {
  readonly store: Store;
  readonly tools: readonly Tool[];
  /** The way to the connector. A worker without it serves its own tools only. */
  readonly upstreams?: Upstreams;
  readonly settings: WorkerSettings;
  readonly log: ServiceLog;
  readonly observer: WorkerObserver;
}

interface Held extends HeldClaim {
  /** Its body is here; undefined for a call of an upstream. */
  readonly tool: Tool | undefined;
  readonly stop: AbortController;
  /** `performance.now()` at the claim. */
  readonly began: number;
  /** Known once the body has ended; recorded or not. */
  end?: RunEnd | undefined;
  /** Resolves when nothing more is done about it here. */
  over?: Promise<void>;
}

/** A run submitted against another definition is left this long to workers that match it. */
const definitionGraceMs = 1_000;
/** A statement that was sent is done in this time, or never. */
const claimLastsMs = 15_000;
/** Calls of upstreams that one worker has under way, at most; each waits without work. */
const maxUpstreamCalls = 1_000;
/** Calls of upstreams claimed at once. */
const upstreamClaims = 16;

/**
 * Claims runs of its tools and executes them, many at once, until stopped.
 *
 * One lease covers the worker and so everything it holds (BEHAVIOURS R10). It is renewed at a
 * third of its length by the event loop that runs the bodies: a loop that is blocked for
 * longer than two thirds of a lease loses it, and a wedged tool cannot hold a run for ever.
 */
export class Worker {
  readonly #store: Store;
  readonly #tools: ReadonlyMap<string, Tool>;
  readonly #upstreams: Upstreams | undefined;
  readonly #servers: ServerDirectory | undefined;
  readonly #settings: WorkerSettings;
  readonly #log: ServiceLog;
  readonly #observer: WorkerObserver;
  /** In an outage of the store every run meets the same fault: one line a second says so. */
  readonly #storeFault: RepeatedFault;
  /** While claims fail they are made less and less often, and no signal makes them sooner. */
  #claimPauseMs = 0;
  #claimFrom = -Infinity;
  readonly #hasWrites: boolean;
  readonly #held = new Map<number, Held>();
  #id = randomUUID();
  #unsubscribe: (() => void) | undefined;
  #claiming: Promise<void> | undefined;
  /** Until then claims may come to light whose answer was lost. */
  #unheardUntil = -Infinity;
  /** At the last claim something may have been left out for want of room: a run that ends claims again. */
  #isFull = false;
  #claimAgain: 'no' | 'behind-last' | 'sweep' = 'no';
  #beating: Promise<void> | undefined;
  #starting: Promise<void> | undefined;
  #drained: Promise<void> | undefined;
  readonly #stopping = new AbortController();
  readonly #gone = new AbortController();
  /** When the lease was last known good without a gap; other workers' runs are given back only after a whole lease of it. */
  #steadySince = Number.POSITIVE_INFINITY;

  /** @throws RunError `tool-registration` for a tool that nobody could approve (BEHAVIOURS 58) */
  constructor({ store, tools, upstreams, settings, log, observer }: WorkerParts) {
    for (const { approval, definition } of tools) {
      if (approval === 'always') {
        throw new RunError(
          'tool-registration',
          `tool "${definition.name}" always requires approval, and an MCP tool server has nobody to ask; keep the approval in the agent that calls it, or give a predicate`,
        );
      }
    }
    this.#store = store;
    this.#tools = new Map(tools.map((tool) => [settings.workflowPrefix + tool.definition.name, tool]));
    // A claim that a crash of the store takes back has its body run twice, with no worker lost: reads only.
    this.#hasWrites = tools.some(
      ({ definition, onCrash }) => definition.toolClass === 'write' || onCrash === 'unknown',
    );
    this.#upstreams = upstreams;
    // A server that is new may have runs waiting already.
    this.#servers = upstreams && new ServerDirectory(store, log, () => this.#claim('sweep'));
    this.#settings = settings;
    this.#log = log;
    this.#observer = observer;
    this.#storeFault = onceEvery(log, 1_000, systemClock);
  }

  /** Registers the tools, takes a lease and begins to claim. When the store is not there it rejects, and may be called again. */
  start(): Promise<void> {
    return (this.#starting = this.#start());
  }

  async #start(): Promise<void> {
    if (this.#stopping.signal.aborted) return;
    // A worker without tools of its own has nothing to say of those of its group.
    if (this.#tools.size > 0)
      await this.#store.tools.register(
        this.#settings.group,
        [...this.#tools.values()].map(({ definition }) => definition),
      );
    await this.#join();
    await this.#servers?.start();
    if (this.#stopping.signal.aborted) return;
    this.#steadySince = -Infinity;
    this.#unsubscribe = this.#store.subscribe((signal) => {
      if (signal.kind === 'queued') this.#claim('behind-last');
      else if (signal.kind === 'cancelled') this.#hearCancelled(signal.seqs);
      else if (signal.kind === 'everything') this.#claim('sweep');
    });
    this.#beating = this.#beat();
    this.#claim('sweep');
    this.#log.info(
      { worker: this.#id, group: this.#settings.group, tools: this.#tools.size },
      'worker serves',
    );
  }

  /**
   * Stops claiming and waits for what it holds, for `patienceMs` at most; then hands the rest back,
   * to be run again elsewhere, or ends it as `OutcomeUnknown` where the tool says so. Safe before
   * `start` and safe twice.
   */
  stop(patienceMs = this.#settings.drainMs): Promise<void> {
    return (this.#drained ??= this.#drain(patienceMs));
  }

  async #drain(patienceMs: number): Promise<void> {
    this.#stopping.abort();
    await this.#starting?.catch(() => {});
    this.#unsubscribe?.();
    this.#servers?.stop();
    await this.#claiming;
    const all = Promise.all([...this.#held.values()].map(({ over }) => over));
    const patience = new AbortController();
    await Promise.race([all, sleep(patienceMs, undefined, { signal: patience.signal }).catch(() => {})]);
    patience.abort();
    const left = [...this.#held.values()];
    await Promise.all(left.map((held) => this.#handBack(held)));
    this.#gone.abort();
    await this.#beating;
    await this.#store.workers.leave(this.#id).catch((error: unknown) => {
      this.#log.warn({ worker: this.#id, err: ensureError(error) }, 'lease not given up; it will run out');
    });
  }

  async #handBack(held: Held): Promise<void> {
    const { tool, stop } = held;
    const { run } = held.claim;
    stop.abort('handed-back' satisfies Stop);
    const fields = fieldsOf(run);
    try {
      // A body that has ended, though the store was away since, is not run again.
      const end =
        held.end ??
        (tool === undefined
          ? await endUnfinishedUpstream(held, this.#store.runs, this.#serverOf(held.claim))
          : endUnfinished(run, tool));
      if (end === undefined) {
        await this.#store.runs.release([held.claim]);
        this.#log.info(fields, 'run handed back');
      } else if (await this.#store.runs.finish(held.claim, end)) this.#observe(held, end);
    } catch (error) {
      this.#log.warn({ ...fields, err: ensureError(error) }, 'run not handed back; its lease will run out');
    }
  }

  async #join(): Promise<void> {
    const { group, leaseMs } = this.#settings;
    const workflows = [...this.#tools.keys(), ...(this.#upstreams === undefined ? [] : [everyLane])];
    await this.#store.workers.join({ id: this.#id, group, workflows }, leaseMs);
  }

  #hearCancelled(seqs: readonly number[]): void {
    this.#stopCancelled(seqs).catch((error: unknown) => {
      const fields = { worker: this.#id, err: ensureError(error) };
      this.#storeFault.report(fields, 'cancelled runs not read; looking again at the next beat');
    });
  }

  /** Stops the attempts among `seqs` whose run the store has as cancelled. A signal alone stops nothing. */
  async #stopCancelled(seqs: Iterable<number>): Promise<void> {
    const held = [...seqs].filter((seq) => this.#held.has(seq));
    if (held.length === 0) return;
    const news = await this.#store.runs.news(held.map((seq) => ({ seq, after: Number.MAX_SAFE_INTEGER })));
    for (const { seq, ended } of news)
      if (ended?.state === 'cancelled') this.#held.get(seq)?.stop.abort('cancelled' satisfies Stop);
  }

  /** Renews the lease, gives back what dead workers held, and looks through the whole queue: the net under lost signals. */
  async #beat(): Promise<void> {
    const { leaseMs } = this.#settings;
    const steadyMs = Math.min(leaseMs / 3, 5_000);
    while (!this.#gone.signal.aborted) {
      await sleep(steadyMs, undefined, { signal: this.#gone.signal }).catch(() => {});
      if (this.#gone.signal.aborted) return;
      try {
        await this.#renew();
        // After an outage the others need time to renew before they are taken for dead.
        if (performance.now() - this.#steadySince >= leaseMs) await this.#store.workers.recover();
        await this.#stopCancelled(this.#held.keys());
        this.#servers?.refresh();
        this.#claim('sweep');
      } catch (error) {
        this.#steadySince = Number.POSITIVE_INFINITY;
        this.#storeFault.report(
          { worker: this.#id, err: ensureError(error) },
          'lease not renewed; trying again',
        );
      }
    }
  }

  async #renew(): Promise<void> {
    const isLive = await this.#store.workers.renew(this.#id, this.#settings.leaseMs);
    if (this.#steadySince === Number.POSITIVE_INFINITY) this.#steadySince = performance.now();
    if (isLive) return;
    this.#observer.leaseLost();
    this.#log.error(
      { worker: this.#id, runs: this.#held.size },
      'lease lost; what this worker ran was given to others',
    );
    for (const { stop } of this.#held.values()) stop.abort('lease-lost' satisfies Stop);
    this.#id = randomUUID();
    if (!this.#stopping.signal.aborted) await this.#join();
  }

  #claim(how: 'behind-last' | 'sweep'): void {
    // The beat and the poll of a store that is not heard come back.
    if (performance.now() < this.#claimFrom) return;
    if (this.#claimAgain !== 'sweep') this.#claimAgain = how;
    this.#claiming ??= this.#claimWhileThereIs().finally(() => {
      this.#claiming = undefined;
    });
  }

  async #claimWhileThereIs(): Promise<void> {
    while (this.#claimAgain !== 'no' && !this.#stopping.signal.aborted) {
      this.#isFull = false;
      const requests = this.#requests();
      const sweep = this.#claimAgain === 'sweep';
      this.#claimAgain = 'no';
      try {
        if (sweep) await this.#releaseUnheard();
        for (const request of requests) {
          const claims = await this.#store.runs.claim({
            worker: this.#id,
            definitionGraceMs,
            sweep,
            ...request,
          });
          if (claims.length === request.limit && this.#claimAgain === 'no') this.#claimAgain = 'behind-last';
          for (const claim of claims) this.#begin(claim);
        }
        this.#claimPauseMs = 0;
        // A caller that has its share may have more queued, though there is room for others.
        const isAtShare = ({ pools, callerShare }: WhatToClaim): boolean =>
          pools.some((pool) => hasCallerAtShare(pool, callerShare));
        if (this.#requests().some(isAtShare)) this.#isFull = true;
      } catch (error) {
        this.#expectUnheard();
        this.#claimPauseMs = Math.min(Math.max(this.#claimPauseMs * 2, 100), 2_000);
        this.#claimFrom = performance.now() + this.#claimPauseMs;
        this.#storeFault.report(
          { worker: this.#id, err: ensureError(error) },
          'nothing claimed; trying again after a pause',
        );
        return;
      }
    }
  }

  #requests(): WhatToClaim[] {
    return [this.#ownRequest(), this.#upstreamRequest()].filter((request) => request !== undefined);
  }

  /** What there is room for of the tools whose bodies are here. */
  #ownRequest(): WhatToClaim | undefined {
    if (this.#tools.size === 0) return undefined;
    const held = [...this.#held.values()].filter(({ tool }) => tool !== undefined);
    const limit = this.#settings.concurrency - held.length;
    if (limit <= 0) {
      this.#isFull = true;
      return undefined;
    }
    const workflows = [...this.#tools.keys()];
    return {
      workflows,
      definitions: [...this.#tools.values()].map(({ definition }) => definition.digest),
      pools: [{ workflows, free: limit, held: byCaller(held) }],
      callerShare: this.#settings.callerShare,
      limit,
      isDurable: this.#hasWrites,
    };
  }

  /**
   * What there is room for of calls of upstreams: of each server as many as it takes at once, so that one
   * that hangs leaves the others alone, and what it cannot take waits in the store for any worker. Not
   * durable: a claim that is lost with the store makes no dispatch mark.
   */
  #upstreamRequest(): WhatToClaim | undefined {
    const calls = [...this.#held.values()].filter(({ tool }) => tool === undefined);
    const underWay = Map.groupBy(calls, ({ claim }) => claim.run.workflow);
    const pools: ClaimPool[] = [];
    for (const { key, rules, tools } of this.#servers?.all() ?? []) {
      const lane = laneOf(key);
      // Runs for a server without tools are only told so.
      if (tools.length > 0 && !this.#upstreams!.canCall(key)) continue;
      const held = underWay.get(lane) ?? [];
      const free = rules.concurrency - held.length;
      if (free > 0) pools.push({ workflows: [lane], free, held: byCaller(held) });
      else this.#isFull = true;
    }
    const limit = Math.min(upstreamClaims, maxUpstreamCalls - calls.length);
    if (limit <= 0) this.#isFull = true;
    if (pools.length === 0 || limit <= 0) return undefined;
    const workflows = pools.flatMap((pool) => pool.workflows);
    // A server takes few calls at once, and one caller may have them all while nobody else waits: turns do for it.
    return { workflows, definitions: [''], pools, callerShare: 100, limit, isDurable: false };
  }

  #serverOf({ run }: Claim): ReturnType<ServerDirectory['get']> {
    return this.#servers!.get(run.upstream!.server);
  }

  #expectUnheard(): void {
    this.#unheardUntil = performance.now() + Math.max(this.#settings.leaseMs, claimLastsMs);
  }

  /**
   * A claim that failed here may have been made all the same, and then its runs would be held by
   * a worker that lives and does not know of them. Looked for more than once, because the store
   * may make it after the connection was lost. No claim of ours is under way meanwhile.
   */
  async #releaseUnheard(): Promise<void> {
    if (performance.now() > this.#unheardUntil) return;
    const known = [...this.#held.values()].map(({ claim }) => claim.token);
    const runs = await this.#store.workers.releaseUnknown(this.#id, known);
    if (runs > 0)
      this.#log.warn({ worker: this.#id, runs }, 'runs given back; the answer to their claim was lost');
  }

  #begin(claim: Claim): void {
    const tool = this.#tools.get(claim.run.workflow);
    const held: Held = { claim, tool, stop: new AbortController(), began: performance.now() };
    this.#held.set(claim.seq, held);
    held.over = this.#execute(held).finally(() => {
      this.#held.delete(claim.seq);
      if (this.#isFull) this.#claim('behind-last');
    });
  }

  async #execute(held: Held): Promise<void> {
    const { run } = held.claim;
    // Only the first claim ends the wait for a worker; what a lost attempt took is no queue.
    if (run.attempt === 1) {
      this.#observer.claimed((run.startedAt.getTime() - run.submittedAt.getTime()) / 1000);
      traceWait(run);
    }
    const span = attemptSpan(run);
    try {
      await this.#attempt(held, span);
    } finally {
      endAttemptSpan(span, held.end, held.stop.signal);
    }
  }

  async #attempt(held: Held, span: Span): Promise<void> {
    const { tool, stop } = held;
    const { run } = held.claim;
    const trace = traceOf(span);
    const log = this.#log.child({
      runId: run.id,
      attempt: run.attempt,
      tool: run.tool,
      traceId: traceIdOf(trace),
    });
    const progress = new ProgressReport(held, this.#store.runs, log);
    const report = (reported: Progress): void => progress.add(reported);
    held.end =
      tool === undefined
        ? await attemptUpstream({
            held,
            server: this.#serverOf(held.claim),
            upstreams: this.#upstreams!,
            routingMs: this.#settings.connectorWaitMs,
            runs: this.#store.runs,
            log,
            trace,
            stop: stop.signal,
            random: Math.random,
            report,
          })
        : await withinSpan(span, () => attemptRun({ run, tool, log, stop: stop.signal, report }));
    if (held.end === undefined) {
      // One given up though nobody stopped it: a claim token may have changed without our knowing.
      if (!stop.signal.aborted) this.#expectUnheard();
      return;
    }
    await progress.flush();
    if (await this.#record(held)) this.#observe(held, held.end);
  }

  #observe({ claim: { run }, began }: Held, end: RunEnd): void {
    const error = end.state === 'succeeded' ? undefined : end.error.name;
    this.#observer.finished({
      state: end.state,
      error,
      toolClass: run.toolClass,
      executeSeconds: (performance.now() - began) / 1000,
    });
    const fields = { ...fieldsOf(run), tool: run.tool, state: end.state };
    this.#log.debug({ ...fields, ...(error !== undefined && { error }) }, 'attempt finished');
  }

  /** Records the end of a held run, however long the store is away: the result exists only here. */
  async #record(held: Held): Promise<boolean> {
    const { claim, stop } = held;
    const fields = fieldsOf(claim.run);
    let isRepeated = false;
    for (let pauseMs = 50; ; pauseMs = Math.min(pauseMs * 2, 2_000)) {
      try {
        if (await this.#store.runs.finish(claim, held.end!)) return true;
        if (isRepeated && (await this.#isOurs(held))) return true;
        this.#log.warn(fields, 'late result discarded; the run has ended, or another attempt has it');
        return false;
      } catch (error) {
        if (stop.signal.aborted) return false;
        if (isRefused(error) && held.end!.state === 'succeeded') {
          this.#log.error({ ...fields, err: ensureError(error) }, 'the store refuses the result');
          held.end = unstorable(claim.run.tool);
          continue;
        }
        isRepeated = true;
        this.#storeFault.report({ ...fields, err: ensureError(error) }, 'result not recorded; trying again');
        await sleep(pauseMs, undefined, { signal: stop.signal }).catch(() => {});
        // Whoever stops us meanwhile takes the end from here.
        if (stop.signal.aborted) return false;
      }
    }
  }

  /** Whether the end that is recorded is the one whose answer was lost. */
  async #isOurs({ claim, end }: Held): Promise<boolean> {
    const run = await this.#store.runs.get(claim.run.id);
    return run?.state === end!.state && run.attempt === claim.run.attempt;
  }
}

/** What joins the lines about an attempt with those of other services, and with its trace. */
function fieldsOf({ id, attempt, trace }: Run): object {
  return { runId: id, attempt, traceId: traceIdOf(trace) };
}

type WhatToClaim = Pick<ClaimRequest, 'workflows' | 'definitions' | 'limit' | 'isDurable'> & {
  readonly pools: readonly ClaimPool[];
  readonly callerShare: number;
};

function byCaller(held: readonly Held[]): ClaimPool['held'] {
  const groups = Map.groupBy(held, ({ claim: { run } }) => JSON.stringify(run.principal));
  return [...groups.values()].map((group) => ({
    principal: group[0]!.claim.run.principal,
    count: group.length,
  }));
}

/** The store will never take this value, however often it is tried. */
function isRefused(error: unknown): boolean {
  return error instanceof RunError && error.code === 'internal';
}

function unstorable(tool: string): RunEnd {
  return {
    state: 'failed',
    error: {
      name: 'ToolError',
      message: `${tool} ended, but its result cannot be stored; return less, or other, from it`,
      outcome: 'ran',
      retryable: false,
    },
  };
}
