import { expect, test } from '@jest/globals';
import { queuedOf } from './queue-sample.js';

test('a queue that ends within its head is as long as was counted', () => {
  expect(queuedOf({ counted: 1_999, behind: null, looked: null, found: null })).toBe(1_999);
});

test('one that ends with its head too', () => {
  expect(queuedOf({ counted: 2_000, behind: 0, looked: 0, found: 0 })).toBe(2_000);
});

test.each([
  [240, 12_000],
  [120, 7_000],
  [0, 2_000],
])('behind the head, %d of 240 in 10,000 make %d', (found, queued) => {
  expect(queuedOf({ counted: 2_000, behind: 10_000, looked: 240, found })).toBe(queued);
});
