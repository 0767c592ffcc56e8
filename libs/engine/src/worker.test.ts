import { afterEach, describe, expect, test } from '@jest/globals';
import { endsOfCancel, freshRunId, RunError, type RunId, type ServiceLog } from '@holdfast/run';
import { openStore, type Signal, type Store } from '@holdfast/store';
import { defineTool, type Tool } from '@holdfast/tools';
import { z } from 'zod';
import { Worker, type WorkerSettings } from './worker.js';
import { end, silent, until } from './test-runs.js';

const workers: Worker[] = [];
const stores: Store[] = [];

afterEach(async () => {
  await Promise.all(workers.splice(0).map((worker) => worker.stop()));
  await Promise.all(stores.splice(0).map((store) => store.close()));
});

async function memoryStore(): Promise<Store> {
  const store = await openStore('memory:');
  stores.push(store);
  return store;
}

function makeWorker(
  store: Store,
  tools: readonly Tool[],
  change: Partial<WorkerSettings> = {},
  log: ServiceLog = silent,
): Worker & { seen: string[] } {
  const seen: string[] = [];
  const worker = new Worker({
    store,
    tools,
    settings: {
      group: 'default',
      concurrency: 4,
      callerShare: 100,
      leaseMs: 600,
      drainMs: 50,
      workflowPrefix: 'mcp:tool:',
      connectorWaitMs: 30_000,
      ...change,
    },
    log,
    observer: {
      claimed: () => seen.push('claimed'),
      finished: ({ state, error }) => seen.push(error ?? state),
      leaseLost: () => seen.push('lease lost'),
    },
  });
  workers.push(worker);
  return Object.assign(worker, { seen });
}

/** A tool whose body is `run`; bodies that wait do so on a promise of the test. */
const tool = (
  run: Parameters<typeof defineTool>[0]['run'],
  change: Partial<Parameters<typeof defineTool>[0]> = {},
): Tool => defineTool({ name: 'work', description: 'Works.', input: { type: 'object' }, run, ...change });

async function submit(store: Store, args = '{}', name = 'work', caller = 'desk'): Promise<RunId> {
  const id = freshRunId(Date.now());
  const known = (await store.tools.list())!.tools.find((listed) => listed.name === name);
  await store.runs.submit({
    id,
    workflow: `mcp:tool:${name}`,
    tool: name,
    toolClass: 'write',
    principal: { realm: 'apikey', id: caller },
    arguments: args,
    digest: 'a1_x',
    definition: known?.digest ?? 'd1_x',
  });
  return id;
}

function gate(): { readonly opened: Promise<void>; open: () => void } {
  let open!: () => void;
  return { opened: new Promise((resolve) => (open = resolve)), open: () => open() };
}

describe('an attempt', () => {
  test('runs the body with its context and records what it returns', async () => {
    const store = await memoryStore();
    const worker = makeWorker(store, [
      defineTool({
        name: 'work',
        description: 'Works.',
        input: { n: z.number().default(7) },
        run: ({ n }, ctx) => ({
          n,
          id: ctx.runId,
          attempt: ctx.attempt,
          principal: ctx.principal,
          aborted: ctx.signal.aborted,
        }),
      }),
    ]);
    await worker.start();
    const id = await submit(store);
    const run = await end(store, id);
    expect(JSON.parse((run as { result: string }).result).structuredContent).toEqual({
      n: 7,
      id,
      attempt: 1,
      principal: { realm: 'apikey', id: 'desk' },
      aborted: false,
    });
    await until(() => worker.seen.includes('succeeded'));
    expect(worker.seen).toEqual(['claimed', 'succeeded']);
  });

  test.each<[string, Tool, string, object]>([
    [
      'throws',
      tool(() => {
        throw new Error('no stock');
      }),
      '{}',
      { name: 'ToolError', message: 'no stock', outcome: 'ran' },
    ],
    [
      'throws a string',
      tool(() => {
        throw 'plain';
      }),
      '{}',
      { name: 'ToolError', message: 'plain' },
    ],
    [
      'throws an error that cannot be read',
      tool(() => {
        throw Object.defineProperty(new Error('x'), 'message', {
          get: () => {
            throw new Error('inner');
          },
        });
      }),
      '{}',
      { name: 'ToolError', message: 'an error that cannot be read' },
    ],
    [
      'throws an error whose message is no string',
      tool(() => {
        throw Object.assign(new Error('x'), { message: { a: 1n } });
      }),
      '{}',
      { name: 'ToolError', message: expect.any(String) },
    ],
    [
      'throws nothing',
      tool(() => {
        throw undefined;
      }),
      '{}',
      { name: 'ToolError' },
    ],
    [
      'returns what is no result',
      tool(() => () => 1),
      '{}',
      { name: 'ToolError', message: expect.stringContaining('function') },
    ],
    [
      'gets arguments that its own schema refuses',
      defineTool({
        name: 'work',
        description: 'w',
        input: z.object({ n: z.number().refine((n) => n > 3, 'too small') }),
        run: () => '',
      }),
      '{"n":1}',
      { name: 'InvalidArguments', message: 'n: too small', outcome: 'not_sent' },
    ],
    [
      'meets its approval predicate',
      tool(() => 'ran', { requiresApproval: () => true }),
      '{}',
      { name: 'ApprovalUnavailable', outcome: 'refused' },
    ],
    [
      'has a predicate that throws',
      tool(() => 'ran', {
        requiresApproval: () => {
          throw new Error('bad predicate');
        },
      }),
      '{}',
      { name: 'ToolError', message: 'bad predicate' },
    ],
  ])('fails when the tool %s', async (_title, broken, args, error) => {
    const store = await memoryStore();
    await makeWorker(store, [broken]).start();
    expect(await end(store, await submit(store, args))).toMatchObject({ state: 'failed', error });
  });

  test('past its time limit ends as RunTimeout, its signal aborts, and the slot is free', async () => {
    const store = await memoryStore();
    const aborted = gate();
    let calls = 0;
    const slow = tool(
      (_args, ctx) => {
        ctx.signal.addEventListener('abort', aborted.open);
        return ++calls === 1 ? new Promise(() => {}) : 'quick';
      },
      { timeoutMs: 30 },
    );
    await makeWorker(store, [slow], { concurrency: 1 }).start();
    const [first, second] = [await submit(store), await submit(store)];
    expect(await end(store, first)).toMatchObject({
      state: 'failed',
      error: { name: 'RunTimeout', outcome: 'unknown', retryable: false },
    });
    await aborted.opened;
    expect(await end(store, second)).toMatchObject({ state: 'succeeded' });
  });

  test('reports progress in order, all of it before the end', async () => {
    const store = await memoryStore();
    await makeWorker(store, [
      tool((_args, { progress }) => {
        for (let i = 1; i <= 50; i++) progress(i, 50, `step ${i}`);
        progress(Number.NaN);
        return 'done';
      }),
    ]).start();
    const run = await end(store, await submit(store));
    const events = await store.runs.events(run.seq);
    expect(events.map(({ n, progress }) => [n, progress.value])).toEqual(
      Array.from({ length: 50 }, (_, i) => [1_000_001 + i, i + 1]),
    );
    expect(events[0]!.progress).toEqual({ value: 1, total: 50, message: 'step 1' });
  });
});

/** The store with some verbs of runs changed. */
function withRuns(store: Store, runs: Partial<Store['runs']>): Store {
  return {
    ...store,
    runs: { ...store.runs, ...runs },
    workers: store.workers,
    tools: store.tools,
    hearing: true,
    subscribe: (listener) => store.subscribe(listener),
  };
}

test('an end whose answer was lost is counted as what it is', async () => {
  const store = await memoryStore();
  let isLost = true;
  const flaky = withRuns(store, {
    finish: async (claim, end) => {
      const done = await store.runs.finish(claim, end);
      if (!isLost) return done;
      isLost = false;
      throw new RunError('store-unavailable', 'the answer was lost');
    },
  });
  const worker = makeWorker(flaky, [tool(() => 'once')]);
  await worker.start();
  await end(store, await submit(store));
  await until(() => worker.seen.includes('succeeded'));
});

test('a result that the store refuses for good ends its run as failed', async () => {
  const store = await memoryStore();
  const refusing = withRuns(store, {
    finish: async (claim, end) => {
      if (end.state === 'succeeded') throw new RunError('internal', 'too large');
      return store.runs.finish(claim, end);
    },
  });
  await makeWorker(refusing, [tool(() => 'huge')]).start();
  expect(await end(store, await submit(store))).toMatchObject({
    state: 'failed',
    error: { name: 'ToolError', outcome: 'ran', message: expect.stringContaining('cannot be stored') },
  });
});

test('as many bodies run at once as the setting says, and no more', async () => {
  const store = await memoryStore();
  const hold = gate();
  let running = 0;
  let most = 0;
  await makeWorker(
    store,
    [
      tool(async () => {
        most = Math.max(most, ++running);
        await hold.opened;
        running--;
        return '';
      }),
    ],
    { concurrency: 3 },
  ).start();
  const ids = await Promise.all(Array.from({ length: 10 }, () => submit(store)));
  await until(() => running === 3);
  hold.open();
  for (const id of ids) await end(store, id);
  expect(most).toBe(3);
});

test('a claim that was made, though its answer was lost, is found and made again', async () => {
  const store = await memoryStore();
  let lost = 0;
  const claim: Store['runs']['claim'] = async (request) => {
    const claims = await store.runs.claim(request);
    if (claims.length === 0 || lost > 0) return claims;
    lost = claims.length;
    throw new RunError('store-unavailable', 'the connection ended');
  };
  const unlucky = new Proxy(store, {
    get: (target, name: keyof Store) => {
      if (name === 'runs') return { ...target.runs, claim };
      const value = target[name];
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  await makeWorker(unlucky, [tool((_args, { attempt }) => `attempt ${attempt}`)]).start();
  const ids = await Promise.all(Array.from({ length: 3 }, () => submit(store)));
  const runs = await Promise.all(ids.map((id) => end(store, id)));
  expect(lost).toBeGreaterThan(0);
  expect(runs.filter(({ attempt }) => attempt === 2)).toHaveLength(lost);
});

test('two workers on one store end every run once', async () => {
  const store = await memoryStore();
  const bodies = new Map<string, number>();
  const count = tool((_args, { runId }) => void bodies.set(runId, (bodies.get(runId) ?? 0) + 1));
  await makeWorker(store, [count]).start();
  await makeWorker(store, [count]).start();
  const ids = await Promise.all(Array.from({ length: 100 }, () => submit(store)));
  for (const id of ids) await end(store, id);
  expect([...bodies.values()]).toEqual(Array.from({ length: 100 }, () => 1));
});

test('a tool that always requires approval cannot be registered (BEHAVIOURS 58)', async () => {
  const store = await memoryStore();
  expect(() => makeWorker(store, [tool(() => '', { requiresApproval: true })])).toThrow(
    expect.objectContaining({ name: 'ToolRegistrationError', message: expect.stringContaining('"work"') }),
  );
});

describe('a worker that dies', () => {
  /** A claim by a worker that is never heard of again. */
  async function claimAndDie(store: Store, leaseMs: number): Promise<RunId> {
    const id = await submit(store);
    await store.workers.join({ id: 'dead', group: 'default', workflows: ['mcp:tool:work'] }, leaseMs);
    await store.runs.claim({
      worker: 'dead',
      workflows: ['mcp:tool:work'],
      definitions: ['d1_x'],
      definitionGraceMs: 0,
      limit: 1,
      isDurable: true,
      sweep: true,
    });
    return id;
  }

  test('leaves its run to another when its lease runs out, as a new attempt (BEHAVIOURS 73)', async () => {
    const store = await memoryStore();
    const id = await claimAndDie(store, 50);
    await makeWorker(store, [tool((_args, { attempt }) => `attempt ${attempt}`)], { leaseMs: 120 }).start();
    expect(await end(store, id)).toMatchObject({
      state: 'succeeded',
      attempt: 2,
      result: expect.stringContaining('attempt 2'),
    });
  });

  test("ends its run as OutcomeUnknown where the tool says onCrash: 'unknown'", async () => {
    const store = await memoryStore();
    const id = await claimAndDie(store, 50);
    let bodies = 0;
    await makeWorker(store, [tool(() => ++bodies, { onCrash: 'unknown' })], { leaseMs: 120 }).start();
    expect(await end(store, id)).toMatchObject({
      state: 'failed',
      error: { name: 'OutcomeUnknown', outcome: 'unknown' },
    });
    expect(bodies).toBe(0);
  });
});

test('a worker whose lease was given away stops its bodies, discards their results and goes on anew', async () => {
  const store = await memoryStore();
  const hold = gate();
  const reasons: unknown[] = [];
  const worker = makeWorker(
    store,
    [
      tool(async (_args, { signal, attempt }) => {
        signal.addEventListener('abort', () => reasons.push(signal.reason));
        if (attempt === 1) await hold.opened;
        return `by attempt ${attempt}`;
      }),
    ],
    { leaseMs: 300 },
  );
  await worker.start();
  const id = await submit(store);
  await until(async () => (await store.runs.get(id))!.state === 'running');
  await store.workers.recover(new Date(Date.now() + 60_000));
  const run = await end(store, id);
  hold.open();
  expect(run).toMatchObject({ attempt: 2, result: expect.stringContaining('by attempt 2') });
  await until(() => worker.seen.includes('lease lost') && reasons.length > 0);
  expect(reasons).toEqual(['lease-lost']);
  expect(await end(store, id)).toEqual(run);
});

test('G68: a forged signal that a run was cancelled stops no body', async () => {
  const store = await memoryStore();
  const listeners = new Set<(signal: Signal) => void>();
  let looks = 0;
  const forged: Store = {
    ...withRuns(store, {
      news: (watched) => {
        looks++;
        return store.runs.news(watched);
      },
    }),
    subscribe: (listener) => {
      listeners.add(listener);
      return store.subscribe(listener);
    },
  };
  const hold = gate();
  const reasons: unknown[] = [];
  const worker = makeWorker(forged, [
    tool(async (_args, { signal }) => {
      signal.addEventListener('abort', () => reasons.push(signal.reason));
      await hold.opened;
      return 'done';
    }),
  ]);
  await worker.start();
  const id = await submit(store);
  const { seq } = await until(async () => {
    const run = (await store.runs.get(id))!;
    return run.state === 'running' && run;
  });
  for (const listener of listeners) listener({ kind: 'cancelled', seqs: [seq, seq + 1, 2 ** 53 - 1] });
  await until(() => looks > 0);
  hold.open();
  expect(await end(store, id)).toMatchObject({ state: 'succeeded', attempt: 1 });
  expect(reasons).toEqual([]);
});

test('G03: a worker without tools of its own leaves those of its group on the list', async () => {
  const store = await memoryStore();
  await makeWorker(store, [tool(() => 'done')]).start();
  await makeWorker(store, []).start();
  expect((await store.tools.list())!.tools.map(({ name }) => name)).toEqual(['work']);
});

test('G27: long calls of one caller leave room for another, and go on when one of them ends', async () => {
  const store = await memoryStore();
  const hold = gate();
  const running = new Map<string, number>();
  let most = 0;
  const long = tool(async (_args, { principal }) => {
    const id = principal!.id;
    running.set(id, (running.get(id) ?? 0) + 1);
    most = Math.max(most, running.get('busy') ?? 0);
    if (id === 'busy') await hold.opened;
    running.set(id, running.get(id)! - 1);
    return 'done';
  });
  await makeWorker(store, [long], { concurrency: 8, callerShare: 75 }).start();
  const as = (id: string): Promise<RunId> => submit(store, '{}', 'work', id);
  const busy = await Promise.all(Array.from({ length: 40 }, () => as('busy')));
  await until(() => running.get('busy') === 6);
  for (let i = 0; i < 3; i++)
    expect(await end(store, await as(`quiet-${i}`))).toMatchObject({ state: 'succeeded' });
  expect(most).toBe(6);
  hold.open();
  for (const id of busy) expect(await end(store, id)).toMatchObject({ state: 'succeeded' });
  expect(most).toBe(6);
});

test('G72: in an outage claims are made less and less often, whatever the signals, and say so once a second', async () => {
  const store = await memoryStore();
  const listeners = new Set<(signal: Signal) => void>();
  let isOut = false;
  let claims = 0;
  const failing: Store = {
    ...withRuns(store, {
      claim: (...asked) => {
        claims++;
        if (isOut) throw new RunError('store-unavailable', 'READONLY');
        return store.runs.claim(...asked);
      },
    }),
    subscribe: (listener) => {
      listeners.add(listener);
      return store.subscribe(listener);
    },
  };
  const lines: string[] = [];
  const warn = (_fields: object, message: string): void => void lines.push(message);
  const log: ServiceLog = { ...silent, warn, child: () => log };
  await makeWorker(failing, [tool(() => 'done')], {}, log).start();
  await end(store, await submit(store));
  isOut = true;
  const [before, outAt] = [claims, performance.now()];
  for (let i = 0; i < 100; i++) {
    for (const listener of listeners) listener({ kind: 'queued' });
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  // A pause of 100 ms, then 200 ms: a few, not one for each signal.
  expect(claims - before).toBeLessThanOrEqual(2 + (performance.now() - outAt) / 100);
  expect(lines.length).toBeLessThanOrEqual(1 + (performance.now() - outAt) / 1_000);
  expect(lines).toContain('nothing claimed; trying again after a pause');
  isOut = false;
  expect(await end(store, await submit(store))).toMatchObject({ state: 'succeeded' });
});

test('a cancelled run stops its body, and its slot is free (BEHAVIOURS X10)', async () => {
  const store = await memoryStore();
  const reasons: unknown[] = [];
  const hang = tool(
    (_args, { signal }) =>
      new Promise((resolve) => {
        signal.addEventListener('abort', () => {
          reasons.push(signal.reason);
          resolve('too late');
        });
      }),
  );
  await makeWorker(store, [hang], { concurrency: 1 }).start();
  const [first, second] = [await submit(store), await submit(store)];
  for (const id of [first, second]) {
    await until(async () => (await store.runs.get(id))!.state === 'running');
    await store.runs.cancel(id, endsOfCancel({ tool: 'work', toolClass: 'write' }));
    await until(() => reasons.pop() === 'cancelled');
    expect(await store.runs.get(id)).toMatchObject({
      state: 'cancelled',
      error: { name: 'RunCancelled', outcome: 'unknown' },
    });
  }
});

describe('stop', () => {
  test('lets what runs end, and claims nothing more', async () => {
    const store = await memoryStore();
    const hold = gate();
    const worker = makeWorker(store, [tool(() => hold.opened)], { drainMs: 10_000, concurrency: 1 });
    await worker.start();
    const [running, queued] = [await submit(store), await submit(store)];
    await until(async () => (await store.runs.get(running))!.state === 'running');
    const stopped = worker.stop();
    hold.open();
    await stopped;
    expect(await store.runs.get(running)).toMatchObject({ state: 'succeeded' });
    expect(await store.runs.get(queued)).toMatchObject({ state: 'queued', attempt: 0 });
    expect(await store.workers.live()).toEqual([]);
  });

  test('hands back what does not end in time, to be run again elsewhere (drain:zero-loss)', async () => {
    const store = await memoryStore();
    const forever = makeWorker(store, [tool(() => new Promise(() => {}))], { drainMs: 20 });
    await forever.start();
    const id = await submit(store);
    await until(async () => (await store.runs.get(id))!.state === 'running');
    await forever.stop();
    expect(await store.runs.get(id)).toMatchObject({ state: 'queued' });
    await makeWorker(store, [tool(() => 'by another')]).start();
    expect(await end(store, id)).toMatchObject({ attempt: 2, state: 'succeeded' });
  });

  test('records a result that is in hand, though the store was away, and runs no body again', async () => {
    const store = await memoryStore();
    let isAway = true;
    const flaky = withRuns(store, {
      finish: async (claim, end) => {
        if (isAway) throw new RunError('store-unavailable', 'away');
        return store.runs.finish(claim, end);
      },
    });
    const worker = makeWorker(flaky, [tool(() => 'in hand', { onCrash: 'unknown' })], { drainMs: 20 });
    await worker.start();
    const id = await submit(store);
    await until(async () => (await store.runs.get(id))!.state === 'running');
    const stopped = worker.stop();
    isAway = false;
    await stopped;
    expect(await store.runs.get(id)).toMatchObject({ state: 'succeeded', attempt: 1 });
    expect(worker.seen).toEqual(['claimed', 'succeeded']);
  });

  test("ends it as OutcomeUnknown where the tool says onCrash: 'unknown'", async () => {
    const store = await memoryStore();
    const forever = makeWorker(store, [tool(() => new Promise(() => {}), { onCrash: 'unknown' })], {
      drainMs: 20,
    });
    await forever.start();
    const id = await submit(store);
    await until(async () => (await store.runs.get(id))!.state === 'running');
    await forever.stop();
    expect(await store.runs.get(id)).toMatchObject({ state: 'failed', error: { name: 'OutcomeUnknown' } });
  });

  test('is safe before start and safe twice', async () => {
    const store = await memoryStore();
    const worker = makeWorker(store, [tool(() => '')]);
    await worker.stop();
    await worker.stop();
    await worker.start();
    expect(await store.workers.live()).toEqual([]);
  });
});
