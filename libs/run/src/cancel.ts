import type { CallError } from './errors.js';
import type { Run } from './run.js';

/** What a cancelled run ends with, by how far it is; `dispatched` where the mark is there, whoever holds it. */
export interface CancelEnds {
  readonly queued: CallError;
  readonly running: CallError;
  readonly dispatched: CallError;
}

/**
 * Nothing happened while it was queued, anything may have while it ran. A
 * write of an upstream is sent under its dispatch mark only, which tells the two apart (BEHAVIOURS X10).
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
