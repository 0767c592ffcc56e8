import type { Kind } from './crowd.ts';

/** All that is known of one call once its phase is over. */
export interface CallFacts {
  readonly kind: Kind;
  readonly order: string;
  readonly sent: number;
  readonly sentAt: number;
  readonly gotAt: number;
  /** What the host got: a result as text, or the name of an error and its outcome. Undefined: nothing, and why. */
  readonly got: Ending | undefined;
  readonly reason: string | undefined;
  /** How its run ended, in the same words; undefined for one that has not. */
  readonly recorded: Ending | undefined;
  /** How often its body came to its end, or the upstream executed it. */
  readonly executed: number;
  /** Whether the body of the attempt that was recorded came to its end. Not of calls of the upstream. */
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
  /** Calls without a result: the host gave up, or got an error that is neither of the next two. */
  readonly failed: readonly string[];
  /** Told that nobody can say whether it took effect. */
  readonly unknown: number;
  /** Told that nothing happened. */
  readonly notSent: number;
  /** Calls whose host knows nothing, or something else than the store has. */
  readonly lost: readonly string[];
  /** Calls that took effect more often than was told: a write twice, or told as not sent; a body that is not the one recorded. */
  readonly doubled: readonly string[];
  /** Longest time in which no call was answered with a result, in milliseconds: of bodies, and of calls of the upstream. */
  readonly gapMs: { readonly body: number; readonly upstream: number };
  readonly slowestMs: number;
}

export interface Circumstances {
  /** Nothing was killed: every call has a result, and no body has a reason to run twice. */
  readonly isCalm: boolean;
  /** When no more calls were begun: silence after that is no gap. */
  readonly overAt: number;
}

/** What the facts of one phase come to. */
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

/** From the first call to the last that began. */
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
