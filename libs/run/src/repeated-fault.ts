import type { Clock } from './clock.js';
import type { Log } from './log.js';

/** One fault that repeats while it lasts, such as "the store cannot be reached". */
export interface RepeatedFault {
  /** Writes a warning, unless one was written within the interval; then it only counts. */
  report(fields: object, message: string): void;
  /** Says once that the fault is over, with how often it was not written; nothing when there was none. */
  recovered(fields: object, message: string): void;
}

/**
 * Keeps a repeating fault to one warning per interval. A written line carries `suppressed`, the number of
 * reports left out since the line before it.
 */
export function onceEvery(log: Pick<Log, 'warn' | 'info'>, intervalMs: number, clock: Clock): RepeatedFault {
  let writtenAt: number | undefined;
  let suppressed = 0;
  return {
    report(fields, message) {
      const now = clock().getTime();
      const sinceMs = writtenAt === undefined ? Infinity : now - writtenAt;
      // A clock that was set back must not silence a fault for as long as it was off.
      if (sinceMs >= 0 && sinceMs < intervalMs) {
        suppressed += 1;
        return;
      }
      log.warn(suppressed > 0 ? { ...fields, suppressed } : fields, message);
      writtenAt = now;
      suppressed = 0;
    },
    recovered(fields, message) {
      if (writtenAt === undefined) return;
      log.info(suppressed > 0 ? { ...fields, suppressed } : fields, message);
      writtenAt = undefined;
      suppressed = 0;
    },
  };
}
