import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { eventually } from './supervised.ts';

/** A Postgres that may be shared: no method affects the database of another test. */
export interface PostgresServer {
  /** The URL of the maintenance database for a superuser. */
  readonly url: string;
  /** Creates an empty database, with a random name if none is given, and resolves to its URL. */
  createDatabase(name?: string): Promise<string>;
  /** Stops a server that was started here and removes its data. Safe twice. */
  stop(): Promise<void>;
}

/** A private Postgres, for tests of outages. Port and data never change. */
export interface PrivatePostgres extends PostgresServer {
  readonly port: number;
  readonly source: PostgresSource;
  /** Shuts down as an operator does (fast mode) if it runs, then starts; resolves when it answers. */
  restart(): Promise<void>;
  /** Kills every server process at once with SIGKILL, as if the host died; `restart` starts it again. */
  kill(): Promise<void>;
  /** Freezes every server process: connections stay open, new ones are accepted, nothing answers. */
  pause(): Promise<void>;
  resume(): Promise<void>;
}

/** Sources of a Postgres if `TEST_POSTGRES_URL` is not set, in the order in which they are tried. */
export const POSTGRES_SOURCES = ['binaries', 'docker', 'npm', 'apt'] as const;
export type PostgresSource = (typeof POSTGRES_SOURCES)[number];

/** Settings of every server started here. Test data need not survive the machine, so fsync is off. */
export const SETTINGS = {
  fsync: 'off',
  full_page_writes: 'off',
  max_connections: '300',
  shared_buffers: '64MB',
  // Few and small files, because the data may be in memory.
  min_wal_size: '32MB',
  max_wal_size: '128MB',
  dynamic_shared_memory_type: 'mmap',
};

/** Settings as arguments of the server's command line. */
export const settingArguments = (settings: Record<string, string>): string[] =>
  Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);

/** The superuser's URL of a server that was started here. */
export const adminUrl = (port: number): string => `postgres://postgres@127.0.0.1:${port}/postgres`;

/**
 * Prefix of the names of temporary databases: the same within one run of the tests, because workers inherit
 * the variable, and different for two runs that share a server.
 */
const PREFIX = (process.env['HOLDFAST_TEST_PREFIX'] ??= `test_${randomBytes(4).toString('hex')}_`);

/**
 * Creates an empty database on any server. It uses template0, which accepts no connections: a connection to
 * the template would make the statement fail.
 */
export async function createDatabase(admin: string, name = PREFIX + randomBytes(6).toString('hex')) {
  const client = new pg.Client({ connectionString: admin });
  await client.connect();
  try {
    await client.query(`CREATE DATABASE ${client.escapeIdentifier(name)} TEMPLATE template0 ENCODING 'UTF8'`);
  } finally {
    await client.end();
  }
  const url = new URL(admin);
  url.pathname = `/${encodeURIComponent(name)}`;
  return url.href;
}

/** Drops the databases that this run of the tests named, and closes connections to them. */
export async function dropDatabases(admin: string): Promise<void> {
  const client = new pg.Client({ connectionString: admin });
  await client.connect();
  try {
    const { rows } = await client.query<{ datname: string }>(
      'SELECT datname FROM pg_database WHERE starts_with(datname, $1)',
      [PREFIX],
    );
    for (const { datname } of rows) {
      await client.query(`DROP DATABASE ${client.escapeIdentifier(datname)} WITH (FORCE)`);
    }
  } finally {
    await client.end();
  }
}

/** Resolves to the data folder that the server reports, once it answers. */
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
