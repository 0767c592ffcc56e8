/**
 * How far a call got. The one fact that decides whether it may be made again:
 * - `not_sent`  nothing was started; safe to repeat
 * - `refused`   we or the upstream said no before anything ran
 * - `unknown`   it may have run; a write is never repeated
 * - `ran`       it ran and ended as told
 * - `pending`   it is queued or running now; come back with the same token
 */
export type Outcome = 'not_sent' | 'refused' | 'unknown' | 'ran' | 'pending';

/** Every error name a caller can see (BEHAVIOURS 11). Pinned: hosts and agents match on them. */
export const callErrorNames = [
  'IdempotencyConflict',
  'IdempotencyExpired',
  'InvalidIdempotencyToken',
  'InvalidArguments',
  'WaitTimeout',
  'RunTimeout',
  'RunCancelled',
  'ToolError',
  'OutcomeUnknown',
  'ApprovalUnavailable',
  'MCPToolError',
  'MCPAuthError',
  'MCPConnectionError',
  'MCPCallOutcomeUnknown',
  'MCPServerUnavailable',
  'ToolWithdrawn',
  'InternalError',
] as const;

export type CallErrorName = (typeof callErrorNames)[number];

/** What a caller is told about a call that has no result. Stored with a failed run, so it never holds a secret of ours. */
export interface CallError {
  readonly name: CallErrorName;
  /** One sentence: what is wrong and what to do. */
  readonly message: string;
  readonly outcome: Outcome;
  /**
   * Whether the same call may be made again by itself: with its token where it carried one, as a new
   * call where nothing ran.
   */
  readonly retryable: boolean;
}

/** Codes of faults inside Holdfast. `store-unavailable` heals by itself; the others need a person. */
export type RunErrorCode =
  'store-unavailable' | 'store-unfit' | 'store-closed' | 'tool-registration' | 'tool-module' | 'internal';

/** A fault of ours or of what we stand on. Never shown to a host: it learns "internal error". */
export class RunError extends Error {
  readonly code: RunErrorCode;

  constructor(code: RunErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = code === 'tool-registration' ? 'ToolRegistrationError' : 'RunError';
    this.code = code;
  }
}

/** Whether the store was not there: the same may go through later. */
export function isOutage(thrown: unknown): boolean {
  return (
    thrown instanceof RunError && (thrown.code === 'store-unavailable' || thrown.code === 'store-closed')
  );
}

/** Turns whatever was thrown into an Error, once per seam. */
export function ensureError(thrown: unknown): Error {
  return thrown instanceof Error
    ? thrown
    : new Error(`a value that is no Error was thrown: ${describe(thrown)}`);
}

/**
 * The text of whatever a body threw, as a string in every case: a body may throw what is no Error,
 * or one whose message is no string, or throws itself.
 */
export function messageOf(thrown: unknown): string {
  try {
    const message: unknown = thrown instanceof Error ? thrown.message : thrown;
    if (message === undefined || message === null) return '';
    return typeof message === 'object' ? describe(message) : String(message);
  } catch {
    return 'an error that cannot be read';
  }
}

function describe(value: unknown): string {
  if (typeof value === 'string') return value;
  try {
    return JSON.stringify(value) ?? typeof value;
  } catch {
    return typeof value;
  }
}
