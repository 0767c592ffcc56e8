import { SHARED_POSTGRES } from './index.ts';
import { acquirePostgres } from './postgres.ts';
import { type PostgresServer } from './postgres-server.ts';

declare global {
  var holdfastPostgres: PostgresServer | undefined;
}

/**
 * Starts what every test file shares; workers inherit the environment set here. Jest loads this file with
 * Node's own resolver, which is why the imports in this folder name `.ts` files.
 */
export default async function setUp(): Promise<void> {
  globalThis.holdfastPostgres = await acquirePostgres();
  process.env[SHARED_POSTGRES] = globalThis.holdfastPostgres.url;
}
