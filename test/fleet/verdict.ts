import type { Kind } from './crowd.ts';

/** All facts about one call after its phase. */
export interface CallFacts {
  readonly kind: Kind;
  readonly order: string;
  readonly sent: number;
  readonly sentAt: number;
  readonly gotAt: number;
  /** The answer to the host: a result as text, or the name of an error and its outcome; undefined for no answer, with the reason. */
  readonly got: Ending | undefined;
  readonly reason: string | undefined;
  /** The end of its run in the same form; undefined if it has not ended. */
  readonly recorded: Ending | undefined;
  /** Number of completions of its body, or of executions at the upstream. */
  readonly executed: number;
  /** Whether the body of the recorded attempt completed. Not set for calls of the upstream. */
  readonly isOwnEnd: boolean;
}

export interface Ending {
  readonly error: string | undefined;
  readonly outcome: string;
  readonly text: string;
}

export interface PhaseVerdict {
  readonly calls: number;
  readonly sentAgain: number;
  /** Calls without a result: the host gave up, or got an error that is in neither of the next two groups. */
  readonly failed: readonly string[];
  /** Reported as unknown: the call may have taken effect. */
  readonly unknown: number;
  /** Reported as not sent. */
  readonly notSent: number;
  /** Calls whose host has no answer, or one that differs from the store. */
  readonly lost: readonly string[];
  /** Calls that took effect more often than reported: a write twice, or although reported as not sent; a body that is not the recorded one. */
  readonly doubled: readonly string[];
  /** Longest time without a result, in milliseconds: for bodies, and for calls of the upstream. */
  readonly gapMs: { readonly body: number; readonly upstream: number };
  readonly slowestMs: number;
}

export interface Circumstances {
  /** Nothing was killed: every call must have a result, and no body may run twice. */
  readonly isCalm: boolean;
  /** Time after which no more calls started: later silence is not a gap. */
  readonly overAt: number;
}

/** The verdict on the facts of one phase. */
export function judge(facts: readonly CallFacts[], { isCalm, overAt }: Circumstances): PhaseVerdict {
  const told = (which: readonly CallFacts[]): string[] => which.map(describe);
  const named = (call: CallFacts, outcome: string): boolean =>
    call.kind !== 'body' && call.got?.error !== undefined && call.got.outcome === outcome;
  const isUnknown = (call: CallFacts): boolean => call.kind === 'write' && named(call, 'unknown');
  const isNotSent = (call: CallFacts): boolean => named(call, 'not_sent');
  const hasFailed = (call: CallFacts): boolean =>
    call.got === undefined ||
    (call.got.error !== undefined && (isCalm || !(isUnknown(call) || isNotSent(call))));
  const doubled = ({ kind, got, executed, isOwnEnd }: CallFacts): boolean => {
    if (kind === 'read') return false;
    if (got?.error === undefined && got !== undefined)
      return kind === 'write' || isCalm ? executed !== 1 : !isOwnEnd;
    return kind === 'write' && executed > (got?.outcome === 'not_sent' ? 0 : 1);
  };
  return {
    calls: facts.length,
    sentAgain: facts.filter(({ sent }) => sent > 1).length,
    failed: told(facts.filter(hasFailed)),
    unknown: facts.filter(isUnknown).length,
    notSent: facts.filter(isNotSent).length,
    lost: told(facts.filter(({ got, recorded }) => got === undefined || !isSame(got, recorded))),
    doubled: told(facts.filter(doubled)),
    gapMs: {
      body: gapOf(
        facts.filter(({ kind }) => kind === 'body'),
        overAt,
      ),
      upstream: gapOf(
        facts.filter(({ kind }) => kind !== 'body'),
        overAt,
      ),
    },
    slowestMs: Math.max(0, ...facts.map(({ sentAt, gotAt }) => gotAt - sentAt)),
  };
}

function isSame(got: Ending, recorded: Ending | undefined): boolean {
  if (recorded === undefined) return false;
  if (got.error !== undefined || recorded.error !== undefined)
    return got.error === recorded.error && got.outcome === recorded.outcome;
  return got.text === recorded.text;
}

/** From the first call to the start of the last one. */
function gapOf(facts: readonly CallFacts[], overAt: number): number {
  const answers = facts
    .filter(({ got }) => got !== undefined && got.error === undefined)
    .map(({ gotAt }) => Math.min(gotAt, overAt));
  const times = [...answers, overAt].sort((a, b) => a - b);
  let last = Math.min(...facts.map(({ sentAt }) => sentAt), overAt);
  let longest = 0;
  for (const time of times) {
    longest = Math.max(longest, time - last);
    last = time;
  }
  return longest;
}

function describe(call: CallFacts): string {
  const said = (ending: Ending | undefined): string =>
    ending === undefined
      ? 'nothing'
      : ending.error === undefined
        ? ending.text
        : `${ending.error} (${ending.outcome})`;
  return `${call.kind} ${call.order}: got ${call.reason ?? said(call.got)}; recorded ${said(call.recorded)}; executed ${call.executed}×`;
}
