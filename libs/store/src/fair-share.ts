import { createHash } from 'node:crypto';
import type { Principal } from '@holdfast/run';
import type { Claim, ClaimPool, ClaimRequest } from './contract.js';

/**
 * How claims are shared among callers. Every queued run has a turn: how many runs its caller would hold at the
 * worker with it. Runs are taken by turn, and by age among those of one turn, so a caller with hundreds of queued
 * runs waits behind the first run of another. Within a pool of slots a caller never takes what others leave free
 * down to nothing: of the slots that the others do not use it gets at most its share. A caller that holds nothing
 * always gets a free slot.
 *
 * Only the oldest `headSize` due runs are looked at, and where there are more, the oldest of each caller as well.
 */
export const headSize = 128;
/** The most callers behind the head that one claim looks at. The others come to the head by age. */
export const mostCallers = 256;

/** What a store keeps of a caller to tell it from others: short, whatever its name is. '' for nobody. */
export function callerKey(principal: Principal | null): string {
  return principal === null
    ? ''
    : createHash('sha1').update(`${principal.realm}\n${principal.id}`).digest('hex').slice(0, 20);
}

export interface Share {
  /** Of each workflow, in one order: its pool, and the free slots of that pool. */
  readonly workflows: readonly string[];
  readonly pools: readonly number[];
  readonly free: readonly number[];
  readonly held: readonly { readonly pool: number; readonly caller: string; readonly count: number }[];
  /** In percent. */
  readonly share: number;
}

/** @param keyOf  `callerKey`, where a store writes names in its own way */
export function shareOf(request: ClaimRequest, keyOf = callerKey): Share {
  const pools = poolsOf(request);
  const served = pools.flatMap((pool, i) => pool.workflows.map((workflow) => ({ workflow, pool: i })));
  const held = pools.flatMap((pool, i) => {
    const counts = new Map<string, number>();
    for (const { principal, count } of pool.held)
      counts.set(keyOf(principal), (counts.get(keyOf(principal)) ?? 0) + count);
    return [...counts].map(([caller, count]) => ({ pool: i, caller, count }));
  });
  return {
    workflows: served.map(({ workflow }) => workflow),
    pools: served.map(({ pool }) => pool),
    free: served.map(({ pool }) => pools[pool]!.free),
    held,
    share: request.callerShare ?? 100,
  };
}

const poolsOf = ({ workflows, limit, pools }: ClaimRequest): readonly ClaimPool[] =>
  pools ?? [{ workflows, free: limit, held: [] }];

/** What is left to claim of a request when these were. */
export function withoutClaimed(request: ClaimRequest, claims: readonly Claim[]): ClaimRequest {
  const pools = poolsOf(request).map((pool) => {
    const taken = claims.filter(({ run }) => pool.workflows.includes(run.workflow));
    const held = [...pool.held, ...taken.map(({ run }) => ({ principal: run.principal, count: 1 }))];
    return { ...pool, free: pool.free - taken.length, held };
  });
  return { ...request, limit: request.limit - claims.length, pools };
}

/** Whether a caller with this turn may take one of `free` slots. */
function mayTake(turn: number, free: number, share: number): boolean {
  return free > 0 && (turn === 1 || turn * (100 - share) <= share * (free - 1));
}

/** Whether a caller of the pool may take no more now, though there may be room for others. */
export function hasCallerAtShare({ free, held }: ClaimPool, share: number): boolean {
  return held.some(({ count }) => !mayTake(count + 1, free, share));
}

interface Candidate {
  readonly seq: number;
  readonly caller: string;
  readonly workflow: string;
}

/** Those of `candidates` that a claim takes, by turn and age. */
export function chooseFairly<One extends Candidate>(
  candidates: readonly One[],
  { workflows, pools, free, held, share }: Share,
  limit: number,
): One[] {
  const turns = new Map(held.map(({ pool, caller, count }) => [`${pool} ${caller}`, count]));
  const ranked = [...candidates]
    .sort((a, b) => a.seq - b.seq)
    .map((one) => {
      const i = workflows.indexOf(one.workflow);
      const key = `${pools[i]} ${one.caller}`;
      const turn = (turns.get(key) ?? 0) + 1;
      turns.set(key, turn);
      return { one, turn, pool: pools[i]!, free: free[i]! };
    })
    .sort((a, b) => a.turn - b.turn || a.one.seq - b.one.seq);
  const places = new Map<number, number>();
  return ranked
    .filter(({ turn, pool, free }) => {
      const place = (places.get(pool) ?? 0) + 1;
      places.set(pool, place);
      return mayTake(turn, free - place + 1, share);
    })
    .slice(0, limit)
    .map(({ one }) => one);
}
