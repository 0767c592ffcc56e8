import { describe, expect, test } from '@jest/globals';
import type { Struck } from './faults.ts';
import { judge, type CallFacts } from './upstream-verdict.ts';

const result = { name: 'succeeded', outcome: 'ran' };
const unknown = { name: 'MCPCallOutcomeUnknown', outcome: 'unknown' };
const notSent = { name: 'MCPConnectionError', outcome: 'not_sent' };

/** A write that was queued at 10, claimed at 20, marked at 30, executed at 40, ended at 50 and answered at 60. */
function write(change: Partial<CallFacts> = {}): CallFacts {
  return {
    token: 't',
    toolClass: 'write',
    got: result,
    reason: undefined,
    ended: change.got ?? result,
    ...{ submittedAt: 10, startedAt: 20, dispatchedAt: 30, finishedAt: 50, gotAt: 60 },
    attempt: 1,
    isUnheard: false,
    executedAt: [40],
    ...change,
  };
}

const struckAt = (at: number, kind: Struck['kind'] = 'connector'): Struck => ({
  kind,
  how: 'killed',
  at,
  until: at + 5,
});

/** Number of calls of each complaint. */
function complaints(facts: readonly CallFacts[], struck: readonly Struck[] = []): Record<string, number> {
  const { executedTwice, lost, wronglyTold, executedWithoutMark, unknownWithoutMark, unknownReads, ...rest } =
    judge(facts, struck, 0);
  const told = { executedTwice, lost, wronglyTold, executedWithoutMark, unknownWithoutMark, unknownReads };
  const counted = [
    ...Object.entries(told).map(([name, found]) => [name, found.length] as const),
    ['brokenAfterMark', rest.brokenAfterMark] as const,
  ];
  return Object.fromEntries(counted.filter(([, count]) => count > 0));
}

describe('complaints', () => {
  const cases: [string, Partial<CallFacts>, Record<string, number>][] = [
    ['nothing: a result, executed once', {}, {}],
    ['nothing: unknown, executed once', { got: unknown }, {}],
    ['nothing: unknown, marked and not executed', { got: unknown, executedAt: [] }, {}],
    ['nothing: not sent, not executed', { got: notSent, executedAt: [], dispatchedAt: undefined }, {}],
    ['executed twice', { executedAt: [40, 41] }, { executedTwice: 1, wronglyTold: 1 }],
    ['executed twice, although unknown', { got: unknown, executedAt: [40, 41] }, { executedTwice: 1 }],
    ['a result without an execution', { executedAt: [] }, { wronglyTold: 1 }],
    ['executed, but reported as not sent', { got: notSent }, { wronglyTold: 1 }],
    ['executed without a mark', { dispatchedAt: undefined }, { executedWithoutMark: 1 }],
    [
      'unknown without a mark',
      { got: unknown, dispatchedAt: undefined, executedAt: [] },
      { unknownWithoutMark: 1 },
    ],
    ['no answer', { got: undefined, reason: 'no time left' }, { lost: 1 }],
    ['a run that has not ended', { ended: undefined }, { lost: 1 }],
    ['an answer that differs from the run', { ended: unknown }, { lost: 1 }],
    ['an unknown read', { toolClass: 'read', got: unknown }, { unknownReads: 1 }],
    ['nothing: a read that was executed twice', { toolClass: 'read', executedAt: [40, 41] }, {}],
  ];
  test.each(cases)('%s', (_what, change, expected) => {
    expect(complaints([write(change)])).toEqual(expected);
  });

  test('an unknown write without a mark is counted separately if a connector died over it, or did not learn of its mark', () => {
    const call = write({ got: unknown, dispatchedAt: undefined, executedAt: [] });
    expect(complaints([call], [struckAt(31)])).toEqual({ brokenAfterMark: 1 });
    expect(complaints([{ ...call, isUnheard: true }])).toEqual({ brokenAfterMark: 1 });
    expect(
      complaints(
        [call],
        [struckAt(9), struckAt(51), struckAt(31, 'worker'), { ...struckAt(31), how: 'stopped' }],
      ),
    ).toEqual({
      unknownWithoutMark: 1,
    });
  });
});

test('calls are counted by their end and their number of executions', () => {
  const facts = [write(), write(), write({ got: unknown, executedAt: [] }), write({ toolClass: 'read' })];
  expect(judge(facts, [], 0).rows).toEqual([
    { toolClass: 'write', name: 'succeeded', calls: 2, never: 0, once: 2, more: 0 },
    { toolClass: 'write', name: 'MCPCallOutcomeUnknown', calls: 1, never: 1, once: 0, more: 0 },
    { toolClass: 'read', name: 'succeeded', calls: 1, never: 0, once: 1, more: 0 },
  ]);
});

test('a strike is counted by the progress of each write', () => {
  const struck = [5, 15, 25, 35, 45, 55, 65].map((at) => struckAt(at));
  expect(judge([write()], struck, 0).phases).toEqual([
    { struck: 'connector killed', times: 7, queued: 1, claimed: 1, marked: 1, acted: 1, recorded: 1 },
  ]);
});
