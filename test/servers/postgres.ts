import { aptInstall } from './apt.ts';
import { embeddedPostgres, installedPostgres, startFromBinaries } from './postgres-binaries.ts';
import { startDockerPostgres } from './postgres-docker.ts';
import {
  POSTGRES_SOURCES,
  type PostgresServer,
  type PostgresSource,
  type PrivatePostgres,
  createDatabase,
  dropDatabases,
} from './postgres-server.ts';

/**
 * The server named by `TEST_POSTGRES_URL`, else a server from `startPostgres`. Stopping the former drops
 * the databases that this run created without naming them.
 *
 * @throws Error with the failed attempts and the packages to install
 */
export async function acquirePostgres(): Promise<PostgresServer> {
  const given = process.env['TEST_POSTGRES_URL'];
  if (given === undefined || given === '') return startPostgres();
  return {
    url: given,
    createDatabase: (name) => createDatabase(given, name),
    stop: () => dropDatabases(given),
  };
}

/**
 * Starts a server on a random loopback port with a user `postgres` that needs no password.
 *
 * @param sources  the sources to try; all if omitted
 * @throws Error with the failed attempts and the packages to install
 */
export async function startPostgres(
  sources: readonly PostgresSource[] = POSTGRES_SOURCES,
): Promise<PrivatePostgres> {
  const failures: string[] = [];
  for (const source of sources) {
    try {
      return await START[source]();
    } catch (error) {
      failures.push(`${source}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  throw new Error(
    'these tests need Postgres: set TEST_POSTGRES_URL to a superuser URL, or install PostgreSQL 15 or newer ' +
      `(Debian: apt-get install postgresql; macOS: brew install postgresql@17)\n  ${failures.join('\n  ')}`,
  );
}

const START: Record<PostgresSource, () => Promise<PrivatePostgres>> = {
  binaries: async () => startFromBinaries('binaries', await installedPostgres()),
  docker: startDockerPostgres,
  npm: async () => startFromBinaries('npm', await embeddedPostgres()),
  apt: async () => {
    await aptInstall('postgresql');
    return startFromBinaries('apt', await installedPostgres());
  },
};
