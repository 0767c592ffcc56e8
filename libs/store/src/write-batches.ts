import type { NewRun, RunEnd } from '@holdfast/run';
import { Batcher } from './batcher.js';
import type { ClaimKey, Repeat, RunStore, Submission } from './contract.js';
import { upstreamText } from './rows.js';

export interface Submit {
  readonly run: NewRun;
  /** `run.upstream` as it is kept; see `upstreamText`. */
  readonly upstream: string | null;
  readonly repeat: Repeat | undefined;
  readonly now: Date | undefined;
}

export interface Finish {
  readonly claim: ClaimKey;
  readonly end: RunEnd;
  readonly now: Date | undefined;
}

export interface Report {
  readonly claim: ClaimKey;
  readonly events: Parameters<RunStore['report']>[1];
  readonly now: Date | undefined;
}

export type Dispatched = Awaited<ReturnType<RunStore['dispatch']>>;

/** How a store does many of one verb in one step; the answers are in the order of the items. */
export interface Flushes {
  submit(items: readonly Submit[]): Promise<readonly (Submission | Error)[]>;
  finish(items: readonly Finish[]): Promise<readonly (boolean | Error)[]>;
  report(items: readonly Report[]): Promise<readonly (boolean | Error)[]>;
  dispatch(items: readonly ClaimKey[]): Promise<readonly (Dispatched | Error)[]>;
  /** See `BatcherOptions`. */
  isItemsFault(error: Error): boolean;
}

/** The writes that come often, each verb gathered into steps of its own. */
export class WriteBatches implements Pick<RunStore, 'finish' | 'report' | 'dispatch'> {
  readonly #submits: Batcher<Submit, Submission | Error>;
  readonly #finishes: Batcher<Finish, boolean | Error>;
  readonly #reports: Batcher<Report, boolean | Error>;
  readonly #dispatches: Batcher<ClaimKey, Dispatched | Error>;

  constructor(flushes: Flushes) {
    const { isItemsFault } = flushes;
    this.#submits = new Batcher({
      flush: flushes.submit,
      weigh: ({ run, upstream }) => run.arguments.length + (upstream?.length ?? 0),
      isItemsFault,
    });
    this.#finishes = new Batcher({
      flush: flushes.finish,
      weigh: ({ end }) => (end.state === 'succeeded' ? end.result.length : end.error.message.length),
      isItemsFault,
    });
    this.#reports = new Batcher({
      flush: flushes.report,
      weigh: ({ events }) => events.reduce((sum, { message }) => sum + 50 + (message?.length ?? 0), 0),
      isItemsFault,
    });
    this.#dispatches = new Batcher({ flush: flushes.dispatch, weigh: () => 50, isItemsFault });
  }

  async submit(run: NewRun, repeat: Repeat | undefined, now: Date | undefined): Promise<Submission> {
    return given(await this.#submits.add({ run, upstream: upstreamText(run), repeat, now }));
  }

  async finish(claim: ClaimKey, end: RunEnd, now?: Date): Promise<boolean> {
    return given(await this.#finishes.add({ claim, end, now }));
  }

  async report(claim: ClaimKey, events: Report['events'], now?: Date): Promise<boolean> {
    return given(await this.#reports.add({ claim, events, now }));
  }

  async dispatch(claim: ClaimKey): Promise<Dispatched> {
    return given(await this.#dispatches.add(claim));
  }

  /** Takes nothing more, and resolves when all that was added is done. Safe twice. */
  async close(): Promise<void> {
    await Promise.all(
      [this.#submits, this.#finishes, this.#reports, this.#dispatches].map((batcher) => batcher.close()),
    );
  }
}

function given<Answer>(answer: Answer | Error): Answer {
  if (answer instanceof Error) throw answer;
  return answer;
}
