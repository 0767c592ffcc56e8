import { isRunId, type Principal, type RunId } from '@holdfast/run';
import { callerKey } from './limits.js';
import type { Seals } from './seal.js';

/** Where a stream broke. */
export interface ResumePoint {
  /** `n` of the last event that the host has. */
  readonly after: number;
  /** The last value of progress that the host has. */
  readonly last?: number;
}

/** A call that a draining gateway handed over, as its host brings it to another. */
export interface HandedCall {
  readonly runId: RunId;
  readonly from: ResumePoint;
}

const purpose = 'mcp-state/v1';
/** A host comes back at once; one that was asleep meanwhile calls again with its token. */
const goodForMs = 3_600_000;

/** The `requestState` of a call, signed for who made it (MCP 2026-07-28, multi round-trip requests). */
export function writeRequestState(
  seals: Seals,
  principal: Principal | null,
  { runId, from }: HandedCall,
  nowMs: number,
): string {
  return seals.seal(purpose, callerKey(principal) ?? '', [
    runId,
    from.after,
    from.last ?? null,
    nowMs + goodForMs,
  ]);
}

/** Undefined for what was never given to this caller, or too long ago. */
export function readRequestState(
  seals: Seals,
  principal: Principal | null,
  state: string,
  nowMs: number,
): HandedCall | undefined {
  const parts = seals.open(purpose, callerKey(principal) ?? '', state);
  if (!Array.isArray(parts)) return undefined;
  const [runId, after, last, goodUntil] = parts as unknown[];
  if (
    typeof runId !== 'string' ||
    !isRunId(runId) ||
    typeof after !== 'number' ||
    typeof goodUntil !== 'number'
  )
    return undefined;
  if (goodUntil < nowMs) return undefined;
  return { runId, from: { after, ...(typeof last === 'number' && { last }) } };
}
