import { createDatabase } from './postgres-server.ts';
import { newStoreUrl } from './valkey-server.ts';

export { OtlpCollector, type CollectedSpan } from './otlp-collector.ts';
export { type GatewayPlace, type Haproxy, startHaproxy } from './haproxy.ts';
export { nginxThatLearns } from './nginx.ts';
export { type PgBouncer, startPgBouncer } from './pgbouncer.ts';
export { type PostgresPair, startPostgresPair } from './postgres-pair.ts';
export { startPostgres } from './postgres.ts';
export { type PostgresServer, type PrivatePostgres } from './postgres-server.ts';
export { program } from './program.ts';
export { promtool } from './promtool.ts';
export { ScriptableUpstream, type UpstreamOptions } from './scriptable-upstream.ts';
export { reset, type TcpProxy, startTcpProxy } from './tcp-proxy.ts';
export { askUpstream } from './upstream-control.ts';
export { type KeptExecution } from './upstream-executions.ts';
export { startUpstreamProcess, type UpstreamProcess } from './upstream-process.ts';
export {
  tool,
  type Fault,
  type LoggedRequest,
  type ScriptedTool,
  type UpstreamScript,
} from './upstream-script.ts';
export { startValkey } from './valkey.ts';
export { connectTo, newStoreUrl, type PrivateValkey } from './valkey-server.ts';

/** The environment variable with which the global set-up passes the shared Postgres to test files. */
export const SHARED_POSTGRES = 'HOLDFAST_TEST_POSTGRES';

/** The same for the shared Valkey or Redis. */
export const SHARED_VALKEY = 'HOLDFAST_TEST_VALKEY';

/**
 * Creates an empty database on the Postgres that all test files share, and resolves to its URL. The database is
 * removed with the server. Tests that stop or break a server start their own with `startPostgres`.
 */
export async function testDatabase(): Promise<string> {
  const admin = process.env[SHARED_POSTGRES];
  if (admin === undefined)
    throw new Error(`${SHARED_POSTGRES} is not set: run tests through Jest's global set-up`);
  return createDatabase(admin);
}

/** The URL of an empty store on the Valkey or Redis server that all test files share. */
export function testValkey(): string {
  const server = process.env[SHARED_VALKEY];
  if (server === undefined)
    throw new Error(`${SHARED_VALKEY} is not set: run tests through Jest's global set-up`);
  return newStoreUrl(server);
}
