import { SHARED_POSTGRES, SHARED_VALKEY } from './index.ts';
import { acquirePostgres } from './postgres.ts';
import { type PostgresServer } from './postgres-server.ts';
import { acquireValkey } from './valkey.ts';
import { type ValkeyServer } from './valkey-server.ts';

declare global {
  var holdfastPostgres: PostgresServer | undefined;
  var holdfastValkey: ValkeyServer | undefined;
}

/**
 * Starts the servers that all test files share; workers inherit the environment set here. Jest loads this file with
 * Node's own resolver, so the imports in this folder name `.ts` files.
 */
export default async function setUp(): Promise<void> {
  globalThis.holdfastPostgres = await acquirePostgres();
  process.env[SHARED_POSTGRES] = globalThis.holdfastPostgres.url;
  globalThis.holdfastValkey = await acquireValkey();
  process.env[SHARED_VALKEY] = globalThis.holdfastValkey.url;
}
