import { onceEvery, systemClock, type Log } from '@holdfast/run';
import type { Health } from './health.js';

export interface StoreReadiness {
  failed(error: Error): void;
  reached(): void;
}

/** Tells readiness and the log how the first reach for the store goes. */
export function storeReadiness(health: Health, log: Log): StoreReadiness {
  const condition = health.condition('store');
  const outage = onceEvery(log, 10_000, systemClock);
  condition.waiting('the store was not reached yet');
  return {
    failed: (error) => {
      condition.waiting(error.message);
      outage.report({ err: error }, 'the store cannot be reached; trying again');
    },
    reached: () => {
      outage.recovered({}, 'the store is reached');
      condition.met();
    },
  };
}
