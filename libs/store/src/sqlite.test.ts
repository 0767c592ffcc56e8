import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, expect, test } from '@jest/globals';
import { freshRunId, type RunId } from '@holdfast/run';
import { storeConformance } from './conformance.suite.js';
import { openSqlite } from './sqlite.js';
import { sqliteMigrations } from './sqlite-schema.js';

const folder = mkdtempSync(join(tmpdir(), 'holdfast-sqlite-'));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;
const newFile = (): string => join(folder, `${++files}.db`);

storeConformance('sqlite', async () => {
  const path = newFile();
  return { open: async () => openSqlite({ path }), dispose: async () => {} };
});

storeConformance('memory', async () => {
  // Lives in one process, so its two openings are one object.
  const store = openSqlite({ path: ':memory:' });
  return { open: async () => store, dispose: async () => {} };
});

test('a long queue is told about as long as it is, and from its oldest run on', async () => {
  const path = newFile();
  const store = openSqlite({ path });
  const beside = new DatabaseSync(path);
  beside.exec(`PRAGMA foreign_keys = OFF; INSERT INTO queue (seq, workflow, definition, queued_at)
    WITH numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 30000)
    SELECT n, 'w', 'd1_x', n FROM numbers WHERE n % 3 > 0`);
  const { queued, oldest } = await store.runs.queue();
  expect(Math.abs(queued - 20_000)).toBeLessThan(1_000);
  expect(oldest).toEqual(new Date(1));
  beside.exec('DELETE FROM queue WHERE seq > 1000 AND seq < 29000');
  expect((await store.runs.queue()).queued).toBe(1_334);
  beside.close();
  await store.close();
});

test('a file of a newer version is refused from the schema on that ours must know', () => {
  const path = newFile();
  const db = new DatabaseSync(path);
  db.exec('PRAGMA user_version = 97099');
  db.close();
  expect(() => openSqlite({ path })).toThrow(
    /store: it was written by a newer version \(schema 99, to be used from 97/,
  );
});

test('a file of a newer version that only adds is used, and stays what it is: an update can be rolled back', async () => {
  const path = newFile();
  await openSqlite({ path }).close();
  const newer = new DatabaseSync(path);
  newer.exec(`ALTER TABLE runs ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm'; PRAGMA user_version = 1099`);
  const store = openSqlite({ path });
  const id = freshRunId(1);
  await store.runs.submit({
    id,
    workflow: 'w',
    tool: 't',
    toolClass: 'write',
    principal: null,
    arguments: '{}',
    digest: 'a1_x',
    definition: 'd1_x',
  });
  expect(await store.runs.get(id)).toMatchObject({ id, state: 'queued' });
  expect(newer.prepare('PRAGMA user_version').get()).toEqual({ user_version: 1099 });
  newer.close();
  await store.close();
});

test('a file of the version before is migrated with its runs, and a process of that version goes on', async () => {
  const path = newFile();
  const older = new DatabaseSync(path);
  older.exec('PRAGMA journal_mode = WAL');
  older.exec(sqliteMigrations[0]!);
  older.exec('PRAGMA user_version = 1');
  const insertRun = older.prepare(
    `INSERT INTO runs (id, workflow, tool, tool_class, realm, principal, arguments, digest, definition, submitted_at)
     VALUES (?, 'w', 't', 'write', NULL, NULL, '{"a":1}', 'a1_x', 'd1_x', 5)`,
  );
  const insertQueued = older.prepare(
    `INSERT INTO queue (seq, workflow, definition, queued_at)
     SELECT seq, workflow, definition, submitted_at FROM runs WHERE id = ?`,
  );
  const submitAsBefore = (id: RunId): void => {
    insertRun.run(id);
    insertQueued.run(id);
  };
  const [ended, queued, late] = [freshRunId(1), freshRunId(2), freshRunId(3)];
  submitAsBefore(ended);
  submitAsBefore(queued);
  older.exec('DELETE FROM queue WHERE seq = 1');
  older.exec(
    `UPDATE runs SET state = 'succeeded', result = '{}', attempt = 1, started_at = 6, finished_at = 7 WHERE seq = 1`,
  );
  older.exec(`INSERT INTO workers VALUES ('worker', 'default', '["w"]', ${Date.now() + 60_000})`);

  const store = openSqlite({ path });
  submitAsBefore(late);
  const run = {
    workflow: 'w',
    tool: 't',
    toolClass: 'write',
    principal: null,
    arguments: '{"a":1}',
    digest: 'a1_x',
    definition: 'd1_x',
    submittedAt: new Date(5),
  };
  expect(await store.runs.get(ended)).toStrictEqual({
    ...run,
    id: ended,
    seq: 1,
    attempt: 1,
    state: 'succeeded',
    startedAt: new Date(6),
    finishedAt: new Date(7),
    result: '{}',
  });
  expect(await store.runs.get(queued)).toStrictEqual({
    ...run,
    id: queued,
    seq: 2,
    attempt: 0,
    state: 'queued',
  });
  const claims = await store.runs.claim({
    worker: 'worker',
    workflows: ['w'],
    definitions: ['d1_x'],
    definitionGraceMs: 0,
    limit: 10,
    isDurable: true,
    sweep: true,
  });
  expect(claims.map((claim) => [claim.run.id, claim.isDispatched])).toEqual([
    [queued, false],
    [late, false],
  ]);
  expect(await store.runs.dispatch(claims[0]!)).toBe('won');
  expect(older.prepare('PRAGMA user_version').get()).toEqual({ user_version: sqliteMigrations.length });
  older.close();
  await store.close();
});

test('a file that is no database is refused, naming it', () => {
  const path = newFile();
  writeFileSync(path, 'this is not a database, it only looks like a file of some size'.repeat(20));
  expect(() => openSqlite({ path })).toThrow(
    new RegExp(`${path} cannot be used as the store: .*not a database`),
  );
});

test('a missing folder is made, and the file is for its owner only', async () => {
  const path = join(folder, 'a', 'b', 'runs.db');
  const store = openSqlite({ path });
  expect(statSync(path).mode & 0o777).toBe(0o600);
  await store.close();
});

test('a write waits for a lock of another process without failing', async () => {
  const path = newFile();
  const store = openSqlite({ path });
  const holder = new DatabaseSync(path);
  holder.exec('BEGIN IMMEDIATE');
  const pinged = store.secret('name', () => 'value');
  const first = await Promise.race([
    pinged,
    new Promise((resolve) => setImmediate(() => setImmediate(() => resolve('still waiting')))),
  ]);
  expect(first).toBe('still waiting');
  holder.exec('COMMIT');
  expect(await pinged).toBe('value');
  holder.close();
  await store.close();
});

test('one write that fails does not fail those that share its transaction', async () => {
  const store = openSqlite({ path: newFile() });
  const run = {
    id: freshRunId(0),
    workflow: 'w',
    tool: 't',
    toolClass: 'write' as const,
    principal: null,
    arguments: '{}',
    digest: 'a1_x',
    definition: 'd1_x',
  };
  const [good, bad, alsoGood] = await Promise.allSettled([
    store.runs.submit(run),
    store.runs.submit({ ...run, id: freshRunId(1), toolClass: 'neither' as never }),
    store.runs.submit({ ...run, id: freshRunId(2) }),
  ]);
  expect(good).toMatchObject({ value: { kind: 'fresh' } });
  expect(bad).toMatchObject({ reason: { code: 'internal' } });
  expect(alsoGood).toMatchObject({ value: { kind: 'fresh' } });
  await store.close();
});

test('retention finds what is due by its index, however much is kept', async () => {
  const path = newFile();
  await openSqlite({ path }).close();
  const db = new DatabaseSync(path);
  const plan = db
    .prepare(
      `EXPLAIN QUERY PLAN SELECT seq, id FROM runs WHERE state <> 'open' AND finished_at < 1 ORDER BY finished_at, seq LIMIT 5`,
    )
    .all()
    .map(({ detail }) => detail);
  db.close();
  expect(plan[0]).toMatch(/USING INDEX ended/);
});

test('G10: rows that are no JSON are left out alone', async () => {
  const path = newFile();
  const store = openSqlite({ path });
  await store.tools.register('g', [
    { name: 'good', description: '', inputSchema: {}, toolClass: 'read', digest: 'd1' },
  ]);
  const db = new DatabaseSync(path);
  db.exec(`INSERT INTO tools VALUES ('h', 'bad', 9, '{"name":'), ('h', 'worse', 9, x'ff00');
           INSERT INTO servers VALUES ('bad_00000000', 'no json'), ('deep_00000000', '${'['.repeat(5_000)}${']'.repeat(5_000)}');
           UPDATE catalogue SET revision = 99`);
  db.close();
  const { tools, servers, unreadable } = (await store.tools.list())!;
  expect(tools.map(({ name }) => name)).toEqual(['good']);
  expect(servers).toEqual([]);
  expect(unreadable.map(({ name }) => name)).toEqual(['bad', 'worse', 'bad_00000000', 'deep_00000000']);
  await store.close();
});
