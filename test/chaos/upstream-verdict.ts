import type { Struck } from './faults.ts';

/** All facts about one call of an upstream after the storm. Times are on the clock of `Date.now`. */
export interface CallFacts {
  readonly token: string;
  readonly toolClass: 'read' | 'write';
  /** The answer to the host: a result, or an error with its name and outcome; undefined for no answer, with the reason. */
  readonly got: { readonly name: string; readonly outcome: string } | undefined;
  readonly reason: string | undefined;
  /** The end of the run in the same form; undefined if it has not ended. */
  readonly ended: { readonly name: string; readonly outcome: string } | undefined;
  readonly submittedAt: number;
  /** Claim of the last attempt. */
  readonly startedAt: number;
  readonly finishedAt: number;
  readonly attempt: number;
  readonly gotAt: number;
  /** Time at which a connector logged that it had won the dispatch mark, before the first byte. */
  readonly dispatchedAt: number | undefined;
  /** A connector logged that the store did not confirm the mark, and sent nothing. */
  readonly isUnheard: boolean;
  /** Executions that the upstream counted, under the id of the run. */
  readonly executedAt: readonly number[];
}

/** Outcomes by name, with the number of executions of their calls. */
export interface OutcomeRow {
  readonly toolClass: CallFacts['toolClass'];
  readonly name: string;
  readonly calls: number;
  readonly never: number;
  readonly once: number;
  readonly more: number;
}

/** Progress of writes when a service of a kind was struck. */
export interface PhaseRow {
  readonly struck: string;
  readonly times: number;
  /** Submitted, not yet claimed. */
  readonly queued: number;
  /** Claimed, not yet marked: on the way, in the connector's queue, or just before the send. */
  readonly claimed: number;
  /** Marked, not yet executed by the upstream: around the first byte. */
  readonly marked: number;
  /** Executed by the upstream, with no end recorded. */
  readonly acted: number;
  /** End recorded, but the host did not have it yet. */
  readonly recorded: number;
}

export interface UpstreamVerdict {
  readonly rows: readonly OutcomeRow[];
  readonly phases: readonly PhaseRow[];
  /** Writes that the upstream executed more than once. */
  readonly executedTwice: readonly string[];
  /** Calls without an answer, whose run has no end, or whose answer differs from the end of the run. */
  readonly lost: readonly string[];
  /** Writes with a result that were not executed exactly once, or that were reported as not sent but executed. */
  readonly wronglyTold: readonly string[];
  /** Writes that were executed although no connector logged the mark. */
  readonly executedWithoutMark: readonly string[];
  /** Unknown writes that no connector can have sent: as far as known, no mark was made. */
  readonly unknownWithoutMark: readonly string[];
  /** Unknown writes whose mark was made but whose first byte was not sent: the connector, or its connection to the store, broke between the two. */
  readonly brokenAfterMark: number;
  readonly unknownReads: readonly string[];
  /** Executions of runs that no host called for. */
  readonly strays: number;
}

const unknownName = 'MCPCallOutcomeUnknown';

/** The verdict on the facts. `strays` are executions under ids that belong to no call. */
export function judge(
  facts: readonly CallFacts[],
  struck: readonly Struck[],
  strays: number,
): UpstreamVerdict {
  const writes = facts.filter(({ toolClass }) => toolClass === 'write');
  const told = (which: readonly CallFacts[]): string[] => which.map(describe);
  const unmarked = writes.filter(
    ({ got, dispatchedAt }) => got?.name === unknownName && dispatchedAt === undefined,
  );
  // The connector may have died after the commit of the mark and before it could log it.
  const mayBeMarked = (call: CallFacts): boolean =>
    call.isUnheard ||
    struck.some(
      ({ kind, how, at }) =>
        kind === 'connector' && how === 'killed' && at >= call.submittedAt && at <= call.finishedAt,
    );
  return {
    rows: rowsOf(facts),
    phases: phasesOf(writes, struck),
    executedTwice: told(writes.filter(({ executedAt }) => executedAt.length > 1)),
    lost: told(
      facts.filter(
        ({ got, ended }) =>
          got === undefined ||
          ended === undefined ||
          got.name !== ended.name ||
          got.outcome !== ended.outcome,
      ),
    ),
    wronglyTold: told(writes.filter(isWronglyTold)),
    executedWithoutMark: told(
      writes.filter(({ executedAt, dispatchedAt }) => executedAt.length > 0 && dispatchedAt === undefined),
    ),
    unknownWithoutMark: told(unmarked.filter((call) => !mayBeMarked(call))),
    brokenAfterMark: unmarked.filter(mayBeMarked).length,
    unknownReads: told(
      facts.filter(({ toolClass, got }) => toolClass === 'read' && got?.name === unknownName),
    ),
    strays,
  };
}

/** An executed write has a result or is unknown; a write that was not executed has neither a result nor `ran`. */
function isWronglyTold({ got, executedAt }: CallFacts): boolean {
  if (got === undefined || got.outcome === 'unknown') return false;
  return got.outcome === 'ran' ? executedAt.length !== 1 : executedAt.length > 0;
}

function describe(call: CallFacts): string {
  const { token, got, ended, reason, executedAt } = call;
  const said = got === undefined ? `no answer (${reason})` : `${got.name} (${got.outcome})`;
  const run = ended === undefined ? 'has not ended' : `ended ${ended.name} (${ended.outcome})`;
  return `${token}: ${said}; its run ${run}; executed ${executedAt.length}×`;
}

function rowsOf(facts: readonly CallFacts[]): OutcomeRow[] {
  const groups = Map.groupBy(facts, ({ toolClass, got }) =>
    JSON.stringify([toolClass, got === undefined ? 'no answer' : got.name]),
  );
  return [...groups]
    .map(([key, calls]) => {
      const [toolClass, name] = JSON.parse(key) as [CallFacts['toolClass'], string];
      const times = (fits: (n: number) => boolean): number =>
        calls.filter(({ executedAt }) => fits(executedAt.length)).length;
      return {
        toolClass,
        name,
        calls: calls.length,
        never: times((n) => n === 0),
        once: times((n) => n === 1),
        more: times((n) => n > 1),
      };
    })
    .sort((a, b) => b.toolClass.localeCompare(a.toolClass) || b.calls - a.calls);
}

function phasesOf(writes: readonly CallFacts[], struck: readonly Struck[]): PhaseRow[] {
  const kinds = Map.groupBy(struck, ({ kind, how }) => `${kind} ${how}`);
  return [...kinds].map(([name, strikes]) => {
    const count = { queued: 0, claimed: 0, marked: 0, acted: 0, recorded: 0 };
    for (const { at } of strikes) {
      for (const call of writes) {
        const phase = phaseAt(call, at);
        if (phase !== undefined) count[phase]++;
      }
    }
    return { struck: name, times: strikes.length, ...count };
  });
}

function phaseAt(call: CallFacts, at: number): Exclude<keyof PhaseRow, 'struck' | 'times'> | undefined {
  const { submittedAt, startedAt, finishedAt, gotAt, dispatchedAt = Infinity, executedAt } = call;
  if (at < submittedAt || at >= gotAt) return undefined;
  if (at >= finishedAt) return 'recorded';
  if (at >= (executedAt[0] ?? Infinity)) return 'acted';
  if (at >= dispatchedAt) return 'marked';
  // For a run with several attempts, the earlier claims are unknown.
  return call.attempt === 1 && at < startedAt ? 'queued' : 'claimed';
}
