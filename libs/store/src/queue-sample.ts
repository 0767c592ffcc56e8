/** How many queued runs are counted one by one: what an autoscaler must know exactly is less. */
export const queueHead = 2_000;
/** How much of what is behind them is looked at, and in how many places. */
export const stretchCount = 12;
export const stretchLength = 20;

/** What a look at the queue gives. */
export interface QueueSample {
  /** Queued runs at its head, `queueHead` at most. */
  readonly counted: number;
  /** How far the sequence goes on behind them; null where they are all. */
  readonly behind: number | null;
  /** In how much of that it was looked, and how many queued runs were there. */
  readonly looked: number | null;
  readonly found: number | null;
}

/** How many runs are queued: never less than were counted, and as many as could be at the most. */
export function queuedOf({ counted, behind, looked, found }: QueueSample): number {
  if (behind === null || looked === null || found === null || looked === 0) return counted;
  return counted + Math.round((found / looked) * behind);
}
