import { expect, test } from '@jest/globals';
import { Batcher } from './batcher.js';

/** A flush that ends when the test says so. */
function held() {
  const flushes: { items: readonly string[]; end: () => void; fail: (error: Error) => void }[] = [];
  const batcher = new Batcher<string, string>({
    flush: (items) =>
      new Promise((resolve, reject) => {
        flushes.push({
          items,
          end: () => resolve(items.map((item) => item.toUpperCase())),
          fail: reject,
        });
      }),
    weigh: ({ length }) => length,
    isItemsFault: (error) => error.message === 'bad item',
  });
  const turn = () => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  return { batcher, flushes, turn };
}

test('what comes in one turn goes together, what comes during two flushes waits for one of them', async () => {
  const { batcher, flushes, turn } = held();
  const first = [batcher.add('a'), batcher.add('b')];
  await turn();
  const second = batcher.add('c');
  await turn();
  const third = [batcher.add('d'), batcher.add('e')];
  await turn();
  expect(flushes.map(({ items }) => items)).toEqual([['a', 'b'], ['c']]);
  flushes[1]!.end();
  expect(await second).toBe('C');
  await turn();
  expect(flushes[2]!.items).toEqual(['d', 'e']);
  flushes[0]!.end();
  flushes[2]!.end();
  expect(await Promise.all([...first, ...third])).toEqual(['A', 'B', 'D', 'E']);
});

test('a flush takes at most 256 items, and at most eight megabytes unless one item is larger', async () => {
  const { batcher, flushes, turn } = held();
  for (let i = 0; i < 300; i++) void batcher.add('x');
  await turn();
  expect(flushes.map(({ items }) => items.length)).toEqual([256, 44]);

  const heavy = held();
  for (const size of [5_000_000, 3_000_000, 1, 9_000_000]) void heavy.batcher.add('x'.repeat(size));
  await heavy.turn();
  expect(heavy.flushes.map(({ items }) => items.map(({ length }) => length))).toEqual([
    [5_000_000, 3_000_000],
    [1],
  ]);
  heavy.flushes[0]!.end();
  await heavy.turn();
  expect(heavy.flushes[2]!.items[0]).toHaveLength(9_000_000);
});

test('an item that the store refuses is tried alone and fails alone', async () => {
  const { batcher, flushes, turn } = held();
  const all = Promise.allSettled([batcher.add('a'), batcher.add('b'), batcher.add('c')]);
  await turn();
  flushes[0]!.fail(new Error('bad item'));
  await turn();
  flushes[1]!.end();
  await turn();
  flushes[2]!.fail(new Error('bad item'));
  await turn();
  flushes[3]!.end();
  expect(await all).toMatchObject([
    { value: 'A' },
    { status: 'rejected', reason: { message: 'bad item' } },
    { value: 'C' },
  ]);
});

test('a flush that fails for another reason fails for all and is not tried again', async () => {
  const { batcher, flushes, turn } = held();
  const all = Promise.allSettled([batcher.add('a'), batcher.add('b')]);
  await turn();
  flushes[0]!.fail(new Error('no connection'));
  expect((await all).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  await turn();
  expect(flushes).toHaveLength(1);
});

test('close waits for what was added and takes nothing more', async () => {
  const { batcher, flushes, turn } = held();
  const added = batcher.add('a');
  let isClosed = false;
  const closed = batcher.close().then(() => (isClosed = true));
  await expect(batcher.add('b')).rejects.toMatchObject({ code: 'store-closed' });
  await turn();
  expect(isClosed).toBe(false);
  flushes[0]!.end();
  expect(await added).toBe('A');
  await closed;
  await batcher.close();
});
