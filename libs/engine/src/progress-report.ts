import { ensureError, type Log, type Progress } from '@holdfast/run';
import type { RunStore } from '@holdfast/store';
import type { HeldClaim } from './upstream-attempt.js';

/** Progress beyond this many values in one attempt is thinned to one a second. */
const maxEvents = 1_000;

/** Brings the progress of one attempt to the store, in order and together: what is added while a write is under way waits for the next. */
export class ProgressReport {
  readonly #held: HeldClaim;
  readonly #runs: Pick<RunStore, 'report'>;
  readonly #log: Log;
  #waiting: (Progress & { n: number })[] = [];
  #writing: Promise<void> | undefined;
  #count = 0;
  #lastAt = 0;

  /** @param held  asked for its claim at each write: one that is taken back goes on under another token */
  constructor(held: HeldClaim, runs: Pick<RunStore, 'report'>, log: Log) {
    this.#held = held;
    this.#runs = runs;
    this.#log = log;
  }

  add(progress: Progress): void {
    const now = performance.now();
    if (this.#count >= maxEvents && now - this.#lastAt < 1_000) return;
    this.#lastAt = now;
    // Those of a later attempt come after those of an earlier one.
    this.#waiting.push({ ...progress, n: this.#held.claim.run.attempt * 1_000_000 + ++this.#count });
    this.#writing ??= Promise.resolve().then(() => this.#write());
  }

  /** Resolves once all that was added is written, or was given up. */
  async flush(): Promise<void> {
    while (this.#writing !== undefined) await this.#writing;
  }

  async #write(): Promise<void> {
    while (this.#waiting.length > 0) {
      const events = this.#waiting;
      this.#waiting = [];
      try {
        // Refused where the run is not held under this claim any more.
        if (!(await this.#runs.report(this.#held.claim, events))) break;
      } catch (error) {
        this.#log.warn({ err: ensureError(error) }, 'progress not kept');
      }
    }
    this.#writing = undefined;
  }
}
