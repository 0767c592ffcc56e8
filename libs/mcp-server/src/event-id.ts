import { isRunId, parseJson, writeJson, type RunId } from '@holdfast/run';
import { isRequestId, type RequestId } from './wire-errors.js';

/**
 * Where a host is in the stream of one call. The id of each event says it all, so that any
 * replica can take the stream up: which run, which request to answer, with which progress token,
 * and what the host has already.
 */
export interface StreamPosition {
  readonly runId: RunId;
  readonly requestId: RequestId;
  /** Absent when the host asked for no progress. */
  readonly progressToken?: RequestId;
  /** `n` of the last event of the run that was sent; 0 before the first. */
  readonly after: number;
  /** The last value of progress that was sent. */
  readonly last?: number;
}

export function writeEventId({ runId, requestId, progressToken, after, last }: StreamPosition): string {
  return Buffer.from(writeJson([runId, requestId, progressToken ?? null, after, last ?? null])!).toString(
    'base64url',
  );
}

/** Undefined for what was never an id of ours. The caller is checked against the run, not against the id. */
export function readEventId(id: string): StreamPosition | undefined {
  try {
    const parts = parseJson(Buffer.from(id, 'base64url').toString()) as unknown[];
    const [runId, requestId, progressToken, after, last] = parts;
    if (parts.length !== 5 || typeof runId !== 'string' || !isRunId(runId) || !isRequestId(requestId))
      return undefined;
    if (typeof after !== 'number' || !Number.isInteger(after)) return undefined;
    return {
      runId,
      requestId,
      ...(isRequestId(progressToken) && { progressToken }),
      after,
      ...(typeof last === 'number' && { last }),
    };
  } catch {
    return undefined;
  }
}
