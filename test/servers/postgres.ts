import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { aptInstall } from './apt.ts';
import { embeddedPostgres, installedPostgres, runnable } from './postgres-binaries.ts';
import { Supervised, eventually, freePort, serverFolder, unprivileged } from './supervised.ts';

const run = promisify(execFile);

/** A Postgres that may be shared: nothing here can hurt another test's database. */
export interface PostgresServer {
  /** A superuser's URL of the maintenance database. */
  readonly url: string;
  /** Creates an empty database, with a random name when none is given, and resolves to its URL. */
  createDatabase(name?: string): Promise<string>;
  /** Stops the server and removes its data. Safe twice; does nothing to a server named by the environment. */
  stop(): Promise<void>;
}

/** A Postgres of one's own, for tests about outages. Port and data stay the same throughout. */
export interface PrivatePostgres extends PostgresServer {
  readonly port: number;
  readonly source: PostgresSource;
  /** Shuts down as an operator would (fast mode) when it is running, then starts; resolves when it answers. */
  restart(): Promise<void>;
  /** Ends every server process at once with SIGKILL, as when the host dies; `restart` brings it back. */
  kill(): Promise<void>;
  /** Freezes every server process: connections stay open, new ones are accepted, nothing answers. */
  pause(): Promise<void>;
  resume(): Promise<void>;
}

/** Ways to get a Postgres when `TEST_POSTGRES_URL` is not set, in the order in which they are tried. */
export const POSTGRES_SOURCES = ['binaries', 'npm', 'apt'] as const;
export type PostgresSource = (typeof POSTGRES_SOURCES)[number];

/** Settings of every server started here. A test's data need not survive the machine, hence no fsync. */
export const SETTINGS = {
  fsync: 'off',
  full_page_writes: 'off',
  max_connections: '300',
  shared_buffers: '64MB',
  // Few and small files, since the data may lie in memory.
  min_wal_size: '32MB',
  max_wal_size: '128MB',
  dynamic_shared_memory_type: 'mmap',
};

/**
 * The server named by `TEST_POSTGRES_URL`, else one started as `startPostgres` does.
 *
 * @throws Error saying what was tried and what to install
 */
export async function acquirePostgres(): Promise<PostgresServer> {
  const given = process.env['TEST_POSTGRES_URL'];
  if (given === undefined || given === '') return startPostgres();
  return { url: given, createDatabase: (name) => createDatabase(given, name), stop: async () => {} };
}

/**
 * Starts a server on a random loopback port with a user `postgres` that needs no password.
 *
 * @param sources  which ways to try; all of them when omitted
 * @throws Error saying what was tried and what to install
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
  binaries: async () => startBinaries('binaries', await installedPostgres()),
  npm: async () => startBinaries('npm', await embeddedPostgres()),
  apt: async () => {
    await aptInstall('postgresql');
    return startBinaries('apt', await installedPostgres());
  },
};

/**
 * Creates an empty database on any server. From template0, which nobody can be connected to: a connection to
 * the template would make this fail.
 */
export async function createDatabase(adminUrl: string, name = `test_${randomBytes(6).toString('hex')}`) {
  const client = new pg.Client({ connectionString: adminUrl });
  await client.connect();
  try {
    await client.query(`CREATE DATABASE ${client.escapeIdentifier(name)} TEMPLATE template0 ENCODING 'UTF8'`);
  } finally {
    await client.end();
  }
  const url = new URL(adminUrl);
  url.pathname = `/${encodeURIComponent(name)}`;
  return url.href;
}

/** Resolves to the folder that the server says its data lies in, once it answers. */
export function answering(url: string, gone?: () => boolean): Promise<string> {
  return eventually('postgres answers', async () => {
    if (gone?.()) return '';
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
    client.on('error', () => {}); // a connection that is lost is just a failed try
    try {
      await client.connect();
      return (await client.query<{ data_directory: string }>('SHOW data_directory')).rows[0]?.data_directory;
    } finally {
      await client.end().catch(() => {});
    }
  });
}

async function startBinaries(source: PostgresSource, installed: string): Promise<PrivatePostgres> {
  const server = new Supervised(serverFolder('postgres'), 'SIGQUIT');
  try {
    const bin = await runnable(installed, server.folder);
    const data = join(server.folder, 'data');
    const options = ['--no-sync', '--auth=trust', '--username=postgres', '--encoding=UTF8', '--locale=C'];
    await run(join(bin, 'initdb'), [...options, '-D', data], { ...unprivileged, cwd: server.folder });

    const start = async (port: number): Promise<void> => {
      const settings = { ...SETTINGS, listen_addresses: '127.0.0.1', unix_socket_directories: '' };
      const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
      const command = join(bin, 'postgres');
      await server.start({ command, args: ['-D', data, '-p', String(port), ...args], ...unprivileged });
      // Another server may have got the port first, and would answer in our server's place.
      const answered = await answering(urlOf(port), () => server.pid === undefined);
      if (answered !== data) throw new Error(`postgres did not start on port ${port}\n${server.log}`);
    };
    const port = await onFreePort(start);
    const url = urlOf(port);
    return {
      url,
      port,
      source,
      createDatabase: (name) => createDatabase(url, name),
      stop: () => server.stop(),
      async restart() {
        if (server.pid !== undefined) process.kill(server.pid, 'SIGINT');
        await server.exited();
        await start(port);
      },
      async kill() {
        server.signalAll('SIGKILL');
        await server.exited();
      },
      pause: async () => server.signalAll('SIGSTOP'),
      resume: async () => server.signalAll('SIGCONT'),
    };
  } catch (error) {
    await server.stop();
    throw error;
  }
}

const urlOf = (port: number) => `postgres://postgres@127.0.0.1:${port}/postgres`;

/** Tries a few ports, since one that was free may be taken before it is bound. */
export async function onFreePort(start: (port: number) => Promise<void>, tries = 3): Promise<number> {
  const port = await freePort();
  try {
    await start(port);
    return port;
  } catch (error) {
    if (tries === 1) throw error;
    return onFreePort(start, tries - 1);
  }
}
