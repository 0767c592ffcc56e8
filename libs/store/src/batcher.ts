import { ensureError, RunError } from '@holdfast/run';

export interface BatcherOptions<Item, Result> {
  /** Does all of `items` in one step, or none; the results are in the order of the items. */
  readonly flush: (items: readonly Item[]) => Promise<readonly Result[]>;
  /** How many bytes an item brings, about. */
  readonly weigh: (item: Item) => number;
  /** Whether a failed flush is the fault of one of its items, so that each has to be tried alone. */
  readonly isItemsFault: (error: Error) => boolean;
}

const maxItems = 256;
/** Postgres takes a gigabyte in one value, and the whole statement is held in memory on both sides. */
const maxBytes = 8_000_000;
const maxInFlight = 2;

/**
 * Group commit: what is added while a flush is under way goes with the next one. There is no
 * timer, so a lone item waits only for the turn of the event loop that it came in.
 */
export class Batcher<Item, Result> {
  readonly #options: BatcherOptions<Item, Result>;
  #waiting: Waiting<Item, Result>[] = [];
  #inFlight = 0;
  #scheduled = false;
  #whenIdle: (() => void)[] = [];
  #closed = false;

  constructor(options: BatcherOptions<Item, Result>) {
    this.#options = options;
  }

  /** @throws RunError `store-closed` */
  add(item: Item): Promise<Result> {
    if (this.#closed) return Promise.reject(new RunError('store-closed', 'the store is closed'));
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      if (this.#scheduled || this.#inFlight === maxInFlight) return;
      this.#scheduled = true;
      setImmediate(() => {
        this.#scheduled = false;
        this.#start();
      });
    });
  }

  /** Takes nothing more, and resolves when all that was added is done. Safe twice. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#inFlight === 0 && this.#waiting.length === 0) return;
    await new Promise<void>((resolve) => this.#whenIdle.push(resolve));
  }

  #start(): void {
    while (this.#inFlight < maxInFlight && this.#waiting.length > 0) {
      const batch = this.#take();
      this.#inFlight++;
      void this.#flush(batch).finally(() => {
        this.#inFlight--;
        this.#start();
      });
    }
    if (this.#inFlight > 0 || this.#waiting.length > 0) return;
    for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  #take(): Waiting<Item, Result>[] {
    let bytes = 0;
    const end = this.#waiting.findIndex(({ item }, i) => {
      bytes += this.#options.weigh(item);
      return i > 0 && (i === maxItems || bytes > maxBytes);
    });
    return this.#waiting.splice(0, end === -1 ? this.#waiting.length : end);
  }

  async #flush(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    try {
      const results = await this.#options.flush(batch.map(({ item }) => item));
      for (const [i, { resolve }] of batch.entries()) resolve(results[i]!);
    } catch (thrown) {
      const error = ensureError(thrown);
      if (batch.length > 1 && this.#options.isItemsFault(error)) {
        for (const one of batch) await this.#flush([one]);
      } else {
        for (const { reject } of batch) reject(error);
      }
    }
  }
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: Error) => void;
}
