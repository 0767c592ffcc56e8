import { describe, expect, test } from '@jest/globals';
import { freshRunId, type FinishedRun, type Run, type RunEvent } from '@holdfast/run';
import type { Claim, Store } from '@holdfast/store';
import { RunWatch } from './run-watch.js';
import { afterTest, changed, deaf, memoryStore, quiet, until } from './test-gateway.js';

const day = 86_400_000;
const workflows = ['mcp:tool:work'];

async function submit(store: Store): Promise<Run> {
  const submission = await store.runs.submit({
    id: freshRunId(Date.now()),
    workflow: workflows[0]!,
    tool: 'work',
    toolClass: 'write',
    principal: null,
    arguments: '{}',
    digest: 'a1_x',
    definition: 'd1_x',
  });
  if (submission.kind === 'expired') throw new Error('cannot be');
  return submission.run;
}

async function claim(store: Store): Promise<Claim> {
  await store.workers.join({ id: 'w', group: 'default', workflows }, day);
  const request = {
    worker: 'w',
    workflows,
    definitions: [],
    definitionGraceMs: 0,
    limit: 1,
    sweep: true,
    isDurable: true,
  };
  return (await store.runs.claim(request))[0]!;
}

function watchOf(store: Store, pollIntervalMs = day): RunWatch {
  const watch = new RunWatch(store, pollIntervalMs, quiet);
  afterTest(() => watch.close());
  return watch;
}

/** Follows a run; `values` are what it reported so far. */
function follow(watch: RunWatch, run: Run, change: { isNew?: boolean; after?: number } = {}) {
  const events: RunEvent[] = [];
  const leave = new AbortController();
  const ended: Promise<FinishedRun> = watch.follow(run, {
    isNew: false,
    ...change,
    onEvent: (event) => events.push(event),
    signal: leave.signal,
  });
  ended.catch(() => {});
  return { ended, leave, values: () => events.map(({ progress }) => progress.value) };
}

const end = { state: 'succeeded', result: '{"content":[]}' } as const;

describe('a run that is followed', () => {
  test('gives its events in order and then itself, woken by signals alone', async () => {
    const store = await memoryStore();
    const run = await submit(store);
    const { ended, values } = follow(watchOf(store), run, { isNew: true });
    const claimed = await claim(store);
    await store.runs.report(claimed, [{ n: 1_000_001, value: 1 }, { n: 1_000_002, value: 2 }]); // prettier-ignore
    await until(() => values().length === 2);
    await store.runs.report(claimed, [{ n: 1_000_003, value: 3 }]);
    await store.runs.finish(claimed, end);
    expect(await ended).toMatchObject({ id: run.id, state: 'succeeded', attempt: 1 });
    expect(values()).toEqual([1, 2, 3]);
  });

  test('by several is told to each what he does not know', async () => {
    const store = await memoryStore();
    const watch = watchOf(store);
    const run = await submit(store);
    const claimed = await claim(store);
    await store.runs.report(claimed, [{ n: 1_000_001, value: 1 }, { n: 1_000_002, value: 2 }]); // prettier-ignore
    const all = follow(watch, run);
    const rest = follow(watch, run, { after: 1_000_001 });
    await until(() => all.values().length === 2 && rest.values().length === 1);
    const late = follow(watch, run);
    await store.runs.report(claimed, [{ n: 1_000_003, value: 3 }]);
    await store.runs.finish(claimed, end);
    await Promise.all([all.ended, rest.ended, late.ended]);
    expect([all.values(), rest.values(), late.values()]).toEqual([[1, 2, 3], [2, 3], [1, 2, 3]]); // prettier-ignore
    expect(watch.waiting).toBe(0);
  });

  test('that has ended before is given at once', async () => {
    const store = await memoryStore();
    const run = await submit(store);
    const claimed = await claim(store);
    await store.runs.report(claimed, [{ n: 1_000_001, value: 1 }]);
    await store.runs.finish(claimed, end);
    const { ended, values } = follow(watchOf(deaf(store)), run);
    expect((await ended).state).toBe('succeeded');
    expect(values()).toEqual([1]);
  });

  test('that ended between its submission and the wait is given too', async () => {
    const store = await memoryStore();
    const watch = watchOf(store);
    const run = await submit(store);
    await store.runs.finish(await claim(store), end);
    await until(() => store.hearing);
    expect((await follow(watch, run, { isNew: true }).ended).state).toBe('succeeded');
  });

  test('is left when the signal aborts, with its reason', async () => {
    const store = await memoryStore();
    const watch = watchOf(store);
    const run = await submit(store);
    const one = follow(watch, run);
    const other = follow(watch, run);
    expect(watch.waiting).toBe(2);
    one.leave.abort(new Error('enough'));
    await expect(one.ended).rejects.toThrow('enough');
    expect(watch.waiting).toBe(1);
    await store.runs.finish(await claim(store), end);
    expect((await other.ended).state).toBe('succeeded');
    const late = new AbortController();
    late.abort(new Error('before'));
    const follower = { isNew: false, onEvent: () => {}, signal: late.signal };
    await expect(watch.follow(run, follower)).rejects.toThrow('before');
    expect(watch.waiting).toBe(0);
  });
});

test('a poll finds what no signal told of', async () => {
  for (const hearing of [false, true]) {
    const store = await memoryStore();
    const { ended } = follow(watchOf(deaf(store, hearing), 2), await submit(store), { isNew: true });
    await store.runs.finish(await claim(store), end);
    expect((await ended).state).toBe('succeeded');
  }
});

test('runs that have news at once are asked for together', async () => {
  const store = await memoryStore();
  const asked: number[] = [];
  const news: Store['runs']['news'] = (watched) => {
    asked.push(watched.length);
    return store.runs.news(watched);
  };
  const watch = watchOf(changed(store, { runs: changed(store.runs, { news }) }));
  const ended = [];
  for (let i = 0; i < 20; i++) ended.push(follow(watch, await submit(store)).ended);
  await until(() => asked.length > 0);
  expect(asked.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(40);
  for (let i = 0; i < 20; i++) await store.runs.finish(await claim(store), end);
  await Promise.all(ended);
});
