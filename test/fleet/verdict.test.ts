import { describe, expect, test } from '@jest/globals';
import { judge, type CallFacts } from './verdict.ts';

const result = { error: undefined, outcome: 'ran', text: 'paid' };
const unknown = { error: 'MCPCallOutcomeUnknown', outcome: 'unknown', text: '' };
const notSent = { error: 'MCPServerUnavailable', outcome: 'not_sent', text: '' };

function write(change: Partial<CallFacts> = {}): CallFacts {
  return {
    ...{ kind: 'write', order: 'o', sent: 1, sentAt: 0, gotAt: 10, reason: undefined },
    got: result,
    recorded: 'got' in change ? change.got : result,
    ...{ executed: 1, isOwnEnd: false },
    ...change,
  };
}

describe('complaints', () => {
  const cases: [string, Partial<CallFacts>, isCalm: boolean, complaints: string[]][] = [
    ['nothing: a result, executed once', {}, true, []],
    ['no answer', { got: undefined, reason: 'no time left', executed: 0 }, false, ['failed', 'lost']],
    ['an unknown write without kills', { got: unknown }, true, ['failed']],
    ['nothing: an unknown write, executed or not, during kills', { got: unknown }, false, []],
    ['an unknown write that was executed twice', { got: unknown, executed: 2 }, false, ['doubled']],
    ['an unknown read', { kind: 'read', got: unknown }, false, ['failed']],
    ['nothing: not sent, not executed, during kills', { got: notSent, executed: 0 }, false, []],
    ['not sent, and executed', { got: notSent }, false, ['doubled']],
    ['a result that was executed twice', { executed: 2 }, false, ['doubled']],
    ['a result without an execution', { executed: 0 }, false, ['doubled']],
    [
      'a result that differs from the recorded one',
      { recorded: { ...result, text: 'other' } },
      false,
      ['lost'],
    ],
    ['a run that has not ended', { recorded: undefined }, false, ['lost']],
    ['a body that ran twice without kills', { kind: 'body', executed: 2 }, true, ['doubled']],
    [
      'nothing: a body that ran twice, where things are killed',
      { kind: 'body', executed: 2, isOwnEnd: true },
      false,
      [],
    ],
    ['a body other than the one that is recorded', { kind: 'body', executed: 1 }, false, ['doubled']],
    ['nothing: a read that was executed twice', { kind: 'read', executed: 2 }, true, []],
  ];
  test.each(cases)('%s', (_what, change, isCalm, complaints) => {
    const { failed, lost, doubled } = judge([write(change)], { isCalm, overAt: 10 });
    const found = Object.entries({ failed, lost, doubled }).filter(([, calls]) => calls.length > 0);
    expect(found.map(([name]) => name)).toEqual(complaints);
  });
});

test('a gap is the longest time without a result, by the called tool, until the last call starts', () => {
  const at = (sentAt: number, gotAt: number, change: Partial<CallFacts> = {}): CallFacts =>
    write({ sentAt, gotAt, ...change });
  const facts = [
    at(0, 100),
    at(100, 200, { got: notSent, executed: 0 }),
    at(150, 400),
    at(450, 900),
    at(0, 30, { kind: 'body' }),
  ];
  expect(judge(facts, { isCalm: false, overAt: 500 })).toMatchObject({
    gapMs: { upstream: 300, body: 470 },
    slowestMs: 450,
    notSent: 1,
  });
});
