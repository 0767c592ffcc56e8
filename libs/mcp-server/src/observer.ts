import type { Outcome, ToolClass } from '@holdfast/run';

/** What happened, for metrics. */
export interface CallObserver {
  /** A request that was not served. */
  refused(reason: string): void;
  runSubmitted(run: { readonly toolClass: ToolClass; readonly reattached: boolean }): void;
  /** A run that ended without a worker: it was cancelled. */
  runFinished(run: {
    readonly state: 'cancelled';
    readonly toolClass: ToolClass;
    readonly error: string;
  }): void;
  callStarted(): void;
  /** `left`: the host went away before the answer. */
  callFinished(call: { readonly outcome: Outcome | 'left'; readonly seconds: number }): void;
}
