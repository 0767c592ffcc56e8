import { randomBytes } from 'node:crypto';
import { isRunId, type RunId } from '@holdfast/run';
import type { Seals } from './seal.js';
import { isRequestId, type RequestId } from './wire-errors.js';

/** Where a host is in the stream of one call: which run, which request to answer, what the host has already. */
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

/**
 * Ids of the events of a session's streams. Each says where its stream is, so that any replica can
 * take it up, and is signed for its session: whoever presents one was given it. That is the check
 * of the caller, who may own the run under an identity that only the call itself told (BEHAVIOURS 63).
 */
export class EventIds {
  readonly #seals: Seals;

  constructor(seals: Seals) {
    this.#seals = seals;
  }

  /** @param position `over`: the host said that it no longer wants the answer, so there is nothing to take up */
  write(sessionId: string, position: StreamPosition | 'over'): string {
    // Two streams may be at one place, and an id is given once in a session (MCP 2025-11-25, Resumability).
    const once = randomBytes(6).toString('base64url');
    if (position === 'over') return this.#seals.seal(purpose, sessionId, [once]);
    const { runId, requestId, progressToken = null, after, last = null } = position;
    return this.#seals.seal(purpose, sessionId, [once, runId, requestId, progressToken, after, last]);
  }

  /** Undefined for what was never given to this session. */
  read(sessionId: string, id: string): StreamPosition | 'over' | undefined {
    const parts = this.#seals.open(purpose, sessionId, id);
    if (!Array.isArray(parts)) return undefined;
    if (parts.length === 1) return 'over';
    const [, runId, requestId, progressToken, after, last] = parts as unknown[];
    // Signed by us, but perhaps by another version.
    if (typeof runId !== 'string' || !isRunId(runId) || !isRequestId(requestId) || !Number.isInteger(after))
      return undefined;
    return {
      runId,
      requestId,
      ...(isRequestId(progressToken) && { progressToken }),
      after: after as number,
      ...(typeof last === 'number' && { last }),
    };
  }
}

const purpose = 'mcp-event/v1';
