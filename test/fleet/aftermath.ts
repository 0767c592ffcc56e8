import { inTurns } from '../chaos/in-turns.ts';
import { readJournal } from '../system/fleet.ts';
import { bearer, errorNameOf, runOf, textOf, type ToolResult } from '../system/host.ts';
import type { KeptExecution } from '../servers/index.ts';
import type { Made } from './crowd.ts';
import { adminKey } from './release.ts';
import type { CallFacts, Ending } from './verdict.ts';

export interface Aftermath {
  readonly facts: ReadonlyMap<string, readonly CallFacts[]>;
  /** Runs in the store in excess of one for each call. */
  readonly surplusRuns: number;
  /** Runs that have not ended. */
  readonly unfinishedRuns: number;
  /** Executions of the upstream under ids that belong to no call. */
  readonly strays: number;
}

export interface Remains {
  readonly made: readonly Made[];
  /** Counters of the proxy. */
  readonly base: string;
  readonly journal: string;
  readonly executions: readonly KeptExecution[];
}

interface ShownRun {
  readonly state: string;
  readonly attempt: number;
  readonly result?: ToolResult;
  readonly error?: { readonly name: string; readonly outcome: string };
}

/** Checks the run of each call, the journal of the bodies and the executions of the upstream. Facts are by phase. */
export async function lookBack({ made, base, journal, executions }: Remains): Promise<Aftermath> {
  const ends = Map.groupBy(
    readJournal(journal).filter(({ what }) => what === 'end'),
    ({ runId }) => runId,
  );
  const executed = Map.groupBy(executions, ({ key }) => key);
  const facts = new Map<string, CallFacts[]>();
  const known = new Set<string>();
  await inTurns(made, 16, async ({ phase, kind, order, sent, sentAt, gotAt, result, reason }) => {
    const id = result?._meta?.['holdfast/run'] && runOf(result).id;
    if (id !== undefined) known.add(id);
    const run = id === undefined ? undefined : ((await api(base, `/runs/${id}`)) as unknown as ShownRun);
    const bodies = ends.get(id ?? '') ?? [];
    const its = facts.get(phase) ?? [];
    facts.set(phase, its);
    its.push({
      ...{ kind, order, sent, sentAt, gotAt, reason },
      got: result && endingOf(result),
      recorded: run && recordedOf(run),
      executed: kind === 'body' ? bodies.length : (executed.get(id ?? '') ?? []).length,
      isOwnEnd: bodies.some(({ attempt }) => attempt === run?.attempt),
    });
  });
  const runs = await allRuns(base);
  return {
    facts,
    surplusRuns: runs.length - made.length,
    unfinishedRuns: runs.filter(({ state }) => state === 'queued' || state === 'running').length,
    strays: [...executed.keys()].filter((key) => !known.has(key)).length,
  };
}

function endingOf(result: ToolResult): Ending {
  const outcome = result._meta?.['holdfast/error']?.outcome;
  if (result.isError !== true) return { error: undefined, outcome: 'ran', text: textOf(result) };
  return { error: errorNameOf(result) ?? textOf(result), outcome: outcome ?? 'ran', text: '' };
}

function recordedOf({ state, result, error }: ShownRun): Ending | undefined {
  if (state === 'queued' || state === 'running') return undefined;
  if (error !== undefined) return { error: error.name, outcome: error.outcome, text: '' };
  return result && endingOf(result);
}

async function api(base: string, path: string): Promise<Record<string, unknown>> {
  const answer = await fetch(`${base}/api${path}`, { headers: bearer(adminKey) });
  if (!answer.ok) throw new Error(`GET /api${path}: ${answer.status}`);
  return (await answer.json()) as Record<string, unknown>;
}

async function allRuns(base: string): Promise<{ state: string }[]> {
  const runs: { state: string }[] = [];
  let cursor: unknown;
  do {
    const page = await api(base, `/runs?limit=200${cursor === undefined ? '' : `&cursor=${String(cursor)}`}`);
    runs.push(...(page['runs'] as { state: string }[]));
    cursor = page['cursor'];
  } while (cursor !== undefined);
  return runs;
}
