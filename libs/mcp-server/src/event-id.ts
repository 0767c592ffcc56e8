import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { isRunId, parseJson, writeJson, type RunId } from '@holdfast/run';
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
  readonly #keys: readonly [Uint8Array, ...Uint8Array[]];

  /** @param keys the first signs; ids signed with the others are good too */
  constructor(keys: readonly [Uint8Array, ...Uint8Array[]]) {
    this.#keys = keys;
  }

  /** @param position `over`: the host said that it no longer wants the answer, so there is nothing to take up */
  write(sessionId: string, position: StreamPosition | 'over'): string {
    // Two streams may be at one place, and an id is given once in a session (MCP 2025-11-25, Resumability).
    const once = randomBytes(6).toString('base64url');
    const parts =
      position === 'over'
        ? [once]
        : [
            once,
            position.runId,
            position.requestId,
            position.progressToken ?? null,
            position.after,
            position.last ?? null,
          ];
    const text = Buffer.from(writeJson(parts)!).toString('base64url');
    return `${text}.${sign(this.#keys[0], sessionId, text).toString('base64url')}`;
  }

  /** Undefined for what was never given to this session. */
  read(sessionId: string, id: string): StreamPosition | 'over' | undefined {
    const [text = '', signature = ''] = id.split('.');
    const presented = Buffer.from(signature, 'base64url');
    const isOurs = this.#keys.some((key) => {
      const expected = sign(key, sessionId, text);
      return presented.length === expected.length && timingSafeEqual(presented, expected);
    });
    if (!isOurs) return undefined;
    const parts = parseJson(Buffer.from(text, 'base64url').toString()) as unknown[];
    if (parts.length === 1) return 'over';
    const [, runId, requestId, progressToken, after, last] = parts;
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

/** The prefix keeps these apart from the other uses of the key (BEHAVIOURS R5). */
function sign(key: Uint8Array, sessionId: string, text: string): Buffer {
  return createHmac('sha256', key).update(`mcp-event/v1 ${sessionId} ${text}`).digest().subarray(0, 16);
}
