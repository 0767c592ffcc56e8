import type { Run, RunId } from '@holdfast/run';
import type { Store } from '@holdfast/store';

/** Looks again until there is something; the time limit of the test is the limit. */
export async function until<T>(
  look: () => Promise<T | undefined | false> | T | undefined | false,
): Promise<T> {
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

/** The run once it has ended. */
export const end = (store: Store, id: RunId): Promise<Run> =>
  until(async () => {
    const run = await store.runs.get(id);
    return run !== undefined && 'finishedAt' in run && run;
  });

/** A log for units that are not asked about theirs. */
export const silent = { debug() {}, info() {}, warn() {}, error() {}, child: () => silent };
