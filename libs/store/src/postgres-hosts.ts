import type pg from 'pg';
import { RunError } from '@holdfast/run';
import { checkCredentials, readOptions } from './store-url.js';

const form = /^(postgres(?:ql)?:\/\/)((?:[^/?#]*@)?)([^@/?#]*)([^?#]*)(?:\?([^#]*))?(.*)$/i;
const what = 'the Postgres URL';
/** Those that reach the driver, and two of ours. */
const knownOptions = [
  'schema',
  'target_session_attrs',
  'host',
  'ssl',
  'sslmode',
  'sslrootcert',
  'sslcert',
  'sslkey',
  'uselibpqcompat',
] as const;
/** Where everything of a store is, and the channel of its notifications. */
export const defaultSchema = 'holdfast';
const malformed =
  'a Postgres URL is not well-formed: use postgres://user:password@host/database, or several hosts as in postgres://user:password@one:5432,two:5432/database?target_session_attrs=read-write';

/**
 * The servers of one database that a URL names, as libpq writes them:
 * `postgres://one:5432,two:5432/database?target_session_attrs=read-write`. All of a store goes to one of them,
 * the one that takes writes; after a failover that is another one.
 *
 * Here is kept which of them that is taken to be. Whoever connects says what it met: `leave` for a server that
 * does not answer or takes no writes, `doubt` for a connection that was lost. `epoch` moves with both, and a
 * connection of an earlier one is not used again: it may lead to a server that is gone without a word.
 */
export class PostgresHosts {
  /** `server:port,server:port/database`, for messages: without user and password. */
  readonly name: string;
  /** The schema that the store has in the database, from `?schema=`. */
  readonly schema: string;
  /** One URL for each server, in the order in which they are tried. */
  readonly urls: readonly string[];
  /** Whether a server that takes no writes is passed over, and waited for when there is no other. */
  readonly isSought: boolean;
  #current = 0;
  #epoch = 0;

  /** @throws RunError `store-unfit` for what is no URL of a server that takes writes */
  constructor(url: string) {
    checkCredentials(url, what);
    const [, scheme, user, hosts, path, query = '', fragment] = form.exec(url) ?? [];
    if (hosts === undefined || fragment !== '') throw new RunError('store-unfit', malformed);
    const { schema = defaultSchema, ...options } = readOptions(query, knownOptions, what);
    // `public` is everybody's, and names with `pg_` are the server's own.
    if (!/^[a-z_][a-z0-9_]{0,62}$/.test(schema) || /^(pg_|public$)/.test(schema))
      throw new RunError(
        'store-unfit',
        `${what} names a schema that cannot be used; use lower-case letters, digits and _, as in ?schema=holdfast_staging`,
      );
    const kept = new URLSearchParams(options).toString();
    const names = hosts.split(',');
    this.urls = names.map((host) => `${scheme}${user}${host}${path}${kept === '' ? '' : `?${kept}`}`);
    if (!this.urls.every((one) => URL.canParse(one)) || (names.length > 1 && names.includes('')))
      throw new RunError('store-unfit', malformed);
    const wanted = options.target_session_attrs;
    if (wanted !== undefined && wanted !== 'read-write' && wanted !== 'primary')
      throw new RunError(
        'store-unfit',
        `target_session_attrs of ${what} asks for a server that takes no writes; the store writes, so use read-write`,
      );
    this.name = `${hosts}${path}${schema === defaultSchema ? '' : `, schema ${schema}`}`;
    this.schema = schema;
    this.isSought = names.length > 1 || wanted !== undefined;
  }

  get current(): string {
    return this.urls[this.#current]!;
  }

  get epoch(): number {
    return this.#epoch;
  }

  /** The server of `url` is not the one: the next one is, unless another connection found that out before. */
  leave(url: string): void {
    if (this.urls.length === 1 || this.current !== url) return;
    this.#current = (this.#current + 1) % this.urls.length;
    this.#epoch++;
  }

  /** A connection that was made in `epoch` was lost; only the first one to say so counts. */
  doubt(epoch: number): void {
    if (this.urls.length > 1 && epoch === this.#epoch) this.#epoch++;
  }

  /** @throws Error when the server of this connection takes no writes and another one is sought */
  async check(client: pg.ClientBase): Promise<void> {
    if (!this.isSought) return;
    const { rows } = await client.query<{ takes_writes: boolean }>(
      `SELECT NOT (pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean) AS takes_writes`,
    );
    if (!rows[0]!.takes_writes) throw new Error('it takes no writes: it is a replica or read-only');
  }
}
