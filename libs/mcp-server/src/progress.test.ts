import { expect, test } from '@jest/globals';
import { RisingProgress } from './progress.js';

test('a value that rises is passed on as it was reported', () => {
  const rising = new RisingProgress();
  expect(rising.reported({ value: 0, total: 3, message: 'begun' }, 5)).toEqual({
    value: 0,
    total: 3,
    message: 'begun',
  });
  expect(rising.reported({ value: 2 }, 6)).toEqual({ value: 2 });
});

test('a value that does not rise is lifted by a step too small to be taken for a real one', () => {
  const rising = new RisingProgress();
  rising.reported({ value: 2 }, 1);
  const same = rising.reported({ value: 2 }, 1_000).value;
  const lower = rising.reported({ value: 1 }, 2_000).value;
  expect(same).toBeGreaterThan(2);
  expect(lower).toBeGreaterThan(same);
  expect(lower).toBeLessThan(2.001);
  expect(rising.reported({ value: 3 }, 3_000).value).toBe(3);
});

test('a filler rises above the last value, and what is reported next rises above the filler', () => {
  const rising = new RisingProgress(0.5);
  const filler = rising.filler('queued', 15_000);
  expect(filler).toEqual({ value: expect.any(Number), message: 'queued' });
  expect(filler.value).toBeGreaterThan(0.5);
  expect(rising.reported({ value: 0.5 }, 15_000).value).toBeGreaterThan(filler.value);
});

test.each([0, -5, 1, 1e6, 9_007_199_254_740_991, 1e300, -1e300, Number.MAX_VALUE / 2])(
  'a filler can be told apart from %p',
  (last) => {
    expect(new RisingProgress(last).filler('', 1).value).toBeGreaterThan(last);
  },
);

test('a thousand fillers rise, also when the clock stands still', () => {
  const rising = new RisingProgress();
  let last = -1;
  for (let i = 0; i < 1_000; i++) {
    const { value } = rising.filler('', 0);
    expect(value).toBeGreaterThan(last);
    last = value;
  }
});

test('two replicas give a stream the same filler', () => {
  expect(new RisingProgress(4).filler('x', 700)).toEqual(new RisingProgress(4).filler('x', 700));
});
