import { ensureError } from '@holdfast/run';
import type { Store } from './contract.js';

export interface RetentionSettings {
  /** How long a run is kept after it ended. */
  readonly retentionMs: number;
  /** How long its token is remembered beyond that; 0 forgets it with the run. */
  readonly tombstoneMs: number;
}

const sweepEveryMs = 60_000;
/** Small steps, so that removing never holds up what is served. */
const stepSize = 500;

/** Removes what has outlived its retention, for as long as the process lives. Several processes may. */
export function keepRetention(
  store: Store,
  { retentionMs, tombstoneMs }: RetentionSettings,
  log: { warn(fields: object, message: string): void },
): { stop(): void } {
  let isStopped = false;
  const sweep = async (): Promise<void> => {
    const now = Date.now();
    const remember = tombstoneMs > 0 ? { rememberUntil: new Date(now + tombstoneMs) } : {};
    while (
      !isStopped &&
      (await store.runs.removeFinished(new Date(now - retentionMs), stepSize, remember)) === stepSize
    );
  };
  const timer = setInterval(
    () => {
      sweep().catch((error: unknown) =>
        log.warn({ err: ensureError(error) }, 'old runs not removed; trying again later'),
      );
    },
    Math.min(sweepEveryMs, retentionMs),
  ).unref();
  return {
    stop: () => {
      isStopped = true;
      clearInterval(timer);
    },
  };
}
