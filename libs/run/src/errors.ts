/**
 * How far a call got. This fact alone decides whether the call may be repeated:
 * - `not_sent`  nothing was started; safe to repeat
 * - `refused`   Holdfast or the upstream rejected the call before anything ran
 * - `unknown`   the call may have run; a write is never repeated
 * - `ran`       the call ran and ended as reported
 * - `pending`   the call is queued or running; repeat it with the same token
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

/**
 * The error that a caller receives for a call without a result. It is stored with a failed run, so it never contains
 * a secret of Holdfast.
 */
export interface CallError {
  readonly name: CallErrorName;
  /** One sentence with the problem and the remedy. */
  readonly message: string;
  readonly outcome: Outcome;
  /**
   * Whether a host may repeat the same call without asking: with its token if it carried one, as a new
   * call if nothing ran.
   */
  readonly retryable: boolean;
  /** What an upstream said beside its message, bounded, for programs. */
  readonly data?: unknown;
}

/** Codes of faults inside Holdfast. `store-unavailable` recovers without action; the others need a person. */
export type RunErrorCode =
  'store-unavailable' | 'store-unfit' | 'store-closed' | 'tool-registration' | 'tool-module' | 'internal';

/** A fault of Holdfast or of a system that it depends on. A host never sees it: it receives "internal error". */
export class RunError extends Error {
  readonly code: RunErrorCode;

  constructor(code: RunErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = code === 'tool-registration' ? 'ToolRegistrationError' : 'RunError';
    this.code = code;
  }
}

/** Whether the store was unavailable: the same operation may succeed later. */
export function isOutage(thrown: unknown): boolean {
  return (
    thrown instanceof RunError && (thrown.code === 'store-unavailable' || thrown.code === 'store-closed')
  );
}

/** Turns any thrown value into an Error, once per seam. */
export function ensureError(thrown: unknown): Error {
  return thrown instanceof Error
    ? thrown
    : new Error(`a value that is not an Error was thrown: ${describe(thrown)}`);
}

/**
 * The text of any value that a body threw, always as a string. A body may throw a value that is not an Error, or an
 * Error whose message is not a string or throws when it is read.
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
