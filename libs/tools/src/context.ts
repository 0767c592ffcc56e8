import type { Log, Principal, RunId } from '@holdfast/run';

/** What a body gets beside its arguments. */
export interface ToolContext {
  /** The run; stable across attempts, so a good idempotency key for what the body calls. */
  readonly runId: RunId;
  /** From 1; above 1 when an earlier attempt was lost with its worker. */
  readonly attempt: number;
  /** Who called; null when nobody authenticated. */
  readonly principal: Principal | null;
  /** Aborts at the tool's time limit, on a run cancel, and when the worker loses its lease. */
  readonly signal: AbortSignal;
  /** Tells the host how far the body is. Values must rise; a call never waits and never fails. */
  progress(value: number, total?: number, message?: string): void;
  /** `fetch` that aborts with `signal`. */
  readonly http: typeof fetch;
  /** Its lines carry the run id by themselves. */
  readonly log: Log;
}
