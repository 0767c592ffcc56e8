import type { Struck } from './faults.ts';

/** All that is known of one call of an upstream once the storm is over. Times are on the clock of `Date.now`. */
export interface CallFacts {
  readonly token: string;
  readonly toolClass: 'read' | 'write';
  /** What the host got: a result, or an error with its name and outcome. Undefined: nothing, and why. */
  readonly got: { readonly name: string; readonly outcome: string } | undefined;
  readonly reason: string | undefined;
  /** How the run ended, in the same words; undefined for one that has not. */
  readonly ended: { readonly name: string; readonly outcome: string } | undefined;
  readonly submittedAt: number;
  /** Of the last attempt. */
  readonly startedAt: number;
  readonly finishedAt: number;
  readonly attempt: number;
  readonly gotAt: number;
  /** When a connector said that it had won the dispatch mark, before the first byte. */
  readonly dispatchedAt: number | undefined;
  /** A connector said that it did not hear from the store whether it had won the mark, and sent nothing. */
  readonly isUnheard: boolean;
  /** By the upstream's own count, under the id of the run. */
  readonly executedAt: readonly number[];
}

/** Outcomes by name, and how often a call that ended so was executed. */
export interface OutcomeRow {
  readonly toolClass: CallFacts['toolClass'];
  readonly name: string;
  readonly calls: number;
  readonly never: number;
  readonly once: number;
  readonly more: number;
}

/** Where writes were when a service of a kind was struck. */
export interface PhaseRow {
  readonly struck: string;
  readonly times: number;
  /** Submitted and not claimed. */
  readonly queued: number;
  /** Claimed and not marked: on the way, in the connector's queue, or just before the send. */
  readonly claimed: number;
  /** Marked, and the upstream had not acted: around the first byte. */
  readonly marked: number;
  /** The upstream had acted, and no end was recorded. */
  readonly acted: number;
  /** The end was recorded, and the host did not have it. */
  readonly recorded: number;
}

export interface UpstreamVerdict {
  readonly rows: readonly OutcomeRow[];
  readonly phases: readonly PhaseRow[];
  /** Writes that the upstream executed more than once. */
  readonly executedTwice: readonly string[];
  /** Calls without an answer, whose run has no end, or whose answer is not what the run ended with. */
  readonly lost: readonly string[];
  /** Writes that ended in a result and were not executed exactly once, or were executed though they were said not to have been. */
  readonly wronglyTold: readonly string[];
  /** Writes that were executed although no connector said that it had the mark. */
  readonly executedWithoutMark: readonly string[];
  /** Unknown writes that nobody can have sent: no mark was made, as far as can be told. */
  readonly unknownWithoutMark: readonly string[];
  /** Unknown writes whose mark was made and whose first byte was not sent: the connector, or its way to the store, broke between the two. */
  readonly brokenAfterMark: number;
  readonly unknownReads: readonly string[];
  /** Executions of runs that nobody called for. */
  readonly strays: number;
}

const unknownName = 'MCPCallOutcomeUnknown';

/** What the facts come to. `strays` are executions under ids that belong to no call. */
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
  // The connector may have died after the mark was committed and before it could say so.
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

/** A write that was executed has a result or is unknown; one that was not has neither result nor `ran`. */
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
  // Of a run with several attempts the first claims are not known.
  return call.attempt === 1 && at < startedAt ? 'queued' : 'claimed';
}
