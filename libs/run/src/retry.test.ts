import { expect, test } from '@jest/globals';
import { afterLostAttempt, maxLostAttempts } from './retry.js';

test('a first attempt runs, whatever the tool says about crashes', () => {
  expect(afterLostAttempt('t', 1, 'rerun')).toBeUndefined();
  expect(afterLostAttempt('t', 1, 'unknown')).toBeUndefined();
});

test('after a crash the body runs again (BEHAVIOURS 73)', () => {
  expect(afterLostAttempt('t', 2, 'rerun')).toBeUndefined();
});

test("after a crash a tool that says onCrash 'unknown' is not run again", () => {
  expect(afterLostAttempt('t', 2, 'unknown')).toMatchObject({
    name: 'OutcomeUnknown',
    outcome: 'unknown',
    retryable: false,
  });
});

test('a body that takes every worker down is given up', () => {
  expect(afterLostAttempt('t', maxLostAttempts, 'rerun')).toBeUndefined();
  expect(afterLostAttempt('t', maxLostAttempts + 1, 'rerun')).toMatchObject({ name: 'OutcomeUnknown' });
});
