/**
 * A run: one call of one tool, kept until its retention ends.
 *
 * **queued** - `submit` puts a run here. It waits for a worker that serves its tool; it can
 * wait for ever. A claim moves it to running; a cancel ends it.
 *
 * **running** - a worker holds it under a claim token (the fence). `finish` with that token
 * ends it. When the worker's lease runs out, or the worker hands it back, it is queued again
 * and the next claim is a new attempt under a new token; the old token is then worth nothing.
 *
 * **succeeded**, **failed**, **cancelled** - terminal. Reached once, never left: a later
 * finish is discarded. Removed only by retention, counted from the terminal moment.
 */
import type { CallError } from './errors.js';
import type { Principal } from './principal.js';
import type { Progress } from './progress.js';
import type { RunId } from './run-id.js';
import type { ToolClass } from './tool-class.js';
import type { TraceContext } from './trace-context.js';
import type { UpstreamTarget } from './upstream.js';

export const runStates = ['queued', 'running', 'succeeded', 'failed', 'cancelled'] as const;
export type RunState = (typeof runStates)[number];

/** What is known of a run before anything is done about it. */
export interface NewRun {
  readonly id: RunId;
  /** Workers claim by it: prefix and tool name of a tool of theirs (BEHAVIOURS 70), or the lane of an upstream. */
  readonly workflow: string;
  readonly tool: string;
  readonly toolClass: ToolClass;
  /** null: an anonymous caller. */
  readonly principal: Principal | null;
  /** The arguments as JSON text. */
  readonly arguments: string;
  /** `a1_…` of the arguments (BEHAVIOURS R6). */
  readonly digest: string;
  /**
   * Digest of the tool definition that the call was checked against, which workers match. Empty for a
   * tool of an upstream: every worker serves those alike.
   */
  readonly definition: string;
  /** Set for a tool of an upstream. */
  readonly upstream?: UpstreamTarget;
  /** Where the call stands in a trace: what its attempts are part of, in whatever process they run (F198). */
  readonly trace?: TraceContext;
}

interface Submitted extends NewRun {
  /** Position in the order of submission, unique in the store; what notifications carry. */
  readonly seq: number;
  readonly submittedAt: Date;
  /** How often a worker has taken it; 0 until the first claim. */
  readonly attempt: number;
}

export type Run = Submitted &
  (
    | { readonly state: 'queued' }
    | { readonly state: 'running'; readonly startedAt: Date }
    | {
        readonly state: 'succeeded';
        readonly startedAt: Date | null;
        readonly finishedAt: Date;
        readonly result: string;
      }
    | {
        readonly state: 'failed' | 'cancelled';
        readonly startedAt: Date | null;
        readonly finishedAt: Date;
        readonly error: CallError;
      }
  );

export type FinishedRun = Extract<Run, { finishedAt: Date }>;

/** How a run ends. `result` is the JSON text of an MCP `CallToolResult`, passed on as it is. */
export type RunEnd =
  | { readonly state: 'succeeded'; readonly result: string }
  | { readonly state: 'failed' | 'cancelled'; readonly error: CallError };

export function isFinished(run: Run): run is FinishedRun {
  return run.state !== 'queued' && run.state !== 'running';
}

/** Something a run said while it went on; numbered from 1 within its attempt. */
export interface RunEvent {
  /** Rising within the run, across attempts: attempt × 1,000,000 + position. */
  readonly n: number;
  readonly at: Date;
  readonly progress: Progress;
}
