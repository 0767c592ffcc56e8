import { ensureError, type Log, type Progress } from '@holdfast/run';
import type { Claim, RunStore } from '@holdfast/store';

/** Progress beyond this many values in one attempt is thinned to one a second. */
const maxEvents = 1_000;

/** Brings the progress of one attempt to the store, in order and together: what is added while a write is under way waits for the next. */
export class ProgressReport {
  readonly #claim: Claim;
  readonly #runs: Pick<RunStore, 'report'>;
  readonly #log: Log;
  #waiting: (Progress & { n: number })[] = [];
  #writing: Promise<void> | undefined;
  #count = 0;
  #lastAt = 0;

  constructor(claim: Claim, runs: Pick<RunStore, 'report'>, log: Log) {
    this.#claim = claim;
    this.#runs = runs;
    this.#log = log;
  }

  add(progress: Progress): void {
    const now = performance.now();
    if (this.#count >= maxEvents && now - this.#lastAt < 1_000) return;
    this.#lastAt = now;
    // Those of a later attempt come after those of an earlier one.
    this.#waiting.push({ ...progress, n: this.#claim.run.attempt * 1_000_000 + ++this.#count });
    this.#writing ??= Promise.resolve()
      .then(() => this.#write())
      .finally(() => (this.#writing = undefined));
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
        if (!(await this.#runs.report(this.#claim, events))) return;
      } catch (error) {
        this.#log.warn({ err: ensureError(error) }, 'progress not kept');
      }
    }
  }
}
