import { afterEach, describe, expect, test } from '@jest/globals';
import {
  endsOfCancel,
  everyLane,
  freshRunId,
  laneOf,
  type RunId,
  type UpstreamOutcome,
  type UpstreamRequest,
} from '@holdfast/run';
import { openStore, type Store } from '@holdfast/store';
import { defaultRules, type ServerCatalogue, type ServerRules } from '@holdfast/tools';
import { publish } from '../../../test/support/publish.ts';
import type { Upstreams } from './upstreams.js';
import { Worker, type WorkerSettings } from './worker.js';
import { end, silent, until } from './test-runs.js';

const stores: Store[] = [];
const workers: Worker[] = [];

afterEach(async () => {
  await Promise.all(workers.splice(0).map((worker) => worker.stop(0)));
  await Promise.all(stores.splice(0).map((store) => store.close()));
});

const tool = (name: string, annotations?: Record<string, unknown>): ServerCatalogue['tools'][number] => ({
  name,
  inputSchema: { type: 'object' },
  fingerprint: `m1_${name}`,
  ...(annotations && { annotations }),
});

const catalogue = (change: Partial<ServerRules> = {}, key = 'gh_00000001'): ServerCatalogue => ({
  key,
  id: 'gh',
  name: 'GitHub',
  identity: '00000001',
  rules: { ...defaultRules, ...change },
  tools: [tool('pay'), tool('look', { readOnlyHint: true }), tool('wipe', { destructiveHint: true })],
});

async function openMemory(...servers: ServerCatalogue[]): Promise<Store> {
  const store = await openStore('memory:');
  stores.push(store);
  for (const server of servers) await publish(store, server);
  return store;
}

async function submit(store: Store, name: string, key = 'gh_00000001'): Promise<RunId> {
  const id = freshRunId(Date.now());
  await store.runs.submit({
    id,
    workflow: laneOf(key),
    tool: `gh__${name}`,
    toolClass: name === 'look' ? 'read' : 'write',
    principal: null,
    arguments: '{"n":1}',
    digest: 'a1_x',
    definition: '',
    upstream: { server: key, tool: name, fingerprint: `m1_${name}`, meta: { 'vendor/key': 7 } },
  });
  return id;
}

type Answer = (request: UpstreamRequest, signal: AbortSignal) => Promise<UpstreamOutcome>;

/** A connector as the worker sees it: what it was asked, and how it answers. */
function connectorOf(answer: Answer, canCall = (_server: string): boolean => true) {
  const asked: UpstreamRequest[] = [];
  const upstreams: Upstreams = {
    canCall,
    call: (request, { signal }) => {
      asked.push(request);
      return answer(request, signal);
    },
  };
  return { asked, upstreams };
}

async function startWorker(
  store: Store,
  upstreams: Upstreams,
  change: Partial<WorkerSettings> = {},
): Promise<Worker> {
  const worker = new Worker({
    store,
    tools: [],
    upstreams,
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
    log: silent,
    observer: { claimed() {}, finished() {}, leaseLost() {} },
  });
  workers.push(worker);
  await worker.start();
  return worker;
}

const ran = (text: string): UpstreamOutcome => ({
  kind: 'ran',
  result: `{"content":[{"type":"text","text":"${text}"}]}`,
});
const dropped: UpstreamOutcome = {
  kind: 'unknown',
  why: 'dropped',
  message: 'GitHub: the connection was lost',
};

test('a run for an upstream is brought to the connector, and its result is recorded as it came', async () => {
  const store = await openMemory(catalogue());
  const { asked, upstreams } = connectorOf(async () => ran('done'));
  await startWorker(store, upstreams);
  const id = await submit(store, 'pay');
  expect(await end(store, id)).toMatchObject({
    state: 'succeeded',
    result: (ran('done') as { result: string }).result,
  });
  expect(asked).toEqual([
    {
      server: 'gh_00000001',
      tool: 'pay',
      runId: id,
      arguments: '{"n":1}',
      meta: { 'vendor/key': 7 },
      principal: null,
      claim: { seq: expect.any(Number), token: expect.any(String) },
      toolClass: 'write',
      isResendable: false,
      timeoutMs: 60_000,
    },
  ]);
  expect((await store.workers.live()).map(({ workflows }) => workflows)).toEqual([[everyLane]]);
});

test('an unknown outcome is sent again for a read within its budget, and never for a write', async () => {
  const store = await openMemory(catalogue());
  const { asked, upstreams } = connectorOf(async () => dropped);
  await startWorker(store, upstreams);
  const paid = await end(store, await submit(store, 'pay'));
  expect(paid).toMatchObject({
    state: 'failed',
    error: { name: 'MCPCallOutcomeUnknown', outcome: 'unknown' },
  });
  expect(asked).toHaveLength(1);
  const looked = await end(store, await submit(store, 'look'));
  expect(looked).toMatchObject({
    state: 'failed',
    error: { name: 'MCPConnectionError', outcome: 'unknown' },
  });
  expect(asked.slice(1).map(({ isResendable }) => isResendable)).toEqual([true, true, true]);
});

describe('when nobody knows what became of a call', () => {
  test('one without a dispatch mark is brought again under a new token, and the old token is worth nothing', async () => {
    const store = await openMemory(catalogue());
    const { asked, upstreams } = connectorOf(async ({ claim }) => {
      if (asked.length === 1) throw new Error('the connector was lost');
      return (await store.runs.dispatch(claim)) === 'won' ? ran('once') : dropped;
    });
    await startWorker(store, upstreams);
    const id = await submit(store, 'pay');
    expect(await end(store, id)).toMatchObject({ state: 'succeeded' });
    expect(asked).toHaveLength(2);
    expect(asked[1]!.claim.seq).toBe(asked[0]!.claim.seq);
    expect(asked[1]!.claim.token).not.toBe(asked[0]!.claim.token);
    expect(await store.runs.dispatch(asked[0]!.claim)).toBe('stale');
  });

  test('one with a dispatch mark may have run, and is told so', async () => {
    const store = await openMemory(catalogue());
    const { asked, upstreams } = connectorOf(async ({ claim }) => {
      await store.runs.dispatch(claim);
      throw new Error('the connector was lost');
    });
    await startWorker(store, upstreams);
    expect(await end(store, await submit(store, 'pay'))).toMatchObject({
      state: 'failed',
      error: { name: 'MCPCallOutcomeUnknown', outcome: 'unknown' },
    });
    expect(asked).toHaveLength(1);
  });
});

describe('an attempt whose worker was lost', () => {
  /** A run that a worker claimed, and maybe had sent, before it died. */
  async function lostRun(store: Store, name: string, isDispatched: boolean): Promise<RunId> {
    const id = await submit(store, name);
    await store.workers.join({ id: 'lost', group: 'default', workflows: [everyLane] }, 60_000);
    const [claim] = await store.runs.claim({
      worker: 'lost',
      workflows: [laneOf('gh_00000001')],
      definitions: [''],
      definitionGraceMs: 0,
      limit: 1,
      isDurable: true,
      sweep: true,
    });
    if (isDispatched) expect(await store.runs.dispatch(claim!)).toBe('won');
    await store.workers.leave('lost');
    return id;
  }

  test('is unknown where its call may have been sent', async () => {
    const store = await openMemory(catalogue());
    const id = await lostRun(store, 'pay', true);
    const { asked, upstreams } = connectorOf(async () => ran('twice'));
    await startWorker(store, upstreams);
    expect(await end(store, id)).toMatchObject({ state: 'failed', error: { name: 'MCPCallOutcomeUnknown' } });
    expect(asked).toEqual([]);
  });

  test.each([
    ['its call was not sent', 'pay'],
    ['it reads', 'look'],
  ])('goes on where %s', async (_case, name) => {
    const store = await openMemory(catalogue());
    const id = await lostRun(store, name, false);
    const { upstreams } = connectorOf(async ({ claim, toolClass }) =>
      toolClass === 'read' || (await store.runs.dispatch(claim)) === 'won' ? ran('once') : dropped,
    );
    await startWorker(store, upstreams);
    expect(await end(store, id)).toMatchObject({ state: 'succeeded', attempt: 2 });
  });

  test('is sent again where the operator says so', async () => {
    const store = await openMemory(catalogue({ onCrash: 'rerun' }));
    const id = await lostRun(store, 'pay', true);
    const { asked, upstreams } = connectorOf(async () => ran('again'));
    await startWorker(store, upstreams);
    expect(await end(store, id)).toMatchObject({ state: 'succeeded' });
    expect(asked.map(({ isResendable }) => isResendable)).toEqual([true]);
  });
});

describe('nothing is sent', () => {
  test.each([
    ['a tool that its server does not offer any more', 'gone', {}, 'ToolWithdrawn', 'not_sent'],
    ['a tool that the operator filters out', 'pay', { deny: ['pay'] }, 'ToolWithdrawn', 'not_sent'],
    ['a tool that says that it destroys', 'wipe', {}, 'ApprovalUnavailable', 'refused'],
    ['a tool that needs an approval', 'pay', { requiresApproval: ['pay'] }, 'ApprovalUnavailable', 'refused'],
  ] as const)('of a call of %s', async (_case, name, change, error, outcome) => {
    const store = await openMemory(catalogue(change));
    const { asked, upstreams } = connectorOf(async () => ran('no'));
    await startWorker(store, upstreams);
    const ended = await end(store, await submit(store, name));
    expect(ended).toMatchObject({ state: 'failed', error: { name: error, outcome } });
    expect(asked).toEqual([]);
  });

  test('of a run for a server that was retired, and it comes to an end', async () => {
    const store = await openMemory({ ...catalogue(), tools: [] });
    const { asked, upstreams } = connectorOf(
      async () => ran('no'),
      () => false,
    );
    await startWorker(store, upstreams);
    expect(await end(store, await submit(store, 'pay'))).toMatchObject({ error: { name: 'ToolWithdrawn' } });
    expect(asked).toEqual([]);
  });
});

test('one server that hangs holds as many calls as it takes at once, and the others go on', async () => {
  const store = await openMemory(catalogue({ concurrency: 2 }), catalogue({}, 'gh_00000002'));
  const { asked, upstreams } = connectorOf(({ server }, signal) =>
    server === 'gh_00000001'
      ? new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped'))))
      : Promise.resolve(ran('quick')),
  );
  await startWorker(store, upstreams);
  for (let i = 0; i < 2; i++) await submit(store, 'pay');
  await until(() => asked.length === 2);
  const waiting = await submit(store, 'pay');
  const quick = await submit(store, 'pay', 'gh_00000002');
  expect(await end(store, quick)).toMatchObject({ state: 'succeeded' });
  expect(await store.runs.get(waiting)).toMatchObject({ state: 'queued' });
});

test('a server that cannot be called from here is left to other workers', async () => {
  const store = await openMemory(catalogue(), catalogue({}, 'gh_00000002'));
  const { asked, upstreams } = connectorOf(
    async () => ran('ours'),
    (server) => server === 'gh_00000002',
  );
  await startWorker(store, upstreams);
  const theirs = await submit(store, 'pay');
  expect(await end(store, await submit(store, 'pay', 'gh_00000002'))).toMatchObject({ state: 'succeeded' });
  expect(await store.runs.get(theirs)).toMatchObject({ state: 'queued' });
  expect(asked.map(({ server }) => server)).toEqual(['gh_00000002']);
});

describe('a worker that stops', () => {
  test('hands a call back that was not sent, and tells one that may have run', async () => {
    const store = await openMemory(catalogue());
    const { asked, upstreams } = connectorOf(async ({ claim }, signal) => {
      if (asked.length === 1) await store.runs.dispatch(claim);
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped'))));
    });
    const worker = await startWorker(store, upstreams);
    const sent = await submit(store, 'pay');
    await until(() => asked.length === 1);
    const waiting = await submit(store, 'pay');
    await until(() => asked.length === 2);
    await until(async () => (await store.runs.dispatch(asked[0]!.claim)) === 'lost');
    await worker.stop(0);
    expect(await store.runs.get(sent)).toMatchObject({
      state: 'failed',
      error: { name: 'MCPCallOutcomeUnknown' },
    });
    expect(await store.runs.get(waiting)).toMatchObject({ state: 'queued' });
  });

  test('a cancelled run gives its call up', async () => {
    const store = await openMemory(catalogue());
    const { promise: stopped, resolve } = Promise.withResolvers<void>();
    const { asked, upstreams } = connectorOf(
      (_request, signal) =>
        new Promise((_, reject) =>
          signal.addEventListener('abort', () => {
            resolve();
            reject(new Error('stopped'));
          }),
        ),
    );
    await startWorker(store, upstreams);
    const id = await submit(store, 'pay');
    await until(() => asked.length === 1);
    await store.runs.cancel(id, endsOfCancel({ tool: 'gh__pay', toolClass: 'write' }));
    await stopped;
    expect(await store.runs.get(id)).toMatchObject({ state: 'cancelled' });
  });
});
