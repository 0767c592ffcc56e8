import type { CallError } from './errors.js';
import type { Run } from './run.js';

/** The end of a cancelled run, by its progress; `dispatched` if the mark exists, regardless of its holder. */
export interface CancelEnds {
  readonly queued: CallError;
  readonly running: CallError;
  readonly dispatched: CallError;
}

/**
 * A queued run had no effect; a running one may have had any. A write to an upstream is sent only
 * under its dispatch mark, which distinguishes the two (BEHAVIOURS X10).
 */
export function endsOfCancel({
  tool,
  toolClass,
  upstream,
}: Pick<Run, 'tool' | 'toolClass' | 'upstream'>): CancelEnds {
  const error = (name: CallError['name'], message: string, outcome: CallError['outcome']): CallError => ({
    name,
    message,
    outcome,
    retryable: false,
  });
  const mayHave = `${tool} was cancelled while it ran; it may have taken effect. Check before you call it again`;
  const whileItRan =
    toolClass === 'read'
      ? error('RunCancelled', `${tool} was cancelled while it ran`, 'ran')
      : upstream === undefined
        ? error('RunCancelled', mayHave, 'unknown')
        : error('RunCancelled', `${tool} was cancelled before it was sent`, 'not_sent');
  return {
    queued: error('RunCancelled', `${tool} was cancelled before it began`, 'not_sent'),
    running: whileItRan,
    dispatched: error('MCPCallOutcomeUnknown', mayHave, 'unknown'),
  };
}
