import { endsOfCancel, isFinished, type Run } from '@holdfast/run';
import type { Store } from '@holdfast/store';
import type { CallObserver } from './observer.js';

/**
 * Ends a run that has not ended, and stops the attempt that is under way (BEHAVIOURS X10).
 * @returns the run as it is then
 */
export async function cancelRun(
  store: Store,
  observer: Pick<CallObserver, 'runFinished'>,
  run: Run,
): Promise<Run> {
  const ended = (await store.runs.cancel(run.id, endsOfCancel(run))) ?? run;
  if (ended.state === 'cancelled' && !isFinished(run)) {
    observer.runFinished({ state: ended.state, toolClass: ended.toolClass, error: ended.error.name });
  }
  return ended;
}
