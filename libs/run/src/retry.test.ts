import { describe, expect, test } from '@jest/globals';
import {
  afterLostAttempt,
  afterLostUpstreamAttempt,
  afterUpstream,
  maxLostAttempts,
  type AfterUpstream,
  type OnCrash,
  type UpstreamAttempt,
  type UpstreamCall,
} from './retry.js';

test('a first attempt runs, whatever the tool declares about crashes', () => {
  expect(afterLostAttempt('t', 1, 'rerun')).toBeUndefined();
  expect(afterLostAttempt('t', 1, 'unknown')).toBeUndefined();
});

test('after a crash the body runs again (BEHAVIOURS 73)', () => {
  expect(afterLostAttempt('t', 2, 'rerun')).toBeUndefined();
});

test("after a crash a tool with onCrash 'unknown' does not run again", () => {
  expect(afterLostAttempt('t', 2, 'unknown')).toMatchObject({
    name: 'OutcomeUnknown',
    outcome: 'unknown',
    retryable: false,
  });
});

test('a body that takes down every worker is given up', () => {
  expect(afterLostAttempt('t', maxLostAttempts, 'rerun')).toBeUndefined();
  expect(afterLostAttempt('t', maxLostAttempts + 1, 'rerun')).toMatchObject({ name: 'OutcomeUnknown' });
});

const attempt: UpstreamAttempt = {
  tool: 'docs__write',
  toolClass: 'write',
  isResendable: false,
  retry: 2,
  sends: 1,
  hasWaited: false,
};
const reading = { ...attempt, tool: 'docs__read', toolClass: 'read', isResendable: true } as const;
const repeatable = { ...attempt, isResendable: true } as const;
const lost = (why: 'timeout' | 'dropped' | 'aborted') =>
  ({ kind: 'unknown', why, message: 'the connection was lost after the call was sent' }) as const;
const errorOf = (after: AfterUpstream) => {
  if (after.again || after.end.state === 'succeeded') throw new Error('no failure');
  return after.end.error;
};

describe('after the outcome of an upstream call', () => {
  test('a result is recorded', () => {
    expect(afterUpstream({ kind: 'ran', result: '{}' }, attempt, 0)).toEqual({
      again: false,
      end: { state: 'succeeded', result: '{}' },
    });
  });

  test.each([attempt, reading, repeatable])(
    'a failure of the tool is recorded, and not sent again: %j',
    (call) => {
      expect(errorOf(afterUpstream({ kind: 'ran', result: '{}', error: 'no' }, call, 0))).toEqual({
        name: 'MCPToolError',
        message: 'no',
        outcome: 'ran',
        retryable: false,
      });
    },
  );

  test('G08: what an upstream said beside its refusal is recorded with it', () => {
    const data = { elicitations: [{ url: 'https://x/' }] };
    const outcome = { kind: 'refused', name: 'MCPToolError', message: 'no', data } as const;
    expect(errorOf(afterUpstream(outcome, attempt, 0))).toEqual({
      name: 'MCPToolError',
      message: 'no',
      outcome: 'refused',
      retryable: false,
      data,
    });
  });

  test.each([
    ['refused', 'MCPAuthError', false],
    ['refused', 'MCPToolError', false],
    ['refused', 'MCPServerUnavailable', true],
    ['not_sent', 'MCPConnectionError', true],
    ['not_sent', 'MCPAuthError', false],
  ] as const)('%s as %s is an end, also of a read', (kind, name, retryable) => {
    for (const call of [attempt, reading]) {
      expect(errorOf(afterUpstream({ kind, name, message: 'm' }, call, 0))).toEqual({
        name,
        message: 'm',
        outcome: kind,
        retryable,
      });
    }
  });

  test('a worker waits once for a pause of at most 5 s that the upstream asks for, if the call may be sent again', () => {
    const busy = (retryAfterMs: number) =>
      ({ kind: 'refused', name: 'MCPToolError', message: '429', retryAfterMs }) as const;
    expect(afterUpstream(busy(5_000), reading, 0)).toEqual({ again: true, waitMs: 5_000, isAskedFor: true });
    expect(afterUpstream(busy(0), { ...repeatable, retry: 0, sends: 9 }, 0)).toMatchObject({ again: true });
    const ends = [
      afterUpstream(busy(5_001), reading, 0),
      afterUpstream(busy(1), attempt, 0),
      afterUpstream(busy(1), { ...reading, hasWaited: true }, 0),
    ];
    for (const end of ends) expect(errorOf(end)).toMatchObject({ outcome: 'refused', retryable: true });
  });

  test('an unknown outcome is sent again within the budget, after 0.5 s × 2ⁿ with full jitter, at most 5 s', () => {
    for (const call of [reading, repeatable]) {
      for (const why of ['timeout', 'dropped'] as const) {
        const waits = [1, 2, 3, 4, 5, 6].map((sends) => {
          const after = afterUpstream(lost(why), { ...call, retry: 5, sends }, 0.999_999);
          return after.again && after.waitMs;
        });
        expect(waits).toEqual([499, 999, 1_999, 3_999, 4_999, false]);
      }
    }
    expect(afterUpstream(lost('dropped'), reading, 0)).toEqual({ again: true, waitMs: 0, isAskedFor: false });
  });

  test.each(['timeout', 'dropped', 'aborted'] as const)(
    'a write that may not be sent again ends as unknown if it was %s, and the message says to check',
    (why) => {
      expect(errorOf(afterUpstream(lost(why), { ...attempt, retry: 9 }, 0))).toEqual({
        name: 'MCPCallOutcomeUnknown',
        message:
          'docs__write: the connection was lost after the call was sent; it may have run. Check its effect before you call it again',
        outcome: 'unknown',
        retryable: false,
      });
    },
  );

  test('a write that may be sent again ends as unknown only after its budget', () => {
    expect(errorOf(afterUpstream(lost('dropped'), { ...repeatable, sends: 3 }, 0))).toMatchObject({
      name: 'MCPCallOutcomeUnknown',
      retryable: true,
    });
  });

  test.each([
    ['timeout', 'RunTimeout'],
    ['dropped', 'MCPConnectionError'],
    ['aborted', 'MCPConnectionError'],
  ] as const)('a read that was %s on every send ends as %s', (why, name) => {
    expect(errorOf(afterUpstream(lost(why), { ...reading, sends: 3 }, 0))).toMatchObject({
      name,
      outcome: 'unknown',
      retryable: true,
    });
  });

  test('a call that was stopped from outside is not sent again', () => {
    expect(afterUpstream(lost('aborted'), reading, 0).again).toBe(false);
  });
});

describe('a run for an upstream whose earlier attempt was lost', () => {
  const after = (
    call: UpstreamCall,
    isDispatched: boolean,
    onCrash?: OnCrash,
    attempt = 2,
  ): string | undefined => afterLostUpstreamAttempt(call, { attempt, isDispatched, onCrash })?.name;

  test('continues if nothing was lost', () => {
    for (const onCrash of ['rerun', 'unknown', undefined] as const)
      for (const call of [attempt, reading, repeatable])
        expect(after(call, false, onCrash, 1)).toBeUndefined();
  });

  test('continues if its call never left', () => {
    expect([after(attempt, false), after(attempt, false, 'unknown')]).toEqual([undefined, undefined]);
  });

  test('is not sent again after its dispatch, unless the operator allows it (BEHAVIOURS X11)', () => {
    expect([after(attempt, true), after(attempt, true, 'unknown'), after(attempt, true, 'rerun')]).toEqual([
      'MCPCallOutcomeUnknown',
      'MCPCallOutcomeUnknown',
      undefined,
    ]);
  });

  test('is sent again if it may be, unless the operator forbids it for a write', () => {
    expect([after(reading, false), after(repeatable, false)]).toEqual([undefined, undefined]);
    expect([after(reading, true, 'unknown'), after(repeatable, true, 'unknown')]).toEqual([
      undefined,
      'MCPCallOutcomeUnknown',
    ]);
  });

  test('is given up if it takes down every worker', () => {
    const ends = ([call, isDispatched, onCrash]: [UpstreamCall, boolean, OnCrash?]): unknown => [
      after(call, isDispatched, onCrash, maxLostAttempts),
      after(call, isDispatched, onCrash, maxLostAttempts + 1),
    ];
    expect(ends([reading, false])).toEqual([undefined, 'MCPConnectionError']);
    expect(ends([attempt, false])).toEqual([undefined, 'MCPServerUnavailable']);
    expect(ends([attempt, true, 'rerun'])).toEqual([undefined, 'MCPCallOutcomeUnknown']);
  });
});
