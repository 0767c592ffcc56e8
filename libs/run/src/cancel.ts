import type { CallError } from './errors.js';
import type { Run } from './run.js';

/** What a cancelled run ends with: nothing happened while it was queued, anything may have while it ran. */
export function endsOfCancel({ tool, toolClass }: Pick<Run, 'tool' | 'toolClass'>): {
  readonly queued: CallError;
  readonly running: CallError;
} {
  const error = (message: string, outcome: CallError['outcome']): CallError => ({
    name: 'RunCancelled',
    message,
    outcome,
    retryable: false,
  });
  return {
    queued: error(`${tool} was cancelled before it began`, 'not_sent'),
    running:
      toolClass === 'read'
        ? error(`${tool} was cancelled while it ran`, 'ran')
        : error(
            `${tool} was cancelled while it ran; it may have taken effect. Check before you call it again`,
            'unknown',
          ),
  };
}
