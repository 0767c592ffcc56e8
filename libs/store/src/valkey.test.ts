import { connect as dial, createServer } from 'node:net';
import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Redis } from 'ioredis';
import { freshRunId, type NewRun, type RunId } from '@holdfast/run';
import {
  connectTo,
  newStoreUrl,
  startTcpProxy,
  startValkey,
  testValkey,
  type PrivateValkey,
  type TcpProxy,
} from '../../../test/servers/index.ts';
import { recordingLog } from '../../../test/support/log.ts';
import { until } from '../../../test/support/until.ts';
import { storeConformance } from './conformance.suite.js';
import type { Claim, Signal, Store } from './contract.js';
import { join, newRun, submit } from './test-runs.js';
import { openValkey, type ValkeyOptions } from './valkey.js';

/** Starting a server may mean to install it first. */
const startMs = 300_000;

storeConformance('valkey', async () => {
  const url = testValkey();
  return { open: () => openValkey({ url }), dispose: async () => {} };
});

const opened: { close(): Promise<void> }[] = [];
afterAll(async () => {
  for (const one of opened.reverse()) await one.close();
});

async function open(options: ValkeyOptions): Promise<Store> {
  const store = await openValkey(options);
  opened.push(store);
  return store;
}

async function start(settings: Record<string, string> = {}): Promise<PrivateValkey> {
  const server = await startValkey(settings);
  opened.push({ close: () => server.stop() });
  return server;
}

/** A connection of the test's own, beside the store, and what the store's keys begin with. */
async function connect(url: string): Promise<{ redis: Redis; prefix: string }> {
  const redis = connectTo(url);
  await redis.connect();
  opened.push({ close: async () => redis.disconnect() });
  return { redis, prefix: `{${new URL(url).searchParams.get('prefix') ?? 'holdfast'}}:` };
}

async function proxyTo(url: string): Promise<{ proxy: TcpProxy; url: string }> {
  const { hostname, port } = new URL(url);
  const proxy = await startTcpProxy({ host: hostname, port: Number(port) });
  opened.push(proxy);
  const through = new URL(url);
  through.host = `127.0.0.1:${proxy.port}`;
  return { proxy, url: through.href };
}

const unfit = (message: RegExp): object => ({
  code: 'store-unfit',
  message: expect.stringMatching(message),
});

const succeed = (store: Store, claim: Claim): Promise<boolean> =>
  store.runs.finish(claim, { state: 'succeeded', result: '{}' });

function next(store: Store, kind: Signal['kind']): Promise<void> {
  return new Promise((resolve) => {
    const unsubscribe = store.subscribe((signal) => {
      if (signal.kind !== kind) return;
      unsubscribe();
      resolve();
    });
  });
}

/** Asks until it is answered without a fault that heals. */
async function healed<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      expect(error).toMatchObject({ code: 'store-unavailable' });
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
}

describe('runs', () => {
  test('what is no UTF-8 is kept all the same, and two such callers are two', async () => {
    const store = await open({ url: testValkey() });
    const ids = ['nul \0', 'lone \ud83d', 'lone \ud83e', '\u0001"plain"', '"quoted"'];
    for (const id of ids) await submit(store, { principal: { realm: 'jwt:x', id } });
    for (const id of ids) {
      const found = await store.runs.list({ principal: id, limit: 10 });
      expect(found.map(({ principal }) => principal)).toEqual([{ realm: 'jwt:x', id }]);
    }
    expect(await store.runs.get('r1_\0' as RunId)).toBeUndefined();
  });

  test('a run that is damaged from outside fails alone', async () => {
    const url = testValkey();
    const { redis, prefix } = await connect(url);
    const store = await open({ url });
    const request = await join(store);
    const id = freshRunId(1);
    await redis.set(`${prefix}run:${id}`, 'not a run');
    const [good, bad, alsoGood] = await Promise.allSettled([
      submit(store),
      submit(store, { id }),
      submit(store),
    ]);
    expect([good.status, alsoGood.status]).toEqual(['fulfilled', 'fulfilled']);
    expect(bad).toMatchObject({ reason: { code: 'internal', message: expect.stringMatching(/WRONGTYPE/) } });

    const damaged = await submit(store);
    const [first, second] = (await store.runs.claim({ ...request, limit: 2 })) as [Claim, Claim];
    for (const { id: broken } of [damaged, second.run]) {
      await redis.del(`${prefix}run:${broken}`);
      await redis.set(`${prefix}run:${broken}`, 'not a run');
    }
    const last = await submit(store);
    expect((await store.runs.claim(request)).map(({ seq }) => seq)).toEqual([last.seq]);
    const ends = await Promise.allSettled([succeed(store, second), succeed(store, first)]);
    expect(ends).toMatchObject([{ reason: { code: 'internal' } }, { value: true }]);
    const watched = [first, second].map(({ seq }) => ({ seq, after: 0 }));
    expect((await store.runs.news(watched)).map(({ seq }) => seq)).toEqual([first.seq]);
    expect(await store.runs.list({ limit: 10 })).toHaveLength(2);
    await store.workers.leave(request.worker);
    expect(await store.runs.get(last.id)).toMatchObject({ state: 'queued' });
    await expect(store.runs.get(damaged.id)).rejects.toMatchObject({ code: 'internal' });
  });

  test('a number once given is never given again, though the data be lost', async () => {
    const url = testValkey();
    const { redis, prefix } = await connect(url);
    const store = await open({ url });
    const lost = await submit(store);
    await redis.del(`${prefix}seq`, `${prefix}runs`, `${prefix}run:${lost.id}`);
    expect((await submit(store)).seq).toBeGreaterThan(lost.seq);
  });

  test('a repeat points to nothing once its run is removed', async () => {
    const url = testValkey();
    const { redis, prefix } = await connect(url);
    const store = await open({ url });
    const request = await join(store);
    const repeat = { key: 'k', windowMs: 60_000 };
    await store.runs.submit(newRun(), { repeat });
    await succeed(store, (await store.runs.claim(request))[0]!);
    expect(await store.runs.removeFinished(new Date(Date.now() + 60_000), 10)).toBe(1);
    expect(await redis.exists(`${prefix}repeats`)).toBe(0);
    expect(await store.runs.submit(newRun(), { repeat })).toMatchObject({ kind: 'fresh' });
  });

  test('nothing is left of a run that was removed but the counters', async () => {
    const url = testValkey();
    const { redis, prefix } = await connect(url);
    const store = await open({ url });
    const request = await join(store);
    for (let i = 0; i < 250; i++) await submit(store);
    for (let claims; (claims = await store.runs.claim(request)).length > 0;) {
      for (const claim of claims) {
        await store.runs.report(claim, [{ n: 1_000_001, value: 1 }]);
        await store.runs.dispatch(claim);
      }
      await Promise.all(claims.map((claim) => succeed(store, claim)));
    }
    await store.workers.leave(request.worker);
    expect(await store.runs.removeFinished(new Date(Date.now() + 60_000), 240)).toBe(240);
    expect(await store.runs.removeFinished(new Date(Date.now() + 60_000), 240)).toBe(10);
    const left = await redis.keys(`${prefix}*`);
    expect(left.map((key) => key.slice(prefix.length)).sort()).toEqual(['least', 'seq', 'version']);
  });
});

describe('claims', () => {
  /** Commands that the server ran for `work`. */
  async function commandsOf(redis: Redis, work: () => Promise<unknown>): Promise<number> {
    const count = async (): Promise<number> => {
      const stats = await redis.info('commandstats');
      return [...stats.matchAll(/calls=(\d+)/g)].reduce((sum, [, calls]) => sum + Number(calls), 0);
    };
    const before = await count();
    await work();
    return (await count()) - before;
  }

  test('cost no more with many ended runs and a long queue of others', async () => {
    const { url } = await start({ appendonly: 'no' });
    const { redis } = await connect(url);
    const store = await open({ url });
    const request = await join(store, { limit: 10 });
    const claimTen = async (): Promise<number> => {
      await Promise.all(Array.from({ length: 10 }, () => submit(store)));
      let claims: Claim[] = [];
      const cost = await commandsOf(redis, async () => (claims = await store.runs.claim(request)));
      expect(claims).toHaveLength(10);
      await Promise.all(claims.map((claim) => succeed(store, claim)));
      return cost;
    };
    const first = await claimTen();
    for (let i = 0; i < 100; i++) await claimTen();
    await Promise.all(
      Array.from({ length: 2_000 }, (_, i) => submit(store, { workflow: i % 2 ? 'another' : `own-${i}` })),
    );
    await Promise.all(Array.from({ length: 500 }, () => submit(store, { definition: 'd1_newer' })));
    // The health check of the signals may come in between.
    expect(await claimTen()).toBeLessThanOrEqual(first + 10);
  });

  test('take the oldest of several workflows and definitions first', async () => {
    const store = await open({ url: testValkey() });
    const names = ['a', 'b', 'c'];
    const request = await join(store, { workflows: names, definitions: ['d1_x', 'd1_y'], limit: 40 });
    const seqs: number[] = [];
    for (let i = 0; i < 150; i++) {
      const { seq } = await submit(store, {
        workflow: names[(i * 7) % 3]!,
        definition: i % 2 ? 'd1_x' : 'd1_y',
      });
      seqs.push(seq);
    }
    const claimed: number[] = [];
    for (let claims; (claims = await store.runs.claim(request)).length > 0;)
      claimed.push(...claims.map(({ seq }) => seq));
    expect(claimed).toEqual(seqs);
  });
});

describe('an outage', () => {
  let server: PrivateValkey;
  beforeAll(async () => {
    server = await start();
  }, startMs);

  test('calls fail fast while the server is down, and a restart keeps everything', async () => {
    const url = newStoreUrl(server.url);
    const store = await open({ url });
    const request = await join(store, { limit: 1 });
    const [ended, running, queued] = [await submit(store), await submit(store), await submit(store)];
    await succeed(store, (await store.runs.claim(request))[0]!);
    const [claim] = await store.runs.claim(request);
    await store.sessions.open(
      { id: 's', principal: null, protocolVersion: '2025-11-25', client: {} },
      { max: 1, idleMs: 1_000_000 },
    );
    // What an append-only file on 'everysec' may lose is what came in its last second.
    await (await connect(url)).redis.config('SET', 'appendfsync', 'always');
    await submit(store);
    await server.kill();
    await until(() => !store.hearing);
    const before = Date.now();
    await expect(submit(store)).rejects.toMatchObject({ code: 'store-unavailable' });
    await expect(store.ping()).rejects.toMatchObject({ code: 'store-unavailable' });
    expect(Date.now() - before).toBeLessThan(2_000);
    await next(store, 'everything');

    const heard = until(() => store.hearing);
    await server.restart();
    await healed(() => store.ping());
    await heard;
    expect(await store.runs.get(ended.id)).toMatchObject({ state: 'succeeded' });
    expect(await store.runs.get(running.id)).toMatchObject({ state: 'running', attempt: 1 });
    expect(await store.runs.get(queued.id)).toMatchObject({ state: 'queued' });
    expect(await store.sessions.get('s', 1_000_000)).toMatchObject({ id: 's' });
    expect(await succeed(store, claim!)).toBe(true);
    expect((await submit(store)).seq).toBeGreaterThan(queued.seq);
  });

  test('a server that hangs is given up in time, and what it did late does no harm', async () => {
    const store = await open({ url: newStoreUrl(server.url), commandMs: 500 });
    const request = await join(store);
    await server.pause();
    const run = newRun();
    await expect(store.runs.submit(run)).rejects.toMatchObject({ code: 'store-unavailable' });
    await server.resume();
    const { kind } = await healed(() => store.runs.submit(run));
    expect(['fresh', 'attached']).toContain(kind);
    expect((await healed(() => store.runs.claim(request))).map(({ run: { id } }) => id)).toEqual([run.id]);
  });

  test('connections cut again and again under load lose nothing and double nothing', async () => {
    const { proxy, url } = await proxyTo(newStoreUrl(server.url));
    const [gateway, worker] = [await open({ url }), await open({ url })];
    const request = await join(worker, { limit: 20 });
    const runs: NewRun[] = [];
    let cuts = 0;
    let isSubmitted = false;
    let isDone = false;
    const cutting = (async () => {
      while (!isDone) {
        await new Promise((resolve) => setTimeout(resolve, 80));
        proxy.cut();
        cuts++;
      }
    })();
    const finished = new Map<string, number>();
    const working = (async () => {
      while (!isSubmitted || finished.size < runs.length) {
        // Claims whose answer was lost are given back by the worker itself.
        await healed(() => worker.workers.releaseUnknown(request.worker, []));
        for (const claim of await healed(() => worker.runs.claim(request))) {
          const counted = await healed(() => succeed(worker, claim));
          const kept = await healed(() => worker.runs.get(claim.run.id));
          if (counted) finished.set(claim.run.id, (finished.get(claim.run.id) ?? 0) + 1);
          else if (kept?.state === 'succeeded' && !finished.has(kept.id)) finished.set(kept.id, 1);
        }
      }
    })();
    const kinds: string[] = [];
    // A quick machine is through before there were enough cuts: the work goes on until there were.
    while (runs.length < 600 || cuts <= 5) {
      const more = Array.from({ length: runs.length < 600 ? 30 : 1 }, () => newRun());
      runs.push(...more);
      kinds.push(
        ...(await Promise.all(more.map(async (run) => (await healed(() => gateway.runs.submit(run))).kind))),
      );
    }
    isSubmitted = true;
    await working;
    isDone = true;
    await cutting;
    expect(kinds).toHaveLength(runs.length);
    expect([...finished.values()].every((times) => times === 1)).toBe(true);
    for (const { id } of runs)
      expect(await healed(() => gateway.runs.get(id))).toMatchObject({ state: 'succeeded' });
    await healed(async () => expect(await gateway.runs.queue()).toMatchObject({ queued: 0 }));
  });

  test('a hundred connections dropped in mid-command leave nothing that never settles (F168)', async () => {
    const { proxy, url } = await proxyTo(newStoreUrl(server.url));
    const store = await open({ url });
    const settled: Promise<unknown>[] = [];
    for (let i = 0; i < 100; i++) {
      await healed(() => store.ping());
      for (let n = 0; n < 5; n++) settled.push(submit(store).catch((error: unknown) => error));
      await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
      proxy.cut();
    }
    for (const outcome of await Promise.all(settled)) {
      if (outcome instanceof Error) expect(outcome).toMatchObject({ code: 'store-unavailable' });
    }
    await store.close();
  });

  test('scripts that the server forgot are loaded again', async () => {
    const url = newStoreUrl(server.url);
    const store = await open({ url });
    await submit(store);
    await (await connect(url)).redis.script('FLUSH');
    await Promise.all([submit(store), store.runs.queue(), submit(store)]);
    expect(await store.runs.queue()).toMatchObject({ queued: 3 });
  });

  test('a signal connection that was ended is restored, and what came meanwhile is looked for', async () => {
    const url = newStoreUrl(server.url);
    const { redis } = await connect(url);
    const [store, other] = [await open({ url, pollMs: 20 }), await open({ url })];
    expect(store.hearing).toBe(true);
    const everything = next(store, 'everything');
    await redis.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await until(() => !store.hearing);
    await everything;
    await submit(other);
    const restored = until(() => store.hearing);
    const afterwards = next(store, 'everything');
    await restored;
    await afterwards;
    const queued = next(store, 'queued');
    await submit(other);
    await queued;
  });

  test('data flushed under a running store is gone, and nothing else goes wrong (F170)', async () => {
    const own = await start();
    const store = await open({ url: own.url });
    const request = await join(store);
    const run = await submit(store);
    const [claim] = await store.runs.claim(request);
    await (await connect(own.url)).redis.flushall();
    expect(await succeed(store, claim!)).toBe(false);
    expect(await store.runs.get(run.id)).toBeUndefined();
    expect(await store.workers.renew(request.worker, 1_000)).toBe(false);
    expect(await store.sessions.get('s', 1_000)).toBeUndefined();
    expect((await submit(store, { id: run.id })).seq).toBeGreaterThan(run.seq);
    expect(await store.runs.news([{ seq: run.seq, after: 0 }])).toEqual([]);
  });
});

test(
  'after a fail-over that leaves connections open, writes succeed again within seconds (F166)',
  async () => {
    const [one, two] = [await start(), await start()];
    const admin = { one: (await connect(one.url)).redis, two: (await connect(two.url)).redis };
    await admin.two.replicaof('127.0.0.1', one.port);
    await until(async () => /master_link_status:up/.test(await admin.two.info('replication')));
    // The name that clients use leads to whoever is the primary.
    const targets = { current: one.port };
    const name = createServer((client) => {
      const upstream = dial(targets.current, '127.0.0.1');
      client.pipe(upstream).pipe(client);
      for (const socket of [client, upstream]) socket.on('error', () => {});
    });
    await new Promise<void>((resolve) => name.listen(0, '127.0.0.1', resolve));
    const { port } = name.address() as { port: number };
    const url = `valkey://127.0.0.1:${port}/0`;
    const [store, other] = [await open({ url }), await open({ url })];
    const request = await join(store);
    const run = await submit(store);
    const [claim] = await store.runs.claim(request);
    // Replication is asynchronous; this test is not about what that loses.
    await admin.one.set('marker', '1');
    expect(await admin.one.wait(1, 5_000)).toBe(1);

    await admin.two.replicaof('NO', 'ONE');
    await admin.one.replicaof('127.0.0.1', two.port);
    targets.current = two.port;
    const before = Date.now();
    expect(await healed(() => succeed(store, claim!))).toBe(true);
    await healed(() => submit(other));
    expect(Date.now() - before).toBeLessThan(10_000);
    expect(await store.runs.get(run.id)).toMatchObject({ state: 'succeeded' });
    await until(() => store.hearing && other.hearing);
    for (const one of [store, other]) await one.close();
    await new Promise((resolve) => name.close(resolve));
  },
  startMs,
);

describe('G01: a database that is not there', () => {
  test.each(['/1', '/99'])('%s is refused on a server that has one', async (path) => {
    const { url } = await start({ databases: '1' });
    await expect(openValkey({ url: new URL(path, url).href })).rejects.toMatchObject(
      unfit(/no database of that number/),
    );
    await open({ url: new URL('/0', url).href });
  });

  test('is refused on a node of a cluster', async () => {
    const { url } = await start({ 'cluster-enabled': 'yes' });
    const { redis } = await connect(url);
    await redis.cluster('ADDSLOTSRANGE', 0, 16_383);
    await until(async () => ((await redis.cluster('INFO')) as string).includes('cluster_state:ok'));
    await expect(openValkey({ url: new URL('/1', url).href })).rejects.toMatchObject(
      unfit(/no database of that number/),
    );
  });
});

test('G68: a message that no store sends ends nothing, and one line says so', async () => {
  const url = testValkey();
  const { lines, log } = recordingLog();
  const store = await open({ url, log });
  const { redis, prefix } = await connect(url);
  const channel = `${prefix}0:signals`;
  for (const payload of ['a told b', 'a told {', 'a runs x', 'nonsense', '', 'x'.repeat(100_000)])
    await redis.publish(channel, payload);
  // Messages arrive in order: once this one is heard, the others were.
  const heard = next(store, 'tools');
  expect(await redis.publish(channel, 'another tools')).toBeGreaterThan(0);
  await heard;
  expect(lines.filter(({ message }) => message.includes('cannot be read'))).toHaveLength(1);
});

test('G10: entries that are no JSON are left out alone', async () => {
  const url = testValkey();
  const store = await open({ url });
  await store.tools.register('g', [
    { name: 'good', description: '', inputSchema: {}, toolClass: 'read', digest: 'd1' },
  ]);
  const { redis, prefix } = await connect(url);
  await redis.hset(`${prefix}tools`, { bad: '7 {"name":', worse: 'no revision', none: '', null: '8 [null]' });
  await redis.hset(`${prefix}servers`, { bad_00000000: 'no json', worse_00000000: '' });
  await redis.incr(`${prefix}catalogue`);
  const { tools, servers, unreadable } = (await store.tools.list())!;
  expect(tools.map(({ name }) => name)).toEqual(['good']);
  expect(servers).toEqual([]);
  expect(unreadable).toHaveLength(6);
});

describe('opening', () => {
  test('an evicting server is refused, with the remedy (BEHAVIOURS 79, F170)', async () => {
    const { url } = await start({ 'maxmemory-policy': 'allkeys-lru', maxmemory: '64mb' });
    await expect(openValkey({ url })).rejects.toMatchObject(
      unfit(/maxmemory-policy is allkeys-lru.*set maxmemory-policy noeviction/),
    );
  });

  test('a replica is refused', async () => {
    const [primary, replica] = [await start(), await start()];
    await (await connect(replica.url)).redis.replicaof('127.0.0.1', primary.port);
    await expect(openValkey({ url: replica.url })).rejects.toMatchObject(unfit(/use the URL of the primary/));
  });

  test('one node of a cluster that is down is refused', async () => {
    const { url } = await start({ 'cluster-enabled': 'yes' });
    await expect(openValkey({ url })).rejects.toMatchObject(unfit(/its cluster is fail/));
  });

  test('a cluster of one node serves it', async () => {
    const { url } = await start({ 'cluster-enabled': 'yes' });
    const { redis } = await connect(url);
    await redis.cluster('ADDSLOTS', ...Array.from({ length: 16_384 }, (_, slot) => slot));
    await until(async () => /cluster_state:ok/.test((await redis.cluster('INFO')) as string));
    const store = await open({ url });
    const request = await join(store);
    await submit(store);
    const [claim] = await store.runs.claim(request);
    expect(await succeed(store, claim!)).toBe(true);
  });

  test('a newer layout is refused from the one on that ours must know', async () => {
    const url = testValkey();
    const { redis, prefix } = await connect(url);
    await redis.mset(`${prefix}version`, '99', `${prefix}least`, '3');
    await expect(openValkey({ url })).rejects.toMatchObject(
      unfit(/newer version \(schema 99, to be used from 3 on; this one knows 2\); start that version/),
    );
  });

  test('a newer layout that only adds is used, and stays what it is: an update can be rolled back', async () => {
    const url = testValkey();
    const { redis, prefix } = await connect(url);
    await redis.mset(`${prefix}version`, '99', `${prefix}least`, '2');
    await submit(await open({ url }));
    expect(await redis.mget(`${prefix}version`, `${prefix}least`)).toEqual(['99', '2']);
  });

  test('what the version before kept is there, and its layout becomes ours', async () => {
    const url = testValkey();
    const { redis, prefix } = await connect(url);
    const run = newRun();
    const about = ['mcp:tool:refund_order', 'refund_order', 'write', 'apikey', 'desk', 'a1_x', 'd1_x'];
    const [key, seq] = [`${prefix}run:${run.id}`, 1_700_000_000_000_000];
    await redis.hset(key, {
      seq,
      id: run.id,
      about: JSON.stringify(about),
      arguments: run.arguments,
      submitted_at: 1_700_000_000_000,
      attempt: 0,
      state: 'queued',
    });
    await redis.zadd(`${prefix}runs`, seq, run.id);
    await redis.zadd(`${prefix}waiting`, seq, seq);
    await redis.zadd(`${prefix}since`, 1_700_000_000_000, seq);
    await redis.zadd(`${prefix}queue:${run.workflow}\nd1_x`, seq, seq);
    await redis.sadd(`${prefix}definitions:${run.workflow}`, 'd1_x');
    await redis.mset(`${prefix}seq`, seq, `${prefix}version`, 1);

    const store = await open({ url });
    expect(await redis.get(`${prefix}version`)).toBe('2');
    const kept = {
      ...run,
      seq,
      attempt: 0,
      state: 'queued',
      submittedAt: new Date(1_700_000_000_000),
    };
    expect(await store.runs.get(run.id)).toStrictEqual(kept);
    expect(await store.tools.list()).toEqual({ revision: 0, tools: [], servers: [], unreadable: [] });
    const [claim] = await store.runs.claim(await join(store));
    expect(claim).toMatchObject({ seq, isDispatched: false });
    expect(await store.runs.dispatch(claim!)).toBe('won');
    expect(await succeed(store, claim!)).toBe(true);
  });

  test('a server without an append-only file is warned of', async () => {
    const { url } = await start({ appendonly: 'no' });
    const warnings: string[] = [];
    await open({ url, log: { info: () => {}, warn: (_fields, message) => warnings.push(message) } });
    expect(warnings).toEqual([expect.stringMatching(/no append-only file.*set appendonly yes/)]);
    await expect(openValkey({ url: `${url}?waitaof=1` })).rejects.toMatchObject(unfit(/set appendonly yes/));
  });

  test('a wrong password is refused, and no password is told', async () => {
    const { url } = await start();
    await (await connect(url)).redis.config('SET', 'requirepass', 'right-pass');
    for (const credentials of ['', ':wrong-pass@', 'nobody:wrong-pass@']) {
      const given = url.replace('//', `//${credentials}`);
      const error = await openValkey({ url: given }).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject(unfit(/refuses the user or the password; correct those in the URL/));
      expect(inspect(error, { depth: 9 })).not.toContain('wrong-pass');
    }
    await open({ url: url.replace('//', '//:right-pass@') });
  });

  test('a user with too few rights is told which it needs; those are enough', async () => {
    const { url } = await start();
    const { redis } = await connect(url);
    await redis.acl('SETUSER', 'few', 'on', '>pass', '~*', '+@read', '+info');
    await redis.acl(
      'SETUSER',
      'enough',
      'on',
      '>pass',
      '~{holdfast}:*',
      '&{holdfast}:*',
      '+@all',
      '-@dangerous',
      '+info',
    );
    await expect(openValkey({ url: url.replace('//', '//few:pass@') })).rejects.toMatchObject(
      unfit(/ACL SETUSER/),
    );
    const store = await open({ url: url.replace('//', '//enough:pass@') });
    expect(store.hearing).toBe(true);
    await submit(store);
  });

  test('a server that is not there may come yet', async () => {
    const error = await openValkey({ url: 'valkey://:hunter2@127.0.0.1:1/0' }).catch(
      (thrown: unknown) => thrown,
    );
    expect(error).toMatchObject({ code: 'store-unavailable' });
    expect(inspect(error, { depth: 9 })).not.toContain('hunter2');
  });

  test.each([
    ['valkey://h/x', /database by its number/],
    ['valkey://', /names no host|not well-formed/],
    ['valkey://h/?prefix=a%20b', /prefix/],
    ['valkey://h/?waitaof=yes', /waitaof/],
    ['valkey://h/?cluster=1', /unknown option cluster/],
  ])('the URL %s is refused', async (url, message) => {
    await expect(openValkey({ url })).rejects.toMatchObject(unfit(message));
  });

  test('two prefixes on one server do not see each other', async () => {
    const server = await start();
    const [one, two] = [
      await open({ url: newStoreUrl(server.url) }),
      await open({ url: newStoreUrl(server.url) }),
    ];
    await submit(one);
    expect(await two.runs.queue()).toEqual({ queued: 0, oldest: undefined });
  });
});

test(
  'with waitaof a write is done when it is on the disk of the server, where that can be asked',
  async () => {
    const server = await start();
    const { redis } = await connect(server.url);
    const url = `${server.url}?waitaof=1`;
    const isThere = ((await redis.command('INFO', 'waitaof')) as unknown[])[0] !== null;
    if (!isThere) {
      await expect(openValkey({ url })).rejects.toMatchObject({
        code: 'store-unfit',
        message: expect.stringMatching(/needs WAITAOF/),
      });
      return;
    }
    const store = await open({ url });
    const request = await join(store);
    const [run] = [await submit(store), await submit(store)];
    const [claim, sent] = await store.runs.claim(request);
    expect(await succeed(store, claim!)).toBe(true);
    expect(await store.runs.dispatch(sent!)).toBe('won');
    await server.kill();
    await server.restart();
    expect(await healed(() => store.runs.get(run.id))).toMatchObject({ state: 'succeeded' });
    expect(await store.runs.dispatch(sent!)).toBe('lost');
  },
  startMs,
);
