import { afterAll, beforeAll, expect, test } from '@jest/globals';
import pg from 'pg';
import { type PgBouncer, startPgBouncer, testDatabase } from './index.ts';

// The test may have to install the package first.
const INSTALL_MS = 300_000;

let pooler: PgBouncer;
let first: pg.Client;
let second: pg.Client;

beforeAll(async () => {
  pooler = await startPgBouncer(await testDatabase(), { poolSize: 1 });
  first = new pg.Client({ connectionString: pooler.url });
  second = new pg.Client({ connectionString: pooler.url });
  await Promise.all([first.connect(), second.connect()]);
}, INSTALL_MS);

afterAll(async () => {
  await Promise.all([first?.end(), second?.end()]);
  await pooler?.stop();
});

const backend = async (client: pg.Client) =>
  (await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows[0]?.pid;

test('two sessions take turns on one server connection', async () => {
  const pid = await backend(first);
  expect(pid).toBeGreaterThan(0);
  await expect(backend(second)).resolves.toBe(pid);
});

test('a transaction keeps the server connection to itself', async () => {
  await first.query('BEGIN');
  const waiting = second.query("SELECT current_setting('application_name') AS n").then(() => 'second');
  const order = [await first.query('SELECT 1').then(() => 'first')];
  await first.query('COMMIT');
  order.push(await waiting);
  expect(order).toEqual(['first', 'second']);
});

test('a prepared statement does not survive its transaction', async () => {
  await first.query({ name: 'once', text: 'SELECT 1' });
  // `second` runs on the connection on which the name already exists.
  await expect(second.query({ name: 'once', text: 'SELECT 1' })).rejects.toThrow(/already exists/);
});
