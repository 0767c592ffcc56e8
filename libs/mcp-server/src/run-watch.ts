import { ensureError, isFinished, type FinishedRun, type Log, type Run, type RunEvent } from '@holdfast/run';
import type { Signal, Store } from '@holdfast/store';

interface Follower {
  readonly seq: number;
  after: number;
  readonly onEvent: (event: RunEvent) => void;
  readonly onEnd: (run: FinishedRun) => void;
}

/** Ends signalled lately are remembered: one may arrive before the submission that it answers. */
const rememberedSignals = 4_096;
/** A store that does not hear signals says so itself; the poll for one that got lost is this many times slower. */
const calmFactor = 10;

/**
 * The runs that this process waits for. Woken by the store's signals; a poll covers what they
 * missed. Each look asks for all runs with news in one question, and those that arrive while a
 * look is under way share the next.
 */
export class RunWatch {
  readonly #store: Store;
  readonly #log: Log;
  readonly #followers = new Map<number, Set<Follower>>();
  readonly #recent = new Set<number>();
  readonly #unsubscribe: () => void;
  readonly #poll: NodeJS.Timeout;
  #wanted = new Set<number>();
  #looking = false;

  constructor(store: Store, pollIntervalMs: number, log: Log) {
    this.#store = store;
    this.#log = log;
    this.#unsubscribe = store.subscribe((signal) => this.#hear(signal));
    this.#poll = setInterval(() => this.#want(this.#followers.keys()), pollIntervalMs * calmFactor).unref();
  }

  /** How many calls wait. */
  get waiting(): number {
    let count = 0;
    for (const followers of this.#followers.values()) count += followers.size;
    return count;
  }

  /**
   * Resolves to the run once it has ended, after its events behind `after` were given, in order.
   * Rejects with the reason of `signal` when that aborts; the run goes on.
   *
   * @param isNew this process has just made the run, so there is nothing to see yet
   */
  follow(
    run: Run,
    options: { isNew: boolean; after?: number; onEvent: (event: RunEvent) => void; signal: AbortSignal },
  ): Promise<FinishedRun> {
    const { isNew, after = 0, onEvent, signal } = options;
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(ensureError(signal.reason));
      const leave = (): void => {
        const group = this.#followers.get(run.seq);
        group?.delete(follower);
        if (group?.size === 0) this.#followers.delete(run.seq);
        signal.removeEventListener('abort', giveUp);
      };
      const giveUp = (): void => {
        leave();
        reject(ensureError(signal.reason));
      };
      const follower: Follower = {
        seq: run.seq,
        after,
        onEvent,
        onEnd: (ended) => {
          leave();
          resolve(ended);
        },
      };
      signal.addEventListener('abort', giveUp, { once: true });
      const group = this.#followers.get(run.seq);
      if (group === undefined) this.#followers.set(run.seq, new Set([follower]));
      else group.add(follower);
      if (!isNew || this.#recent.has(run.seq)) this.#want([run.seq]);
    });
  }

  close(): void {
    this.#unsubscribe();
    clearInterval(this.#poll);
  }

  #hear(signal: Signal): void {
    if (signal.kind === 'everything') this.#want(this.#followers.keys());
    if (signal.kind !== 'runs') return;
    for (const seq of signal.seqs) {
      this.#recent.add(seq);
      if (this.#recent.size > rememberedSignals) this.#recent.delete(this.#recent.values().next().value!);
    }
    this.#want(signal.seqs);
  }

  #want(seqs: Iterable<number>): void {
    for (const seq of seqs) if (this.#followers.has(seq)) this.#wanted.add(seq);
    if (this.#looking || this.#wanted.size === 0) return;
    this.#looking = true;
    // In a microtask, so that the signals of one turn share a look.
    queueMicrotask(() => {
      void this.#look().finally(() => {
        this.#looking = false;
        this.#want([]);
      });
    });
  }

  async #look(): Promise<void> {
    const followers = [...this.#wanted].flatMap((seq) => [...(this.#followers.get(seq) ?? [])]);
    this.#wanted = new Set();
    if (followers.length === 0) return;
    const after = new Map<number, number>();
    for (const follower of followers)
      after.set(follower.seq, Math.min(follower.after, after.get(follower.seq) ?? Infinity));
    try {
      const news = await this.#store.runs.news([...after].map(([seq, known]) => ({ seq, after: known })));
      for (const { seq, events, ended } of news) {
        for (const follower of [...(this.#followers.get(seq) ?? [])]) {
          // Who joined during the look may know less than was asked for: the next look serves him.
          if (follower.after < after.get(seq)!) {
            this.#wanted.add(seq);
            continue;
          }
          for (const event of events) {
            if (event.n <= follower.after) continue;
            follower.after = event.n;
            follower.onEvent(event);
          }
          if (ended !== undefined && isFinished(ended)) follower.onEnd(ended);
        }
      }
    } catch (error) {
      this.#log.warn(
        { runs: after.size, err: ensureError(error) },
        'waiting runs not looked at; trying again',
      );
    }
  }
}
