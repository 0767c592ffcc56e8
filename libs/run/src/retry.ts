import type { CallError, CallErrorName } from './errors.js';
import type { RunEnd } from './run.js';
import type { ToolClass } from './tool-class.js';
import type { UpstreamOutcome } from './upstream.js';

/** The declaration of a tool for the case that its worker dies in the body (BEHAVIOURS 73). */
export type OnCrash = 'rerun' | 'unknown';

/**
 * A body that has taken down its worker this often does not run again: it would take down
 * one worker after another for ever.
 */
export const maxLostAttempts = 20;

/**
 * Decides about a run whose earlier attempt was lost: its worker died, or stopped
 * before the body ended. Undefined means that the body runs (again).
 *
 * @param attempt the attempt that is about to start, from 1
 */
export function afterLostAttempt(tool: string, attempt: number, onCrash: OnCrash): CallError | undefined {
  if (attempt <= 1) return undefined;
  if (onCrash === 'unknown') {
    return {
      name: 'OutcomeUnknown',
      message: `the worker stopped while ${tool} ran; it may or may not have taken effect. Check before you call it again`,
      outcome: 'unknown',
      retryable: false,
    };
  }
  if (attempt <= maxLostAttempts) return undefined;
  return {
    name: 'OutcomeUnknown',
    message: `${tool} was given up: ${maxLostAttempts} workers stopped while they ran it. Check its effect and the tool before you call it again`,
    outcome: 'unknown',
    retryable: false,
  };
}

/** The facts about a call of an upstream tool that a decision needs. */
export interface UpstreamCall {
  /** The name that hosts see. */
  readonly tool: string;
  readonly toolClass: ToolClass;
  /** Whether the call may be sent again if its outcome is unknown (BEHAVIOURS R13). */
  readonly isResendable: boolean;
}

/** The state of one attempt of a run at such a call. */
export interface UpstreamAttempt extends UpstreamCall {
  /** Sends after the first that the server's rules allow (BEHAVIOURS 134). */
  readonly retry: number;
  /** How often this attempt has sent the call, including the send that produced `outcome`. */
  readonly sends: number;
  /** Whether this attempt has already waited once because the upstream asked for it. */
  readonly hasWaited: boolean;
}

/** The action of a worker after an outcome: send again after a pause, or record the end. */
export type AfterUpstream =
  | {
      readonly again: true;
      readonly waitMs: number;
      /** The upstream asked for this pause. An attempt waits so only once, and the next send does not count against the budget. */
      readonly isAskedFor: boolean;
    }
  | { readonly again: false; readonly end: RunEnd };

const backoffMs = 500;
const longestBackoffMs = 5_000;
/** A worker does not wait for an upstream that asks for a longer pause (BEHAVIOURS R16). */
const longestAskedMs = 5_000;

/**
 * The only decision about an outcome (BEHAVIOURS 128-134, R16). A call that ran, was refused or never left has
 * ended: the connector has already retried everything before a send. A worker sends again only after an unknown
 * outcome, if the call may be repeated and within the budget, and once if the upstream asked to come back later.
 *
 * @param random from 0 up to 1, for the jitter
 */
export function afterUpstream(
  outcome: UpstreamOutcome,
  attempt: UpstreamAttempt,
  random: number,
): AfterUpstream {
  const { tool, isResendable, retry, sends, hasWaited } = attempt;
  const failed = (error: CallError): AfterUpstream => ({ again: false, end: { state: 'failed', error } });
  switch (outcome.kind) {
    case 'ran':
      return outcome.error === undefined
        ? { again: false, end: { state: 'succeeded', result: outcome.result } }
        : failed({ name: 'MCPToolError', message: outcome.error, outcome: 'ran', retryable: false });
    case 'refused':
    case 'not_sent': {
      const waitMs = outcome.kind === 'refused' ? outcome.retryAfterMs : undefined;
      if (waitMs !== undefined && waitMs <= longestAskedMs && isResendable && !hasWaited)
        return { again: true, waitMs, isAskedFor: true };
      return failed({
        name: outcome.name,
        message: outcome.message,
        outcome: outcome.kind,
        retryable: waitMs !== undefined || healing.has(outcome.name),
        ...(outcome.kind === 'refused' && outcome.data !== undefined && { data: outcome.data }),
      });
    }
    case 'unknown':
      if (isResendable && outcome.why !== 'aborted' && sends <= retry) {
        const most = Math.min(backoffMs * 2 ** (sends - 1), longestBackoffMs);
        return { again: true, waitMs: Math.floor(random * most), isAskedFor: false };
      }
      return failed(unknownOutcome(attempt, `${tool}: ${outcome.message}`, outcome.why));
  }
}

/** Refusals of these names come from a system that may be available again a moment later, and nothing ran. */
const healing: ReadonlySet<CallErrorName> = new Set(['MCPConnectionError', 'MCPServerUnavailable']);

/** The end of a call that may have run and is not sent again. After a read, the caller need not check anything. */
function unknownOutcome(
  { toolClass, isResendable }: UpstreamCall,
  seen: string,
  why: Extract<UpstreamOutcome, { kind: 'unknown' }>['why'],
): CallError {
  if (toolClass === 'write') {
    return {
      name: 'MCPCallOutcomeUnknown',
      message: `${seen}; it may have run. Check its effect before you call it again`,
      outcome: 'unknown',
      retryable: isResendable,
    };
  }
  return {
    name: why === 'timeout' ? 'RunTimeout' : 'MCPConnectionError',
    message: `${seen}; it only reads, so it can be called again`,
    outcome: 'unknown',
    retryable: true,
  };
}

/**
 * Decides about a run for an upstream whose earlier attempt was lost (BEHAVIOURS X11). Undefined means
 * that the run continues. A write is sent only under a dispatch mark, so without the mark it never left.
 *
 * @param attempt the attempt that is about to start, from 1
 * @param isDispatched whether an earlier attempt made the dispatch mark
 * @param onCrash the setting of the operator; unset means `unknown` for a call that may not be sent again
 */
export function afterLostUpstreamAttempt(
  call: UpstreamCall,
  {
    attempt,
    isDispatched,
    onCrash,
  }: { readonly attempt: number; readonly isDispatched: boolean; readonly onCrash?: OnCrash | undefined },
): CallError | undefined {
  if (attempt <= 1) return undefined;
  const { tool, toolClass, isResendable } = call;
  const rerun = (onCrash ?? (isResendable ? 'rerun' : 'unknown')) === 'rerun';
  const mayHaveTakenEffect = toolClass === 'write' && isDispatched;
  if (!rerun && mayHaveTakenEffect)
    return unknownOutcome(call, `${tool}: the worker stopped while the call was under way`, 'dropped');
  if (attempt <= maxLostAttempts) return undefined;
  const seen = `${tool} was given up: ${maxLostAttempts} workers stopped while they called it`;
  if (mayHaveTakenEffect || toolClass === 'read') return unknownOutcome(call, seen, 'dropped');
  return { name: 'MCPServerUnavailable', message: `${seen}, before it was sent`, outcome: 'not_sent', retryable: true }; // prettier-ignore
}
