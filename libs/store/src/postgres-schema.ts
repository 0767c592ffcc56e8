import { createHash } from 'node:crypto';
import type pg from 'pg';
import { RunError } from '@holdfast/run';
import { connect, inSchema, isUnfit, sqlState, toRunError } from './postgres-connection.js';
import { defaultSchema, type PostgresHosts } from './postgres-hosts.js';
import { refusalOf, schemaAfter, type SchemaVersion } from './schema-version.js';

/**
 * Numbered, forward-only; `holdfast.migrations` says which a database has had. All that are
 * missing run in one transaction under a lock, so processes that start at once migrate once. One that
 * only adds, and whose additions have defaults, lets processes of the version before go on and start beside it;
 * any other says `-- breaking` on its first line: see `SchemaVersion`.
 *
 * Keys are compared byte by byte (COLLATE "C"): a new version of the system's collations then
 * cannot break a unique index. Payloads are text, not jsonb, which would refuse U+0000, reorder
 * keys and round numbers.
 */
export const postgresMigrations: readonly string[] = [
  `
  -- The record of a run. 'open' is queued or running: which of the two is told by the queue.
  -- No index on a column that changes, and room on the page: ending a run touches no index.
  CREATE TABLE holdfast.runs (
    id text COLLATE "C" PRIMARY KEY,
    seq bigserial NOT NULL UNIQUE,
    workflow text COLLATE "C" NOT NULL,
    tool text COLLATE "C" NOT NULL,
    tool_class text NOT NULL CHECK (tool_class IN ('read', 'write')),
    realm text COLLATE "C",
    principal text COLLATE "C",
    arguments text NOT NULL,
    digest text COLLATE "C" NOT NULL,
    definition text COLLATE "C" NOT NULL,
    submitted_at timestamptz(3) NOT NULL,
    attempt integer NOT NULL DEFAULT 0,
    started_at timestamptz(3),
    finished_at timestamptz(3),
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'succeeded', 'failed', 'cancelled')),
    result text,
    error text,
    CHECK ((realm IS NULL) = (principal IS NULL)),
    CHECK ((state = 'open') = (finished_at IS NULL)),
    CHECK ((state = 'succeeded') = (result IS NOT NULL)),
    CHECK ((state IN ('failed', 'cancelled')) = (error IS NOT NULL))
  ) WITH (
    fillfactor = 60,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.05
  );

  -- One narrow row for each open run; the claim token is the fence. No foreign key to runs: its
  -- check would lock, and so rewrite, the row of the run.
  CREATE TABLE holdfast.queue (
    seq bigint PRIMARY KEY,
    workflow text COLLATE "C" NOT NULL,
    definition text COLLATE "C" NOT NULL,
    queued_at timestamptz(3) NOT NULL,
    attempt integer NOT NULL DEFAULT 0,
    worker text COLLATE "C",
    token text COLLATE "C",
    claimed_at timestamptz(3),
    CHECK ((worker IS NULL) = (token IS NULL)),
    CHECK ((worker IS NULL) = (claimed_at IS NULL))
  ) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 5000
  );

  CREATE TABLE holdfast.events (
    seq bigint NOT NULL,
    n bigint NOT NULL,
    at timestamptz(3) NOT NULL,
    progress text NOT NULL,
    PRIMARY KEY (seq, n)
  );

  CREATE TABLE holdfast.repeats (key text COLLATE "C" PRIMARY KEY, seq bigint NOT NULL);
  CREATE INDEX ON holdfast.repeats (seq);
  CREATE TABLE holdfast.tombstones (id text COLLATE "C" PRIMARY KEY, until timestamptz(3) NOT NULL);
  CREATE INDEX ON holdfast.tombstones (until);

  CREATE TABLE holdfast.workers (
    id text COLLATE "C" PRIMARY KEY,
    worker_group text COLLATE "C" NOT NULL,
    workflows text NOT NULL,
    lease_until timestamptz(3) NOT NULL
  ) WITH (fillfactor = 50);

  CREATE TABLE holdfast.sessions (
    id text COLLATE "C" PRIMARY KEY,
    realm text COLLATE "C",
    principal text COLLATE "C",
    version text NOT NULL,
    client text NOT NULL,
    last_used timestamptz(3) NOT NULL,
    CHECK ((realm IS NULL) = (principal IS NULL))
  ) WITH (fillfactor = 80);

  CREATE TABLE holdfast.tools (
    worker_group text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    definition text NOT NULL,
    PRIMARY KEY (worker_group, name)
  );
  CREATE TABLE holdfast.catalogue (revision bigint NOT NULL);
  INSERT INTO holdfast.catalogue VALUES (0);

  CREATE TABLE holdfast.secrets (name text COLLATE "C" PRIMARY KEY, value text NOT NULL);
  `,
  `
  -- Which tool of which upstream, as JSON; NULL for a tool of our own.
  ALTER TABLE holdfast.runs ADD COLUMN upstream text;

  -- Where the call stands in a trace, as JSON; NULL for one that is in none.
  ALTER TABLE holdfast.runs ADD COLUMN trace text;

  -- The dispatch mark. It is the run's, not the claim's: no requeue takes it away.
  ALTER TABLE holdfast.queue ADD COLUMN is_dispatched boolean NOT NULL DEFAULT false;

  CREATE TABLE holdfast.servers (key text COLLATE "C" PRIMARY KEY, catalogue text NOT NULL);

  -- Which connector owns which server; not of servers, because a server is owned before it is first published.
  CREATE TABLE holdfast.owners (
    server text COLLATE "C" PRIMARY KEY,
    owner text NOT NULL,
    address text NOT NULL,
    lease_until timestamptz(3) NOT NULL
  ) WITH (fillfactor = 50);
  `,
  `
  -- Whose run it is, for claims that are shared among callers; '' for nobody, and for runs of before.
  ALTER TABLE holdfast.queue ADD COLUMN caller text COLLATE "C" NOT NULL DEFAULT '';
  CREATE INDEX queue_callers ON holdfast.queue (caller, seq);
  `,
];

const oldestServer = 13;
/** The lock of the default schema; any number that nobody else is likely to take. */
const migrationLock = 4_806_158_243_117_002n;
/** Others wait behind a migration that waits for their table, a backup's say: it gives way and is tried again. */
const tableLockMs = 3_000;
/** Building an index over many runs takes its time. */
const migrationMs = 3_600_000;

/**
 * Makes the database fit to be the store: checks what the guarantees rest on, then migrates.
 *
 * @param warn  told what weakens a guarantee but is the operator's to decide
 * @throws RunError `store-unfit` with the remedy; `store-unavailable` when it cannot be reached now
 */
export async function prepareDatabase(hosts: PostgresHosts, warn: (message: string) => void): Promise<void> {
  const { name } = hosts;
  let client: pg.Client | undefined;
  try {
    client = await connect(hosts, migrationMs);
    await checkServer(client, hosts, warn);
    await migrate(client, hosts);
  } catch (error) {
    if (isUnfit(error))
      throw unfit(name, `${(error as Error).message}; create the database and the role, or correct the URL`);
    throw toRunError(error, name);
  } finally {
    client?.connection.stream.destroy();
  }
}

const unfit = (name: string, what: string): RunError =>
  new RunError('store-unfit', `the Postgres store ${name} cannot be used: ${what}`);

interface Server {
  version: number;
  encoding: string;
  is_replica: boolean;
  is_read_only: boolean;
  synchronous_commit: string;
  fsync: string;
  role: string;
  database: string;
  is_plain_name: boolean;
}

async function checkServer(
  client: pg.Client,
  { name, schema }: PostgresHosts,
  warn: (message: string) => void,
): Promise<void> {
  const { rows } = await client.query<Server>(
    `SELECT current_setting('server_version_num')::integer AS version,
           current_setting('server_encoding') AS encoding,
           pg_is_in_recovery() AS is_replica,
           current_setting('transaction_read_only')::boolean AS is_read_only,
           current_setting('synchronous_commit') AS synchronous_commit,
           current_setting('fsync') AS fsync,
           quote_ident(current_user) AS role,
           quote_ident(current_database()) AS database,
           quote_ident($1) = $1 AS is_plain_name`,
    [schema],
  );
  const server = rows[0]!;
  if (!server.is_plain_name) throw unfit(name, 'the name of its schema is a word of SQL; use another');
  const major = Math.floor(server.version / 10_000);
  if (major < oldestServer)
    throw unfit(name, `its server is Postgres ${major}; use ${oldestServer} or newer`);
  if (server.encoding !== 'UTF8')
    throw unfit(
      name,
      `its encoding is ${server.encoding}, which cannot hold every text; create the database with ENCODING 'UTF8' TEMPLATE template0`,
    );
  if (server.is_replica)
    throw unfit(name, 'the server is a replica, which takes no writes; use the URL of the primary');
  if (server.is_read_only)
    throw unfit(
      name,
      `its transactions are read-only; ALTER ROLE ${server.role} SET default_transaction_read_only = off, or find out why the database is`,
    );
  if (server.synchronous_commit === 'off')
    throw unfit(
      name,
      `synchronous_commit is off, so a crash of the server would lose runs that were accepted; ALTER ROLE ${server.role} SET synchronous_commit = on`,
    );
  if (server.fsync === 'off')
    warn(
      'the Postgres server runs with fsync = off: a power cut can lose or damage every run; for tests only',
    );
}

async function migrate(client: pg.Client, hosts: PostgresHosts): Promise<void> {
  const { name, schema } = hosts;
  const run = (text: string, values: unknown[] = []) => client.query(inSchema(text, schema), values);
  if ((await versionOf(client, hosts)) >= postgresMigrations.length) return;
  await client.query('BEGIN ISOLATION LEVEL READ COMMITTED');
  await client.query('SELECT pg_advisory_xact_lock($1)', [lockOf(schema)]);
  const version = await versionOf(client, hosts);
  const { least } = schemaAfter(postgresMigrations);
  await client.query(`SET LOCAL lock_timeout = ${tableLockMs}`);
  try {
    // Not IF NOT EXISTS, which asks for the privilege even where there is nothing to do.
    const { rows } = await client.query(`SELECT FROM pg_namespace WHERE nspname = $1`, [schema]);
    if (rows.length === 0) await run('CREATE SCHEMA holdfast');
    await run(
      'CREATE TABLE IF NOT EXISTS holdfast.migrations (version integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())',
    );
    await run('ALTER TABLE holdfast.migrations ADD COLUMN IF NOT EXISTS least integer');
    for (const [i, migration] of postgresMigrations.entries()) {
      if (i < version) continue;
      await client.query(inSchema(migration, schema));
      await run('INSERT INTO holdfast.migrations (version, least) VALUES ($1, $2)', [i + 1, least]);
    }
  } catch (error) {
    if (sqlState(error) !== '42501') throw error;
    throw unfit(
      name,
      `its role may not create the tables: ${(error as Error).message}; as an administrator of that database run CREATE SCHEMA ${schema} AUTHORIZATION followed by the role`,
    );
  }
  await client.query('COMMIT');
}

/** Lets one process at a time migrate a schema. */
function lockOf(schema: string): bigint {
  if (schema === defaultSchema) return migrationLock;
  return createHash('sha256').update(`holdfast migration ${schema}`).digest().readBigInt64BE();
}

/** 0 when there is nothing yet. */
async function versionOf(client: pg.Client, { name, schema }: PostgresHosts): Promise<number> {
  // Not to_regclass: it answers from a cache that waiting for the lock does not refresh, so the
  // second of two processes would not see the tables that the first has just made.
  const { rows } = await client.query(
    `SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
     WHERE nspname = $1 AND relname = 'migrations'`,
    [schema],
  );
  if (rows.length === 0) return 0;
  // As JSON, since tables that were made before `least` was lack it.
  const versions = await client.query<SchemaVersion>(
    inSchema(
      `SELECT coalesce(max(version), 0) AS version,
              coalesce(max((to_jsonb(migrations) ->> 'least')::integer), 0) AS least
       FROM holdfast.migrations`,
      schema,
    ),
  );
  const found = versions.rows[0]!;
  const refusal = refusalOf(found, postgresMigrations.length);
  if (refusal !== undefined) throw unfit(name, refusal);
  return found.version;
}
