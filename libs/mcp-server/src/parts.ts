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
  submitted(run: { readonly toolClass: ToolClass; readonly reattached: boolean }): void;
  answered(call: { readonly outcome: Outcome | 'protocol_error' | 'gone'; readonly seconds: number }): void;
}
