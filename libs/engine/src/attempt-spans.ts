import { endSpan, runAttributes, startSpan, type RunEnd, type Span } from '@holdfast/run';
import type { Claim } from '@holdfast/store';

/** How long a run waited for a worker, by the clock of the store. */
export function traceWait(run: Claim['run']): void {
  if (run.trace === undefined) return;
  const wait = startSpan('queue', {
    kind: 'internal',
    parent: run.trace,
    attributes: runAttributes(run),
    startTime: run.submittedAt,
  });
  endSpan(wait, { endTime: run.startedAt });
}

/** Every attempt, on whatever worker, is in the trace of its call (F198). */
export function attemptSpan(run: Claim['run']): Span {
  return startSpan('attempt', {
    kind: 'consumer',
    parent: run.trace,
    attributes: { ...runAttributes(run), 'holdfast.run.attempt': run.attempt },
  });
}

/** One that was stopped has no end of its own: its run goes on elsewhere, or was cancelled. */
export function endAttemptSpan(span: Span, end: RunEnd | undefined, { aborted, reason }: AbortSignal): void {
  if (end === undefined) {
    span.setAttribute('holdfast.stop', aborted ? String(reason) : 'given-up');
    return endSpan(span);
  }
  const { state } = end;
  span.setAttributes({
    'holdfast.run.state': state,
    'holdfast.outcome': state === 'succeeded' ? 'ran' : end.error.outcome,
  });
  endSpan(span, { errorType: state === 'succeeded' ? undefined : end.error.name });
}
