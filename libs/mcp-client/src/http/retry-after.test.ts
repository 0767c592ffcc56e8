import { expect, test } from '@jest/globals';
import { retryAfterMs } from './retry-after.js';

const now = new Date('2026-01-01T00:00:00Z');

test.each([
  ['3', 3_000],
  [' 0 ', 0],
  ['Thu, 01 Jan 2026 00:00:05 GMT', 5_000],
  ['Wed, 31 Dec 2025 23:00:00 GMT', 0],
  ['999999999', 86_400_000],
  ['soon', undefined],
  [undefined, undefined],
])('Retry-After %j asks for %j ms', (header, ms) => {
  expect(retryAfterMs(header, now)).toBe(ms);
});
