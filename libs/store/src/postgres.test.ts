import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { freshRunId, type Run, type RunId } from '@holdfast/run';
import {
  startPgBouncer,
  startPostgres,
  startTcpProxy,
  testDatabase,
  type PgBouncer,
  type TcpProxy,
} from '../../../test/servers/index.ts';
import { recordingLog } from '../../../test/support/log.ts';
import { until } from '../../../test/support/until.ts';
import { storeConformance } from './conformance.suite.js';
import type { Signal, Store } from './contract.js';
import {
  claimStatement,
  openPostgres,
  queueStatement,
  sessionsStatement,
  type PostgresOptions,
} from './postgres.js';
import { postgresMigrations } from './postgres-schema.js';
import { join, newRun, submit } from './test-runs.js';

/** One pool of ten free slots, nothing held. */
const oneShare = [[0], [10], [], [], [], 100];

/** Starting a server may mean to install it first. */
const startMs = 300_000;

storeConformance('postgres', async () => {
  const url = await testDatabase();
  return { open: () => openPostgres({ url }), dispose: async () => {} };
});

storeConformance('postgres in a schema of its own', async () => {
  const url = `${await testDatabase()}?schema=staging`;
  return { open: () => openPostgres({ url }), dispose: async () => {} };
});

storeConformance('postgres through PgBouncer, listening directly', async () => {
  const url = await testDatabase();
  const pooler = await startPgBouncer(url, { poolSize: 3 });
  return { open: () => openPostgres({ url: pooler.url, listenUrl: url }), dispose: () => pooler.stop() };
});

storeConformance('postgres through PgBouncer, polling', async () => {
  const url = await testDatabase();
  const pooler = await startPgBouncer(url, { poolSize: 3 });
  return {
    open: () => openPostgres({ url: pooler.url, listenUrl: 'off', pollMs: 20 }),
    dispose: () => pooler.stop(),
  };
});

const opened: { close(): Promise<void> }[] = [];
afterAll(async () => {
  for (const one of opened) await one.close();
});

async function open(options: PostgresOptions): Promise<Store> {
  const store = await openPostgres(options);
  opened.push(store);
  return store;
}

async function proxyTo(url: string): Promise<{ proxy: TcpProxy; url: string }> {
  const { hostname, port } = new URL(url);
  const proxy = await startTcpProxy({ host: hostname, port: Number(port) });
  opened.push(proxy);
  const through = new URL(url);
  through.host = `127.0.0.1:${proxy.port}`;
  return { proxy, url: through.href };
}

const refused = (url: string) =>
  openPostgres({ url }).then(
    () => 'opened',
    (error: unknown) => error,
  );

/** A session of the test's own, beside the store. */
async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  opened.push({ close: () => client.end() });
  return client;
}

function next(store: Store, kind: Signal['kind']): Promise<void> {
  return new Promise((resolve) => {
    const unsubscribe = store.subscribe((signal) => {
      if (signal.kind !== kind) return;
      unsubscribe();
      resolve();
    });
  });
}

/** Ends every session of the store in that database, as a restart or a fail-over does. */
async function terminateAll(client: pg.Client): Promise<number> {
  const { rowCount } = await client.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE datname = current_database() AND application_name = 'holdfast'`,
  );
  return rowCount!;
}

describe('submit', () => {
  test('what Postgres cannot hold in text is kept all the same, and two such callers are two', async () => {
    const store = await open({ url: await testDatabase() });
    const ids = ['nul \0', 'lone \ud83d', 'lone \ud83e', '\u0001"plain"', '"quoted"'];
    for (const id of ids) await submit(store, { principal: { realm: 'jwt:x', id } });
    for (const id of ids) {
      const found = await store.runs.list({ principal: id, limit: 10 });
      expect(found.map(({ principal }) => principal)).toEqual([{ realm: 'jwt:x', id }]);
    }
    expect(await store.runs.get('r1_\0' as RunId)).toBeUndefined();
  });

  test('two with one id in one batch make one run', async () => {
    const store = await open({ url: await testDatabase() });
    const run = newRun();
    const both = await Promise.all([store.runs.submit(run), store.runs.submit(run), submit(store)]);
    expect(
      both
        .slice(0, 2)
        .map((submission) => (submission as { kind: string }).kind)
        .sort(),
    ).toEqual(['attached', 'fresh']);
  });

  test('one that is refused does not fail those that share its statement, and its values are not told', async () => {
    const store = await open({ url: await testDatabase() });
    const secret = '{"password":"hunter2"}';
    const [good, bad, alsoGood] = await Promise.allSettled([
      store.runs.submit(newRun()),
      store.runs.submit(newRun({ toolClass: 'neither' as never, arguments: secret })),
      store.runs.submit(newRun()),
    ]);
    expect(good).toMatchObject({ value: { kind: 'fresh' } });
    expect(bad).toMatchObject({
      reason: {
        code: 'internal',
        message: expect.stringMatching(/SQLSTATE 23514, constraint runs_tool_class/),
      },
    });
    expect(inspect(bad, { depth: 10 })).not.toMatch(/hunter2/);
    expect(alsoGood).toMatchObject({ value: { kind: 'fresh' } });
  });
});

describe('claim', () => {
  test('finds a run of a transaction that began earlier and ended later', async () => {
    const url = await testDatabase();
    const [store, other, holder] = [await open({ url }), await open({ url }), await connect(url)];
    const request = await join(store);
    // The other's batch has its numbers already, and waits for the run that the holder has not committed.
    const contested = newRun();
    await holder.query('BEGIN');
    await holder.query(
      `INSERT INTO holdfast.runs (id, workflow, tool, tool_class, arguments, digest, definition, submitted_at)
       VALUES ($1, 'w', 't', 'read', '{}', 'a', 'd', now())`,
      [contested.id],
    );
    const late = other.runs.submit(contested);
    await until(async () => {
      const { rowCount } = await holder.query(
        `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'transactionid'`,
      );
      return rowCount === 1;
    });
    const early = await submit(store);
    expect((await store.runs.claim(request)).map(({ seq }) => seq)).toEqual([early.seq]);
    const heard = next(store, 'queued');
    await holder.query('ROLLBACK');
    const { run } = (await late) as { run: Run };
    expect(run.seq).toBeLessThan(early.seq);
    await heard;
    expect((await store.runs.claim(request)).map(({ seq }) => seq)).toEqual([run.seq]);
  });

  test('looks behind the last claim only, unless it sweeps', async () => {
    const url = await testDatabase();
    const [store, client] = [await open({ url }), await connect(url)];
    const request = await join(store);
    const runs = [await submit(store), await submit(store)];
    expect(await store.runs.claim(request)).toHaveLength(2);
    // Nobody is told of this one.
    await client.query(
      'UPDATE holdfast.queue SET worker = NULL, token = NULL, claimed_at = NULL WHERE seq = $1',
      [runs[0]!.seq],
    );
    expect(await store.runs.claim(request)).toEqual([]);
    expect(await store.runs.claim({ ...request, sweep: true })).toHaveLength(1);
  });

  test('reads as much with many ended runs behind it as with few', async () => {
    const url = await testDatabase();
    const [store, client] = [await open({ url }), await connect(url)];
    const request = await join(store, { limit: 10 });
    const read = async (): Promise<number> => {
      const runs: Run[] = [];
      for (let i = 0; i < 10; i++) runs.push(await submit(store));
      await client.query('BEGIN; SET LOCAL enable_seqscan = off; SET LOCAL jit = off');
      const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: Record<string, unknown> }] }>(
        `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${claimStatement}`,
        [
          runs[0]!.seq - 1,
          request.worker,
          'a',
          request.workflows,
          request.definitions,
          0,
          10,
          null,
          true,
          ...oneShare,
        ],
      );
      await client.query('ROLLBACK');
      const { Plan: plan } = rows[0]!['QUERY PLAN'][0];
      expect(plan['Actual Rows']).toBe(10);
      const claims = await store.runs.claim(request);
      expect(claims).toHaveLength(10);
      await Promise.all(
        claims.map((claim) => store.runs.finish(claim, { state: 'succeeded', result: '{}' })),
      );
      return Number(plan['Shared Hit Blocks']) + Number(plan['Shared Read Blocks']);
    };
    /** Ended as the store ends them, and nothing vacuumed: their dead rows are still in the queue. */
    const end = async (count: number): Promise<void> => {
      await client.query(
        `WITH made AS (
           INSERT INTO holdfast.runs (id, workflow, tool, tool_class, arguments, digest, definition, submitted_at, state, result, finished_at)
           SELECT 'r0_' || gen_random_uuid(), $1, 't', 'read', '{}', 'a', 'd1_x', now(), 'succeeded', '{}', now()
           FROM generate_series(1, $2::integer) RETURNING seq
         )
         INSERT INTO holdfast.queue (seq, workflow, definition, queued_at) SELECT seq, $1, 'd1_x', now() FROM made`,
        [request.workflows[0], count],
      );
      // As after a vacuum that met an empty queue: the planner then thinks little of walking through it.
      await client.query('DELETE FROM holdfast.queue; ANALYZE holdfast.queue');
    };
    await end(1_000);
    await read();
    const few = await read();
    await end(50_000);
    const many = await read();
    expect(many).toBeLessThanOrEqual(few * 1.2);
  });

  test('of a worker that is declared dead meanwhile, what it took comes back', async () => {
    const url = await testDatabase();
    const [store, client] = [await open({ url }), await connect(url)];
    const request = await join(store);
    const run = await submit(store);
    await client.query('BEGIN');
    const values = [
      0,
      request.worker,
      'token',
      request.workflows,
      request.definitions,
      0,
      10,
      null,
      true,
      ...oneShare,
    ];
    await client.query(claimStatement, values);
    const recovered = store.workers.recover(new Date(Date.now() + 7_200_000));
    await until(async () => {
      const { rowCount } = await client.query(
        `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
      );
      return rowCount === 1;
    });
    await client.query('COMMIT');
    expect(await recovered).toBe(1);
    expect(await store.runs.get(run.id)).toMatchObject({ state: 'queued', attempt: 1 });
  });
});

describe('a scrape', () => {
  /** Queued runs, and runs that ended, as the store leaves them. */
  const fill = (queued: number, ended: number): string => `
    INSERT INTO holdfast.runs (id, workflow, tool, tool_class, arguments, digest, definition, submitted_at, state, result, finished_at)
    SELECT 'r0_' || n, 'mcp:tool:refund_order', 't', 'read', '{}', 'a', 'd1_x', at, 'succeeded', '{}', at
    FROM (SELECT n, timestamptz '2020-01-01' + n * interval '1 second' AS at FROM generate_series(1, ${ended}) AS n) AS ended;
    SELECT setval('holdfast.runs_seq_seq', ${ended} + 1);
    INSERT INTO holdfast.queue (seq, workflow, definition, queued_at)
    SELECT ${ended} + n, 'mcp:tool:refund_order', 'd1_' || repeat('x', 40), timestamptz '2026-01-01' + n * interval '1 second'
    FROM generate_series(1, ${queued}) AS n`;

  async function pages(client: pg.Client, statement: string, values: unknown[] = []): Promise<number> {
    const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: Record<string, unknown> }] }>(
      `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${statement}`,
      values,
    );
    const { Plan: plan } = rows[0]!['QUERY PLAN'][0];
    return Number(plan['Shared Hit Blocks']) + Number(plan['Shared Read Blocks']);
  }

  test('reads no more than 200 pages with 100,000 queued and 1,000,000 ended runs and 10,000 sessions', async () => {
    const url = await testDatabase();
    const [store, client] = [await open({ url }), await connect(url)];
    await client.query(fill(100_000, 1_000_000));
    await client.query(`
        INSERT INTO holdfast.sessions (id, version, client, last_used)
        SELECT md5(n::text), '2025-11-25', repeat('c', 200), now() - CASE n % 10 WHEN 0 THEN 24 ELSE 0 END * interval '1 hour'
        FROM generate_series(1, 10000) AS n`);
    const idleMs = 3_600_000;
    // As the store's own sessions are set, and as a pooler's are; before and after the planner knows of the runs.
    for (const set of [
      'SET enable_seqscan = off',
      'ANALYZE holdfast.queue, holdfast.sessions',
      'SET enable_seqscan = on',
    ]) {
      await client.query(set);
      const queue = await pages(client, queueStatement);
      const sessions = await pages(client, sessionsStatement, [null, idleMs]);
      expect(queue + sessions).toBeLessThanOrEqual(200);
    }
    const depth = await store.runs.queue();
    expect(depth.oldest).toEqual(new Date('2026-01-01T00:00:01Z'));
    expect(Math.abs(depth.queued - 100_000)).toBeLessThan(1_000);
    expect(Math.abs((await store.sessions.count(idleMs)) - 9_000)).toBeLessThan(500);

    // Ended since the last vacuum, and looked for by workers, as they do every few seconds.
    await client.query('ALTER TABLE holdfast.queue SET (autovacuum_enabled = false)');
    await client.query('DELETE FROM holdfast.queue WHERE seq <= 1020000');
    await store.runs.claim(await join(store, { sweep: true, limit: 1 }));
    await client.query('SET enable_seqscan = off');
    expect(await pages(client, queueStatement)).toBeLessThanOrEqual(200);
    expect(Math.abs((await store.runs.queue()).queued - 79_999)).toBeLessThan(1_000);
  }, 60_000);

  test('of a long queue with gaps tells about how long it is, and of a shrunk one exactly', async () => {
    const url = await testDatabase();
    const [store, client] = [await open({ url }), await connect(url)];
    await client.query(fill(30_000, 1));
    await client.query(`DELETE FROM holdfast.queue WHERE seq % 3 = 0;
      UPDATE holdfast.queue SET worker = 'w', token = 't', claimed_at = now() WHERE seq % 3 = 1`);
    const { queued } = await store.runs.queue();
    expect(Math.abs(queued - 10_000)).toBeLessThan(1_000);
    await client.query('DELETE FROM holdfast.queue WHERE seq BETWEEN 3000 AND 29000');
    const { rows } = await client.query<{ left: number }>(
      'SELECT count(*)::integer AS left FROM holdfast.queue WHERE token IS NULL',
    );
    expect(rows[0]!.left).toBeLessThan(2_000);
    expect((await store.runs.queue()).queued).toBe(rows[0]!.left);
  });

  test('counts a few sessions exactly, however large their table once was', async () => {
    const url = await testDatabase();
    const [store, client] = [await open({ url }), await connect(url)];
    const fillSessions = `
      INSERT INTO holdfast.sessions (id, version, client, last_used)
      SELECT md5(n::text), '2025-11-25', repeat('c', 200), now() FROM generate_series(1, 600) AS n`;
    await client.query(fillSessions);
    expect(await store.sessions.count(60_000)).toBe(600);
    await client.query(fillSessions.replace('1, 600', '601, 10000'));
    await client.query(`DELETE FROM holdfast.sessions WHERE id > '001'`);
    const { rowCount } = await client.query('SELECT FROM holdfast.sessions');
    expect(await store.sessions.count(60_000)).toBe(rowCount);
  });
});

describe('retention', () => {
  test('comes past thousands of old open runs', async () => {
    const url = await testDatabase();
    const [store, client] = [await open({ url }), await connect(url)];
    await client.query(`
      INSERT INTO holdfast.runs (id, workflow, tool, tool_class, arguments, digest, definition, submitted_at, state, result, finished_at)
      SELECT 'r0_' || n, 'w', 't', 'read', '{}', 'a', 'd', at, state, CASE state WHEN 'succeeded' THEN '{}' END,
             CASE state WHEN 'succeeded' THEN at END
      FROM (SELECT n, timestamptz '2020-01-01' + n * interval '1 second' AS at,
                   CASE WHEN n > 3500 THEN 'succeeded' ELSE 'open' END AS state
            FROM generate_series(1, 8000) AS n) AS runs`);
    const before = new Date(Date.UTC(2020, 0, 1) + 3_601_000);
    expect(await store.runs.removeFinished(before, 70)).toBe(70);
    expect(await store.runs.removeFinished(before, 70)).toBe(30);
    expect(await store.runs.removeFinished(before, 70)).toBe(0);
    const { rows } = await client.query(
      'SELECT count(*)::integer AS left, min(seq) FILTER (WHERE state <> $1) AS first FROM holdfast.runs',
      ['open'],
    );
    expect(rows[0]).toEqual({ left: 7_900, first: '3601' });
  });
});

describe('an outage', () => {
  test('the LISTEN connection is restored, and what was queued meanwhile is found without a sweep', async () => {
    const url = await testDatabase();
    const listening = await proxyTo(url);
    const store = await open({ url, listenUrl: listening.url, pollMs: 3_600_000 });
    const other = await open({ url });
    const request = await join(store);
    const run = await submit(store);
    await submit(store);
    const [claim] = await store.runs.claim(request);
    expect(store.hearing).toBe(true);
    listening.proxy.refuse(true);
    listening.proxy.cut();
    await until(() => !store.hearing);
    await other.runs.release([claim!]);
    const everything = next(store, 'everything');
    listening.proxy.refuse(false);
    await everything;
    expect(store.hearing).toBe(true);
    expect((await store.runs.claim(request)).map(({ seq }) => seq)).toEqual([run.seq]);
    const heard = next(store, 'queued');
    await submit(other);
    await heard;
  });

  test('while nothing is heard, listeners are told to look at everything', async () => {
    const store = await open({ url: await testDatabase(), listenUrl: 'off', pollMs: 5 });
    expect(store.hearing).toBe(false);
    await next(store, 'everything');
    await next(store, 'everything');
  });

  test('ending every session under load loses no run and ends none twice', async () => {
    const url = await testDatabase();
    const [store, client] = [await open({ url, pollMs: 50 }), await connect(url)];
    const again = async <T>(verb: () => Promise<T>): Promise<T> => {
      for (;;) {
        try {
          return await verb();
        } catch (error) {
          expect(error).toMatchObject({ code: 'store-unavailable' });
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
      }
    };
    // A quick machine is through before the sessions were ended often enough: the work goes on until they were.
    let terminated = 0;
    const ids: RunId[] = [];
    const submitting = (async () => {
      while (ids.length < 400 || terminated <= 5) {
        const runs = Array.from({ length: 10 }, () => newRun({ id: freshRunId(Date.now()) }));
        ids.push(...runs.map(({ id }) => id));
        await Promise.all(runs.map((run) => again(() => store.runs.submit(run))));
      }
    })();
    let isSubmitted = false;
    void submitting.then(() => (isSubmitted = true));

    const ends = new Map<number, string[]>();
    const working = (async () => {
      let request = await again(() => join(store));
      for (;;) {
        // A claim whose answer was lost is held by nobody who knows: the worker gives it back.
        const claims = await store.runs.claim({ ...request, sweep: true, limit: 20 }).catch(async () => {
          await again(() => store.workers.leave(request.worker));
          request = await again(() => join(store));
          return undefined;
        });
        if (claims === undefined) continue;
        const { queued } = await again(() => store.runs.queue());
        if (isSubmitted && claims.length === 0 && queued === 0) return;
        await Promise.all(
          claims.map(async ({ seq, token }) => {
            const result = JSON.stringify({ token });
            // False after an unknown outcome may be our own end: the record tells.
            if (await again(() => store.runs.finish({ seq, token }, { state: 'succeeded', result })))
              ends.set(seq, [...(ends.get(seq) ?? []), result]);
          }),
        );
      }
    })();
    while (!isSubmitted) {
      terminated += await terminateAll(client);
      await new Promise((resolve) => setTimeout(resolve, 40));
    }
    await working;
    for (const id of ids) {
      const run = await store.runs.get(id);
      expect(run).toMatchObject({ state: 'succeeded' });
      const told = ends.get(run!.seq) ?? [];
      expect(told.length).toBeLessThanOrEqual(1);
      for (const result of told) expect(run).toMatchObject({ result });
    }
    expect(await store.runs.list({ limit: ids.length + 1 })).toHaveLength(ids.length);
  });

  test(
    'a killed server makes verbs fail, and its return is noticed by itself',
    async () => {
      const server = await startPostgres();
      opened.push({ close: () => server.stop() });
      const store = await openPostgres({ url: await server.createDatabase('holdfast') });
      const run = await submit(store);
      await server.kill();
      await expect(store.runs.get(run.id)).rejects.toMatchObject({ code: 'store-unavailable' });
      await until(() => !store.hearing);
      const everything = next(store, 'everything');
      await server.restart();
      await everything;
      await until(() => store.hearing);
      await until(() =>
        store.ping().then(
          () => true,
          () => false,
        ),
      );
      expect(await store.runs.get(run.id)).toEqual(run);
      const request = await join(store);
      expect(await store.runs.claim(request)).toHaveLength(1);
      await store.close();
    },
    startMs,
  );

  test(
    'a dispatch mark that was answered outlives a crash of the server, also of a claim that need not',
    async () => {
      const server = await startPostgres();
      opened.push({ close: () => server.stop() });
      const store = await open({ url: await server.createDatabase('holdfast') });
      const request = await join(store, { isDurable: false });
      await submit(store);
      const [claim] = await store.runs.claim(request);
      expect(await store.runs.dispatch(claim!)).toBe('won');
      await server.kill();
      await server.restart();
      await until(() =>
        store.ping().then(
          () => true,
          () => false,
        ),
      );
      expect(await store.runs.dispatch(claim!)).toBe('lost');
      await store.close();
    },
    startMs,
  );

  test('a statement that takes too long is given up with its connection', async () => {
    const url = await testDatabase();
    const [store, holder] = [await open({ url, poolSize: 1, statementMs: 200 }), await connect(url)];
    const contested = newRun();
    await holder.query('BEGIN');
    await holder.query(
      `INSERT INTO holdfast.runs (id, workflow, tool, tool_class, arguments, digest, definition, submitted_at)
       VALUES ($1, 'w', 't', 'read', '{}', 'a', 'd', now())`,
      [contested.id],
    );
    await expect(store.runs.submit(contested)).rejects.toMatchObject({ code: 'store-unavailable' });
    await submit(store);
    await holder.query('ROLLBACK');
  });

  test('a server that does not answer is given up on, and works again when it does', async () => {
    const { proxy, url } = await proxyTo(await testDatabase());
    const store = await open({ url, statementMs: 200 });
    proxy.blackhole(true);
    await expect(store.runs.submit(newRun())).rejects.toMatchObject({ code: 'store-unavailable' });
    proxy.blackhole(false);
    await until(() =>
      store.ping().then(
        () => true,
        () => false,
      ),
    );
    await submit(store);
  });
});

describe('G01: a store in a schema of its own', () => {
  test('shares nothing with another in the same database, neither runs nor notifications', async () => {
    const url = await testDatabase();
    const ours = await open({ url });
    const theirs = await open({ url: `${url}?schema=staging` });
    expect(theirs.hearing).toBe(true);
    const run = await submit(theirs);
    expect(await theirs.runs.get(run.id)).toMatchObject({ id: run.id });
    expect(await ours.runs.get(run.id)).toBeUndefined();
    const heard: Signal[] = [];
    ours.subscribe((signal) => heard.push(signal));
    await submit(theirs);
    const [claim] = await theirs.runs.claim(await join(theirs));
    await theirs.runs.finish(claim!, { state: 'succeeded', result: '{}' });
    const told = next(ours, 'tools');
    await (await connect(url)).query(`NOTIFY holdfast, 'another tools'`);
    await told;
    expect(heard).toEqual([{ kind: 'tools' }]);
  });

  test('whose name is a word of SQL is refused', async () => {
    expect(await refused(`${await testDatabase()}?schema=user`)).toMatchObject({
      code: 'store-unfit',
      message: expect.stringMatching(/a word of SQL/),
    });
  });
});

test('G68: a notification that no store sends ends nothing, and one line says so', async () => {
  const url = await testDatabase();
  const { lines, log } = recordingLog();
  const store = await open({ url, log });
  const stranger = await connect(url);
  for (const payload of ['a told b', 'a told {', 'a runs x', 'a queued x', 'nonsense', ''])
    await stranger.query('SELECT pg_notify($1, $2)', ['holdfast', payload]);
  // Notifications arrive in order: once this one is heard, the others were.
  const heard = next(store, 'tools');
  await stranger.query(`NOTIFY holdfast, 'another tools'`);
  await heard;
  expect(lines.filter(({ message }) => message.includes('cannot be read'))).toHaveLength(1);
});

test('G10: rows that are no JSON are left out alone', async () => {
  const url = await testDatabase();
  const store = await open({ url });
  await store.tools.register('g', [
    { name: 'good', description: '', inputSchema: {}, toolClass: 'read', digest: 'd1' },
  ]);
  const client = await connect(url);
  // What begins with U+0001 is the mark of a text that Postgres cannot hold as it is.
  await client.query(`INSERT INTO holdfast.tools VALUES ('h', 'bad', 9, '{"name":'), ('h', 'worse', 9, E'\\x01{');
    INSERT INTO holdfast.servers VALUES ('bad_00000000', 'no json'), ('worse_00000000', E'\\x01');
    UPDATE holdfast.catalogue SET revision = 99`);
  const { tools, servers, unreadable } = (await store.tools.list())!;
  expect(tools.map(({ name }) => name)).toEqual(['good']);
  expect(servers).toEqual([]);
  expect(unreadable.map(({ name }) => name)).toEqual(['bad', 'worse', 'bad_00000000', 'worse_00000000']);
});

describe('PgBouncer in transaction mode', () => {
  let url: string;
  let pooler: PgBouncer;
  beforeAll(async () => {
    url = await testDatabase();
    pooler = await startPgBouncer(url);
  }, startMs);
  afterAll(() => pooler.stop());

  test('LISTEN through it is found out: polling, and one warning that says what to set', async () => {
    const warnings: string[] = [];
    const log = { info: () => {}, warn: (_: object, message: string) => warnings.push(message) };
    const store = await open({ url: pooler.url, log, pollMs: 5 });
    expect(store.hearing).toBe(false);
    expect(warnings.filter((message) => message.includes('HOLDFAST_STORE_LISTEN_URL'))).toHaveLength(1);
    await next(store, 'everything');
  });

  test('no statement stays prepared on its server connections', async () => {
    const store = await open({ url: pooler.url, listenUrl: url });
    const request = await join(store);
    await submit(store);
    await store.runs.claim(request);
    const client = await connect(pooler.url);
    const { rows } = await client.query(
      `SELECT count(*)::integer AS prepared, current_setting('enable_seqscan') AS seqscan FROM pg_prepared_statements`,
    );
    expect(rows).toEqual([{ prepared: 0, seqscan: 'on' }]);
  });
});

describe('opening', () => {
  test('many processes at once migrate once', async () => {
    const url = await testDatabase();
    const stores = await Promise.all(Array.from({ length: 6 }, () => open({ url })));
    await Promise.all(stores.map((store) => store.ping()));
    const { rows } = await (await connect(url)).query('SELECT version FROM holdfast.migrations');
    expect(rows).toEqual(postgresMigrations.map((_, i) => ({ version: i + 1 })));
  });

  test('a database of the version before is migrated with its runs, and a process of that version goes on', async () => {
    const url = await testDatabase();
    const older = await connect(url);
    await older.query(`
      CREATE SCHEMA holdfast;
      CREATE TABLE holdfast.migrations (version integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());
      INSERT INTO holdfast.migrations (version) VALUES (1)`);
    await older.query(postgresMigrations[0]!);
    const submitAsBefore = async (id: RunId): Promise<void> => {
      await older.query({
        name: 'submit',
        text: `WITH made AS (
                 INSERT INTO holdfast.runs (id, workflow, tool, tool_class, arguments, digest, definition, submitted_at)
                 VALUES ($1, 'mcp:tool:refund_order', 't', 'write', '{}', 'a1_x', 'd1_x', to_timestamp(5))
                 RETURNING seq, workflow, definition, submitted_at
               )
               INSERT INTO holdfast.queue (seq, workflow, definition, queued_at) SELECT * FROM made`,
        values: [id],
      });
    };
    const [ended, queued, late] = [freshRunId(1), freshRunId(2), freshRunId(3)];
    await submitAsBefore(ended);
    await submitAsBefore(queued);
    await older.query(`
      DELETE FROM holdfast.queue WHERE seq = 1;
      UPDATE holdfast.runs SET state = 'succeeded', result = '{}', attempt = 1, started_at = to_timestamp(6),
        finished_at = to_timestamp(7) WHERE seq = 1`);

    const store = await open({ url });
    await submitAsBefore(late);
    const run = {
      workflow: 'mcp:tool:refund_order',
      tool: 't',
      toolClass: 'write',
      principal: null,
      arguments: '{}',
      digest: 'a1_x',
      definition: 'd1_x',
      submittedAt: new Date(5_000),
    };
    expect(await store.runs.get(ended)).toStrictEqual({
      ...run,
      id: ended,
      seq: 1,
      attempt: 1,
      state: 'succeeded',
      startedAt: new Date(6_000),
      finishedAt: new Date(7_000),
      result: '{}',
    });
    expect(await store.runs.get(queued)).toStrictEqual({
      ...run,
      id: queued,
      seq: 2,
      attempt: 0,
      state: 'queued',
    });
    const claims = await store.runs.claim(await join(store));
    expect(claims.map((claim) => [claim.run.id, claim.isDispatched])).toEqual([
      [queued, false],
      [late, false],
    ]);
    expect(await store.runs.dispatch(claims[0]!)).toBe('won');
    const { rows } = await older.query('SELECT version FROM holdfast.migrations');
    expect(rows).toEqual(postgresMigrations.map((_, i) => ({ version: i + 1 })));
  });

  test('a migration that would hold up others behind a long statement gives way, and can be tried again', async () => {
    const url = await testDatabase();
    const holder = await connect(url);
    await holder.query(`
      CREATE SCHEMA holdfast;
      CREATE TABLE holdfast.migrations (version integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());
      INSERT INTO holdfast.migrations (version) VALUES (1)`);
    await holder.query(postgresMigrations[0]!);
    await holder.query('BEGIN');
    await holder.query('SELECT FROM holdfast.runs');
    expect(await refused(url)).toMatchObject({ code: 'store-unavailable' });
    await holder.query('ROLLBACK');
    await submit(await open({ url }));
  });

  test('a database of a newer version is refused from the schema on that ours must know', async () => {
    const url = await testDatabase();
    await (await open({ url })).close();
    await (
      await connect(url)
    ).query('INSERT INTO holdfast.migrations (version, least) VALUES (98, 97), (99, 97)');
    expect(await refused(url)).toMatchObject({
      code: 'store-unfit',
      message: expect.stringMatching(/newer version \(schema 99, to be used from 97 on/),
    });
  });

  test('a database of a newer version that only adds is used: an update can be rolled back', async () => {
    const url = await testDatabase();
    await (await open({ url })).close();
    await (
      await connect(url)
    ).query(`ALTER TABLE holdfast.runs ADD COLUMN mood text NOT NULL DEFAULT 'calm';
      INSERT INTO holdfast.migrations (version, least) VALUES (99, ${postgresMigrations.length})`);
    const store = await open({ url });
    const { id } = await submit(store);
    const [claim] = await store.runs.claim(await join(store));
    expect(claim).toMatchObject({ run: { id } });
  });

  test.each([
    ['SET synchronous_commit = off', /ALTER ROLE .* SET synchronous_commit = on/],
    ['SET default_transaction_read_only = on', /default_transaction_read_only = off/],
  ])('a database with %s is refused with the remedy', async (setting, message) => {
    const url = await testDatabase();
    const database = new URL(url).pathname.slice(1);
    await (await connect(url)).query(`ALTER DATABASE "${database}" ${setting}`);
    expect(await refused(url)).toMatchObject({
      code: 'store-unfit',
      message: expect.stringMatching(message),
    });
  });

  test('a database that cannot hold every text is refused with the remedy', async () => {
    const url = new URL(await testDatabase());
    const name = `${url.pathname.slice(1)}_ascii`;
    await (
      await connect(url.href)
    ).query(`CREATE DATABASE ${name} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0`);
    url.pathname = `/${name}`;
    expect(await refused(url.href)).toMatchObject({
      code: 'store-unfit',
      message: expect.stringMatching(/encoding is SQL_ASCII.*ENCODING 'UTF8'/),
    });
  });

  test('a role that may not make the tables is told what to run, and needs no more once they are there', async () => {
    const url = new URL(await testDatabase());
    const admin = await connect(url.href);
    const role = `${url.pathname.slice(1)}_role`;
    await admin.query(`CREATE ROLE ${role} LOGIN PASSWORD 'hunter2'`);
    url.username = role;
    url.password = 'hunter2';
    expect(await refused(url.href)).toMatchObject({
      code: 'store-unfit',
      message: expect.stringMatching(/CREATE SCHEMA holdfast AUTHORIZATION/),
    });
    await admin.query(`CREATE SCHEMA holdfast AUTHORIZATION ${role}`);
    const store = await open({ url: url.href });
    await submit(store);
    await store.close();
    await admin.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
  });

  test('a database that is not there is refused; a server that is not there may come', async () => {
    const url = new URL(await testDatabase());
    url.password = 'hunter2';
    url.pathname = '/no_such_database';
    const unfit = await refused(url.href);
    expect(unfit).toMatchObject({ code: 'store-unfit', message: expect.stringMatching(/no_such_database/) });
    url.port = '1';
    const unavailable = await refused(url.href);
    expect(unavailable).toMatchObject({
      code: 'store-unavailable',
      message: expect.stringMatching(/127\.0\.0\.1:1\/no_such_database did not answer: .*ECONNREFUSED/),
    });
    expect(inspect([unfit, unavailable], { depth: 10 })).not.toMatch(/hunter2/);
    expect(await refused('postgres://user:hunter2@host:port/x')).toMatchObject({
      code: 'store-unfit',
      message: expect.not.stringMatching(/hunter2/),
    });
  });

  test('a server without fsync is warned of', async () => {
    const url = await testDatabase();
    const warnings: string[] = [];
    const log = { info: () => {}, warn: (_: object, message: string) => warnings.push(message) };
    await open({ url, log });
    const { rows } = await (await connect(url)).query<{ fsync: string }>('SHOW fsync');
    expect(warnings.some((message) => message.includes('fsync = off'))).toBe(rows[0]!.fsync === 'off');
  });
});

test('close ends every session, and what was submitted before it is kept', async () => {
  const url = await testDatabase();
  const client = await connect(url);
  const store = await openPostgres({ url });
  const submitted = Promise.all(Array.from({ length: 20 }, () => submit(store)));
  await store.close();
  expect(await submitted).toHaveLength(20);
  await until(async () => {
    const { rowCount } = await client.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'holdfast'`,
    );
    return rowCount === 0;
  });
});
