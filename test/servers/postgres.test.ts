import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { type PrivatePostgres, startPostgres, testDatabase } from './index.ts';

async function query(url: string, sql: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url });
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

describe('a private server', () => {
  let server: PrivatePostgres;
  let url: string;
  beforeAll(async () => {
    server = await startPostgres();
    url = await server.createDatabase('ledger');
    await query(url, 'CREATE TABLE kept AS SELECT 1 AS n');
  });
  afterAll(() => server.stop());

  test('keeps its data and its port across a restart', async () => {
    await server.restart();
    await expect(query(url, 'SELECT n FROM kept')).resolves.toEqual([{ n: 1 }]);
  });
});
