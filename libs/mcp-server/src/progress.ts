import { writeJson, type Progress } from '@holdfast/run';
import type { RequestId } from './wire-errors.js';

/**
 * Progress as a host gets it: values always rise (BEHAVIOURS 34). A reported value is sent as it
 * is when it is above the last; otherwise, and for the fillers that keep a host's timer alive, the
 * last value plus a step that grows with the time since the run was submitted. The step is far
 * below any real one, and the same on every replica.
 */
export class RisingProgress {
  #last: number | undefined;

  constructor(last?: number) {
    this.#last = last;
  }

  reported(progress: Progress, elapsedMs: number): Progress {
    const value =
      this.#last === undefined || progress.value > this.#last
        ? progress.value
        : this.#above(this.#last, elapsedMs);
    this.#last = value;
    return { ...progress, value };
  }

  filler(message: string, elapsedMs: number): Progress {
    const value = this.#above(this.#last ?? 0, elapsedMs);
    this.#last = value;
    return { value, message };
  }

  #above(last: number, elapsedMs: number): number {
    const step = Math.max(1, elapsedMs) * 1e-9;
    // A large value swallows a tiny step: take the next number that can be told apart.
    return last + step > last ? last + step : last + Math.abs(last) * Number.EPSILON * 2;
  }
}

/** Progress on the wire, of both eras. */
export function progressMessage(progressToken: RequestId, { value, total, message }: Progress): string {
  return writeJson({
    jsonrpc: '2.0',
    method: 'notifications/progress',
    params: {
      progressToken,
      progress: value,
      ...(total !== undefined && { total }),
      ...(message !== undefined && { message }),
    },
  })!;
}
