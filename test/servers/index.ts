import { createDatabase } from './postgres-server.ts';

export { type PgBouncer, startPgBouncer } from './pgbouncer.ts';
export { startPostgres } from './postgres.ts';
export { type PostgresServer, type PrivatePostgres } from './postgres-server.ts';
export { reset, type TcpProxy, startTcpProxy } from './tcp-proxy.ts';

/** The environment variable by which the global set-up hands the run's Postgres to test files. */
export const SHARED_POSTGRES = 'HOLDFAST_TEST_POSTGRES';

/**
 * Creates an empty database on the Postgres that all test files share, and resolves to its URL. It goes away
 * with the server; tests that stop or break the server start their own with `startPostgres`.
 */
export async function testDatabase(): Promise<string> {
  const admin = process.env[SHARED_POSTGRES];
  if (admin === undefined)
    throw new Error(`${SHARED_POSTGRES} is not set: run tests through Jest's global set-up`);
  return createDatabase(admin);
}
