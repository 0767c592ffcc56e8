import type { CallError } from './errors.js';

/** What a tool says about a worker that died in its body (BEHAVIOURS 73). */
export type OnCrash = 'rerun' | 'unknown';

/**
 * A body that has taken its worker down this often is not run again: it would go through
 * every worker for ever.
 */
export const maxLostAttempts = 20;

/**
 * What becomes of a run whose earlier attempt was lost: its worker died, or was stopped
 * before the body ended. Undefined means that the body runs (again).
 *
 * @param attempt the attempt that is about to begin, from 1
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
