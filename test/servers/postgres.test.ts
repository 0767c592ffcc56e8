import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { type PrivatePostgres, startPostgres, testDatabase } from './index.ts';
import { acquirePostgres } from './postgres.ts';
import { eventually, serverFolder } from './supervised.ts';

async function query(url: string, sql: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

test('two databases of the shared server do not see each other', async () => {
  const [one, two] = await Promise.all([testDatabase(), testDatabase()]);
  await query(one, 'CREATE TABLE only_here (n int)');
  await expect(query(one, 'SELECT * FROM only_here')).resolves.toEqual([]);
  await expect(query(two, 'SELECT * FROM only_here')).rejects.toThrow(/does not exist/);
});

test('without a source of a server, the error names the packages to install', async () => {
  await expect(startPostgres([])).rejects.toThrow(/set TEST_POSTGRES_URL.*apt-get install postgresql/);
});

describe('a private server', () => {
  let server: PrivatePostgres;
  let url: string;
  beforeAll(async () => {
    server = await startPostgres();
    url = await server.createDatabase('ledger');
    await query(url, 'CREATE TABLE kept AS SELECT 1 AS n');
  });
  afterAll(() => server?.stop());

  const kept = () => query(url, 'SELECT n FROM kept');

  test('accepts 300 connections', async () => {
    await expect(query(url, 'SHOW max_connections')).resolves.toEqual([{ max_connections: '300' }]);
  });

  test('keeps its data and its port across a restart', async () => {
    await server.restart();
    await expect(kept()).resolves.toEqual([{ n: 1 }]);
  });

  test('kill breaks the connection during a query; restart recovers committed data', async () => {
    await query(url, 'INSERT INTO kept VALUES (2)');
    const running = query(url, 'SELECT pg_sleep(60)');
    const lost = expect(running).rejects.toThrow(/terminated unexpectedly|ECONNRESET/);
    await eventually('the query runs', async () => (await query(url, ACTIVE_SLEEP))[0]);
    await server.kill();
    await lost;
    await expect(kept()).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    await server.restart();
    await expect(kept()).resolves.toEqual([{ n: 1 }, { n: 2 }]);
  });

  test('pause holds answers back until resume', async () => {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await server.pause();
    const impatient = new pg.Client({ connectionString: url, connectionTimeoutMillis: 100 });
    const answer = client.query('SELECT 1 AS n').then(() => 'answered');
    await expect(Promise.race([answer, impatient.connect()])).rejects.toThrow(/timeout/);
    await server.resume();
    await expect(answer).resolves.toBe('answered');
    await client.end();
  });

  test('a server named by the environment keeps everything except the databases of this run', async () => {
    const before = process.env['TEST_POSTGRES_URL'];
    process.env['TEST_POSTGRES_URL'] = server.url;
    try {
      const given = await acquirePostgres();
      expect(given.url).toBe(server.url);
      const passing = await given.createDatabase();
      await expect(query(passing, 'SELECT 1 AS n')).resolves.toEqual([{ n: 1 }]);
      await given.stop();
      await expect(query(passing, 'SELECT 1 AS n')).rejects.toThrow(/does not exist/);
      await expect(kept()).resolves.toHaveLength(2);
    } finally {
      if (before === undefined) delete process.env['TEST_POSTGRES_URL'];
      else process.env['TEST_POSTGRES_URL'] = before;
    }
  });
});

const ACTIVE_SLEEP =
  "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT pg_sleep%'";

test('neither a server nor its folder outlives a process that was killed', async () => {
  const folder = serverFolder('orphan');
  const supervise = fileURLToPath(new URL('./supervise.mjs', import.meta.url));
  const started = JSON.stringify({ command: 'sleep', args: ['600'], log: '/dev/null' });
  // A process that starts a server like `Supervised`, reports the process id, and is killed.
  const asking = spawn(
    process.execPath,
    [
      '--eval',
      `const { spawn } = require('node:child_process');
       const supervisor = spawn(process.execPath, ${JSON.stringify([supervise, JSON.stringify({ folder, stopSignal: 'SIGTERM' })])},
         { stdio: ['pipe', 'pipe', 'inherit'], detached: true });
       supervisor.stdin.write(${JSON.stringify(`${started}\n`)});
       supervisor.stdout.pipe(process.stdout);`,
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const [line] = await once(asking.stdout, 'data');
  const { started: pid } = JSON.parse(String(line));
  expect(isRunning(pid)).toBe(true);
  asking.kill('SIGKILL');
  await eventually('the server is gone', () => (isRunning(pid) ? undefined : true), 5_000);
  await eventually('its folder is gone', () => (existsSync(folder) ? undefined : true), 5_000);
});

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
