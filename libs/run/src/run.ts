/**
 * A run: one call of one tool, kept until its retention ends.
 *
 * **queued** - `submit` puts a run here. The run waits for a worker that serves its tool, if
 * necessary for ever. A claim moves it to running; a cancel ends it.
 *
 * **running** - a worker holds it under a claim token (the fence). `finish` with that token
 * ends it. When the worker's lease expires, or the worker hands the run back, it is queued again
 * and the next claim is a new attempt under a new token. The old token is then invalid.
 *
 * **succeeded**, **failed**, **cancelled** - terminal. Reached once, never left: a later
 * finish is discarded. Only retention removes a run, counted from the terminal moment.
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

/** The facts about a run at its submission. */
export interface NewRun {
  readonly id: RunId;
  /** Workers claim by it: prefix and name of a local tool (BEHAVIOURS 70), or the lane of an upstream. */
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
   * Digest of the tool definition that the call was checked against; workers match it. Empty for a
   * tool of an upstream, which every worker serves alike.
   */
  readonly definition: string;
  /** Set for a tool of an upstream. */
  readonly upstream?: UpstreamTarget;
  /** Position of the call in a trace: the parent of its attempts, in any process (F198). */
  readonly trace?: TraceContext;
}

interface Submitted extends NewRun {
  /** Position in the order of submission, unique in the store; notifications carry it. */
  readonly seq: number;
  readonly submittedAt: Date;
  /** How often a worker has claimed it; 0 until the first claim. */
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

/** The end of a run. `result` is the JSON text of an MCP `CallToolResult`, passed on unchanged. */
export type RunEnd =
  | { readonly state: 'succeeded'; readonly result: string }
  | { readonly state: 'failed' | 'cancelled'; readonly error: CallError };

export function isFinished(run: Run): run is FinishedRun {
  return run.state !== 'queued' && run.state !== 'running';
}

/** A report of a running run; numbered from 1 within its attempt. */
export interface RunEvent {
  /** Rising within the run, across attempts: attempt × 1,000,000 + position. */
  readonly n: number;
  readonly at: Date;
  readonly progress: Progress;
}
