import { expect, test } from '@jest/globals';
import { Turns } from './turns.js';

const patient = new AbortController().signal;

test('lets in so many at once, and the next in the order in which they came', async () => {
  const turns = new Turns(2);
  const entered: number[] = [];
  const enter = async (n: number): Promise<() => void> => {
    const leave = await turns.enter(patient);
    entered.push(n);
    return leave!;
  };
  const leaves = await Promise.all([enter(1), enter(2)]);
  const third = enter(3);
  const fourth = enter(4);
  await Promise.resolve();
  expect(entered).toEqual([1, 2]);
  leaves[0]!();
  const leaveThird = await third;
  expect(entered).toEqual([1, 2, 3]);
  leaveThird();
  await fourth;
  expect(entered).toEqual([1, 2, 3, 4]);
  expect(turns.inside).toBe(2);
});

test('whoever gives up before the turn comes takes none', async () => {
  const turns = new Turns(1);
  const leave = await turns.enter(patient);
  const giving = new AbortController();
  const given = turns.enter(giving.signal);
  const next = turns.enter(patient);
  giving.abort();
  expect(await given).toBeUndefined();
  leave!();
  const leaveNext = await next;
  expect(turns.inside).toBe(1);
  leaveNext!();
  expect(turns.inside).toBe(0);
  expect(await turns.enter(AbortSignal.abort())).toBeUndefined();
});

test('leaving twice gives up one place only', async () => {
  const turns = new Turns(2);
  const [first, second] = [await turns.enter(patient), await turns.enter(patient)];
  first!();
  first!();
  expect(turns.inside).toBe(1);
  second!();
});
