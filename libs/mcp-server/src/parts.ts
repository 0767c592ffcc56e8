import type { Outcome, ToolClass } from '@holdfast/run';

/** The lines of this library. Arguments, results and tokens are never logged. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** What happened, for metrics. */
export interface CallObserver {
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
