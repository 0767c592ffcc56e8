import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { ensureError, RunError } from '@holdfast/run';
import { defaultSchema, type PostgresHosts } from './postgres-hosts.js';

/** Runs one statement. Rows come as the statement names their columns; bigint and numbers are JS numbers. */
export type Query = <Row>(text: string, values?: readonly unknown[]) => Promise<Row[]>;

const connectMs = 5_000;
/** Statements that Postgres rolled back to let another one through are worth an immediate second try. */
const maxTries = 5;

/** What a client of the one server of `url` is made with. */
function clientConfig(url: string): pg.ClientConfig {
  return {
    connectionString: url,
    application_name: 'holdfast',
    connectionTimeoutMillis: connectMs,
    keepAlive: true,
    types: { getTypeParser: parserOf },
  };
}

/**
 * A connection of one's own to the server that takes writes.
 *
 * @param queryMs  how long a statement may take
 * @param signal   gives up when it aborts
 * @throws what Postgres or the network said, of a single server as it is; of several, `isUnfit` holds only
 *   when it holds for all
 */
export async function connect(
  hosts: PostgresHosts,
  queryMs: number,
  signal?: AbortSignal,
): Promise<pg.Client> {
  const failures: { url: string; error: unknown }[] = [];
  while (failures.length < hosts.urls.length) {
    signal?.throwIfAborted();
    const url = hosts.current;
    const client = new pg.Client({ ...clientConfig(url), query_timeout: queryMs });
    client.on('error', () => {});
    const giveUp = (): void => void client.connection.stream.destroy();
    signal?.addEventListener('abort', giveUp, { once: true });
    try {
      await client.connect();
      await hosts.check(client);
      return client;
    } catch (error) {
      giveUp();
      failures.push({ url, error });
      hosts.leave(url);
    } finally {
      signal?.removeEventListener('abort', giveUp);
    }
  }
  throw failureOf(failures);
}

/** The database or the role is not there, or may not: of no server that only has to come back. */
export function isUnfit(error: unknown): boolean {
  const code = sqlState(error);
  return code === '3D000' || (code?.startsWith('28') ?? false);
}

function failureOf(failures: readonly { url: string; error: unknown }[]): unknown {
  const [first] = failures;
  if (failures.length === 1 || failures.every(({ error }) => isUnfit(error))) return first!.error;
  const reasons = failures.map(({ url, error }) => `${new URL(url).host}: ${reasonOf(error)}`);
  return new Error(`no server takes writes (${reasons.join('; ')})`);
}

/** What Postgres and Node say of a connection holds no password. */
function reasonOf(error: unknown): string {
  const { message, code, name } = ensureError(error) as NodeJS.ErrnoException;
  return message || code || name;
}

/**
 * The connections of one store object; its errors are RunErrors that hold no value of a
 * statement and no password.
 *
 * Behind PgBouncer in transaction mode each statement may run on another server connection, so
 * nothing relies on a setting of its session, and statements are prepared only where a
 * connection is known to lead to one server process: it told us its number when we connected,
 * and that is the number of the process that answers. A pooler makes up a number of its own.
 * Prepared, a call alone takes two thirds of the time (3.2 ms against 4.9 for submit, claim,
 * finish and news on a busy machine); with 64 in flight it makes little difference.
 */
export class Database {
  /** Server and database, for messages. */
  readonly name: string;
  readonly #hosts: PostgresHosts;
  readonly #pool: pg.Pool;
  /** Of each client where it leads and when it was made. */
  readonly #made = new WeakMap<pg.ClientBase, { url: string; epoch: number }>();
  /** Clients on which a prepared statement stays. */
  readonly #direct = new WeakSet<pg.ClientBase>();
  /** Statements as they are for a schema of another name. */
  readonly #inSchema = new Map<string, string>();
  #mayPrepare = true;
  #closed: Promise<void> | undefined;

  constructor(hosts: PostgresHosts, { poolSize, statementMs }: { poolSize: number; statementMs: number }) {
    this.name = hosts.name;
    this.#hosts = hosts;
    this.#pool = new pg.Pool({
      ...clientConfig(hosts.current),
      Client: this.#clientOfTheDay(),
      max: poolSize,
      query_timeout: statementMs,
      idleTimeoutMillis: 60_000,
      onConnect: (client) => this.#inspect(client),
    });
    // A client whose backend is ended emits 'error' wherever it is, also checked out: unheard, that ends the process.
    this.#pool.on('error', () => {});
    this.#pool.on('connect', (client) => client.on('error', () => {}));
  }

  /** A client that leads to whichever server is taken for the primary when the pool makes it. */
  #clientOfTheDay(): typeof pg.Client {
    const hosts = this.#hosts;
    const made = this.#made;
    return class extends pg.Client {
      constructor(config: pg.ClientConfig) {
        const { current: url, epoch } = hosts;
        super({ ...config, connectionString: url });
        made.set(this, { url, epoch });
      }

      override connect(): Promise<pg.Client>;
      override connect(callback: (error: Error) => void): void;
      override connect(callback?: (error: Error) => void): Promise<pg.Client> | void {
        if (callback === undefined) return super.connect();
        super.connect((error: Error | null) => {
          if (error !== null && error !== undefined) hosts.leave(made.get(this)!.url);
          callback(error as Error);
        });
      }
    };
  }

  async #inspect(client: pg.ClientBase): Promise<void> {
    try {
      await this.#hosts.check(client);
    } catch (error) {
      this.#hosts.leave(this.#made.get(client)!.url);
      throw error;
    }
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    if (rows[0]!.pid !== (client as unknown as { processID: number | null }).processID) return;
    this.#direct.add(client);
    // The plan of a prepared statement is kept. One made while the queue was empty would read a
    // long queue from end to end; what these statements want is always an index.
    await client.query('SET enable_seqscan = off; SET jit = off');
  }

  /** Runs a statement once, planned for its values. */
  readonly query: Query = (text, values) =>
    this.#withClient((client) => statement(client, this.#placed(text), values));

  /** The same for a statement that comes again and again: where it can be, it is prepared. */
  readonly prepared: Query = (text, values) =>
    this.#withClient((client) => {
      const placed = this.#placed(text);
      const name = this.#mayPrepare && this.#direct.has(client) ? nameOfStatement(placed) : undefined;
      return statement(client, placed, values, name);
    });

  /** Several statements that happen together or not at all. `work` may run more than once. */
  transaction<T>(work: (query: Query) => Promise<T>): Promise<T> {
    return this.#withClient(async (client) => {
      await client.query('BEGIN ISOLATION LEVEL READ COMMITTED');
      try {
        const result = await work((text, values) => statement(client, this.#placed(text), values));
        await client.query('COMMIT');
        return result;
      } catch (error) {
        if (isStatementFault(error)) await client.query('ROLLBACK');
        throw error;
      }
    });
  }

  #placed(text: string): string {
    const { schema } = this.#hosts;
    if (schema === defaultSchema) return text;
    let placed = this.#inSchema.get(text);
    if (placed === undefined) this.#inSchema.set(text, (placed = inSchema(text, schema)));
    return placed;
  }

  async #withClient<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#once(work);
      } catch (error) {
        if (isLostPreparation(error)) this.#mayPrepare = false;
        if (tries === maxTries || !isWorthAnotherTry(error)) throw this.#toRunError(error);
        await sleep(Math.random() * 10 * tries);
      }
    }
  }

  async #once<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    if (this.#closed !== undefined) throw new RunError('store-closed', `the store ${this.name} is closed`);
    const client = await this.#connect();
    let isBroken = false;
    try {
      return await work(client);
    } catch (error) {
      isBroken = !(isStatementFault(error) || error instanceof RunError);
      if (isBroken) this.#hosts.doubt(this.#made.get(client)!.epoch);
      throw error;
    } finally {
      client.release(isBroken);
    }
  }

  async #connect(): Promise<pg.PoolClient> {
    const failures: { url: string; error: unknown }[] = [];
    for (;;) {
      const { current: url, epoch } = this.#hosts;
      try {
        const client = await this.#pool.connect();
        if (this.#made.get(client)!.epoch === this.#hosts.epoch) return client;
        client.release(true);
      } catch (error) {
        failures.push({ url, error });
        // When nothing moved, every connection is in use, or there is no other server.
        if (failures.length >= this.#hosts.urls.length || epoch === this.#hosts.epoch)
          throw failureOf(failures);
      }
    }
  }

  #toRunError(error: unknown): RunError {
    if (this.#closed !== undefined) return new RunError('store-closed', `the store ${this.name} is closed`);
    return toRunError(error, this.name);
  }

  /** Resolves when every connection is given back and closed. Safe twice. */
  close(): Promise<void> {
    return (this.#closed ??= this.#pool.end());
  }
}

/**
 * A statement for another schema than `holdfast`: tables, the channel and the names of locks carry its name.
 * Statements are constants of ours; what comes from outside is in their values.
 */
export function inSchema(text: string, schema: string): string {
  return schema === defaultSchema ? text : text.replaceAll(/\bholdfast\b/g, schema);
}

async function statement<Row>(
  client: pg.ClientBase,
  text: string,
  values: readonly unknown[] = [],
  name?: string,
): Promise<Row[]> {
  const { rows } = await client.query({ text, values: values.map(toParameter), name });
  return rows as Row[];
}

const statementNames = new Map<string, string>();

/** One name, one text, in every version of every process: a mix-up cannot run another statement. */
function nameOfStatement(text: string): string {
  let name = statementNames.get(text);
  if (name === undefined) {
    name = `holdfast_${createHash('sha256').update(text).digest('hex').slice(0, 32)}`;
    statementNames.set(text, name);
  }
  return name;
}

/** Faults that go away by themselves or with the server: connection, resources, operator, system, lost locks. */
const passingClasses = ['08', '28', '40', '53', '55', '57', '58', 'XX'];
const passingCodes = ['25006', '3D000'];

/**
 * `store-unavailable` for a fault that heals, `internal` for a statement that will fail again.
 * What Postgres says of a failed statement may quote its values, so only the code is passed on.
 */
export function toRunError(thrown: unknown, name: string): RunError {
  if (thrown instanceof RunError) return thrown;
  const code = sqlState(thrown);
  if (code === undefined) {
    const cause = ensureError(thrown);
    const reason = cause.message || (cause as NodeJS.ErrnoException).code || cause.name;
    return new RunError('store-unavailable', `the Postgres store ${name} did not answer: ${reason}`, {
      cause,
    });
  }
  const { message, constraint } = thrown as pg.DatabaseError;
  if (passingClasses.includes(code.slice(0, 2)) || passingCodes.includes(code)) {
    return new RunError(
      'store-unavailable',
      `the Postgres store ${name} did not do it: ${message} (${code})`,
    );
  }
  const where = constraint === undefined ? '' : `, constraint ${constraint}`;
  return new RunError(
    'internal',
    `the Postgres store ${name} refused a statement (SQLSTATE ${code}${where})`,
  );
}

export function sqlState(error: unknown): string | undefined {
  return error instanceof pg.DatabaseError ? error.code : undefined;
}

/** Not prepared here, or already: some pooler is in between that we did not recognise. */
function isLostPreparation(error: unknown): boolean {
  const code = sqlState(error);
  return code === '26000' || code === '42P05';
}

/** Nothing was done: rolled back to let another one through, not prepared, or planned for tables of before a migration. */
function isWorthAnotherTry(error: unknown): boolean {
  const code = sqlState(error);
  return code === '40001' || code === '40P01' || code === '0A000' || isLostPreparation(error);
}

/** The server refused a statement and the connection is as good as before. */
function isStatementFault(error: unknown): boolean {
  const code = sqlState(error);
  if (code === undefined || (error as pg.DatabaseError).severity !== 'ERROR') return false;
  // 25006: this server has become a replica; a new connection may find the primary.
  return !['25006', '0A000', '26000', '42P05'].includes(code) && !/^(08|57P|XX)/.test(code);
}

/**
 * Postgres holds neither U+0000 nor a lone surrogate in text. A string that has one, or begins
 * with the mark itself, is kept as the mark and its JSON; every other string as it is.
 */
const mark = '\u0001';

function toParameter(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toParameter);
  if (value instanceof Date) return value.toISOString();
  if (typeof value !== 'string') return value;
  return value.startsWith(mark) || value.includes('\0') || !value.isWellFormed()
    ? mark + JSON.stringify(value)
    : value;
}

function fromText(text: string): string {
  if (!text.startsWith(mark)) return text;
  try {
    return JSON.parse(text.slice(1)) as string;
  } catch {
    // Not ours. Thrown here, it would fail every other row of its statement.
    return text;
  }
}

function parserOf(oid: number, format?: 'text' | 'binary'): (value: string) => unknown {
  if (oid === pg.types.builtins.TEXT) return fromText;
  if (oid === pg.types.builtins.INT8) return Number;
  return pg.types.getTypeParser(oid, format) as (value: string) => unknown;
}
