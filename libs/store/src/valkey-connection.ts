import { setTimeout as sleep } from 'node:timers/promises';
import { Redis, type RedisOptions } from 'ioredis';
import { ensureError, RunError } from '@holdfast/run';
import { checkCredentials, readOptions } from './store-url.js';
import { scripts, type ScriptName } from './valkey-scripts.js';

const connectMs = 5_000;

/** What a store URL says. */
export interface Address {
  /** Server and database, for messages. */
  readonly name: string;
  readonly options: RedisOptions;
  /** What all keys begin with; its hash tag keeps them in one slot of a cluster. */
  readonly prefix: string;
  /** Of signals. Channels are not divided by database, so it names the database. */
  readonly channel: string;
  /** Wait until the append-only file is on disk before a write counts as done. */
  readonly waitAof: boolean;
}

const form =
  'use valkey://user:password@host:port/number (valkeys:// for TLS) with ?prefix=NAME or ?waitaof=1 if need be';

/** @throws RunError `store-unfit` with the remedy; the URL may hold a password and is not echoed */
export function readAddress(url: string): Address {
  const wrong = (what: string): RunError => new RunError('store-unfit', `the Valkey URL ${what}: ${form}`);
  checkCredentials(url, 'the Valkey URL');
  if (!URL.canParse(url)) throw wrong('is not well-formed');
  const { protocol, hostname, port, username, password, pathname, search } = new URL(url);
  const db = /^\/?(\d*)$/.exec(pathname)?.[1];
  if (db === undefined) throw wrong('names no database by its number');
  if (hostname === '') throw wrong('names no host');
  const { prefix = 'holdfast', waitaof = '0' } = readOptions(search, ['prefix', 'waitaof'], 'the Valkey URL');
  if (!/^[\w.:-]+$/.test(prefix))
    throw wrong('has a prefix that is not made of letters, digits, . : _ and -');
  if (waitaof !== '0' && waitaof !== '1') throw wrong('has a waitaof that is neither 0 nor 1');
  const host = hostname.replace(/^\[|\]$/g, '');
  return {
    name: `${hostname}:${port || '6379'}/${db || '0'}`,
    options: {
      host,
      port: Number(port || '6379'),
      db: Number(db || '0'),
      ...(username !== '' && { username: decodeURIComponent(username) }),
      ...(password !== '' && { password: decodeURIComponent(password) }),
      ...(['valkeys:', 'rediss:'].includes(protocol) && { tls: {} }),
    },
    prefix: `{${prefix}}:`,
    channel: `{${prefix}}:${db || '0'}:signals`,
    waitAof: waitaof === '1',
  };
}

/**
 * What every connection is made with. Nothing is sent twice and nothing waits for a connection:
 * what was under way when one broke has an unknown outcome, which is for the caller to know.
 */
export function connectionOptions(address: Address, commandMs: number): RedisOptions {
  return {
    ...address.options,
    lazyConnect: true,
    connectionName: 'holdfast',
    connectTimeout: connectMs,
    commandTimeout: commandMs,
    // A command alone that times out would leave the next one to the same dead connection.
    socketTimeout: commandMs,
    keepAlive: 10_000,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  };
}

/**
 * One connection with our scripts, restored for ever. Its errors are RunErrors that hold no
 * argument of a command and no password.
 */
export class Connection {
  readonly #address: Address;
  readonly #redis: Scripted;
  #isClosed = false;
  /** How many connections have ended. */
  #ended = 0;

  constructor(address: Address, commandMs: number) {
    this.#address = address;
    this.#redis = new Redis({
      ...connectionOptions(address, commandMs),
      retryStrategy: (times) => Math.min(2_000, 10 * 2 ** Math.min(times, 8)) * (0.5 + Math.random() / 2),
      // After a fail-over the old primary may keep the connection and refuse to write; a new one finds the new primary.
      reconnectOnError: ({ message }) => /^(READONLY|MASTERDOWN|LOADING)/.test(message),
    }) as Scripted;
    // Unheard, ioredis prints it; whoever needs the connection learns of it by its command.
    this.#redis.on('error', (error) => {
      // ioredis goes on in database 0, which is another deployment's: nothing is sent until the database is there.
      if (isNoDatabase(error)) this.#redis.disconnect(true);
    });
    this.#redis.on('close', () => this.#ended++);
    for (const [name, lua] of Object.entries(scripts))
      this.#redis.defineCommand(`holdfast:${name}`, { numberOfKeys: 1, lua });
  }

  async connect(): Promise<void> {
    await this.do((redis) => redis.connect());
  }

  /** Runs a script with the prefix as its key. */
  run<Answer>(name: ScriptName, args: readonly (string | number)[]): Promise<Answer> {
    return this.do((redis) => redis[`holdfast:${name}`](this.#address.prefix, args) as Promise<Answer>);
  }

  /**
   * The same, resolved once the server has written it to its disk. Holds up whatever else goes
   * over this connection for as long.
   */
  async runDurably<Answer>(
    name: ScriptName,
    args: readonly (string | number)[],
    withinMs: number,
  ): Promise<Answer> {
    const ended = this.#ended;
    const answer = await this.run<Answer>(name, args);
    const synced = await this.do(
      (redis) => redis.call('WAITAOF', 1, 0, withinMs) as Promise<[number, number]>,
    );
    // A new connection has written nothing yet, so it has nothing to wait for.
    if (synced[0] < 1 || this.#ended !== ended)
      throw new RunError(
        'store-unavailable',
        `the Valkey store ${this.#address.name} did it, but did not say in time that it is on disk`,
      );
    return answer;
  }

  async do<Answer>(work: (redis: Scripted) => Promise<Answer>): Promise<Answer> {
    const { name } = this.#address;
    if (this.#isClosed) throw closed(name);
    try {
      return await work(this.#redis);
    } catch (error) {
      throw this.#isClosed ? closed(name) : toRunError(error, name);
    }
  }

  /** Lets what is under way end, for a while. Safe twice. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#redis.status === 'ready') {
      const waited = new AbortController();
      await Promise.race([
        this.#redis.quit().catch(() => {}),
        sleep(closeMs, undefined, { signal: waited.signal }).catch(() => {}),
      ]);
      waited.abort();
    }
    this.#redis.disconnect();
  }
}

/** The server has no database of that number; a node of a cluster has none but 0. */
export function isNoDatabase({ message }: Pick<Error, 'message'>): boolean {
  return /^ERR (DB index|invalid DB|SELECT is not allowed)/i.test(message);
}

const closeMs = 2_000;

type Scripted = Redis &
  Record<`holdfast:${ScriptName}`, (key: string, args: readonly (string | number)[]) => Promise<unknown>>;

const closed = (name: string): RunError => new RunError('store-closed', `the store ${name} is closed`);

/** Faults that go away by themselves or with the server: loading, fail-over, memory, disk, credentials. */
const passing =
  /^(LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|MOVED|ASK|BUSY|OOM|MISCONF|NOREPLICAS|UNKILLABLE|NOAUTH|WRONGPASS|NOPERM|ERR max number of clients)/;

/**
 * `store-unavailable` for a fault that heals, `internal` for a command that will fail again.
 * What the server says of a command may quote its arguments, so only the code is passed on.
 */
export function toRunError(thrown: unknown, name: string): RunError {
  if (thrown instanceof RunError) return thrown;
  const { name: kind, message } = ensureError(thrown);
  if (kind !== 'ReplyError')
    return new RunError('store-unavailable', `the Valkey store ${name} did not answer: ${message || kind}`);
  const code = /^[A-Z]+/.exec(message)?.[0] ?? 'ERR';
  return passing.test(message)
    ? new RunError('store-unavailable', `the Valkey store ${name} did not do it (${code})`)
    : new RunError('internal', `the Valkey store ${name} refused a command (${code})`);
}

/**
 * A lone surrogate is no UTF-8. A string that has one, or begins with the mark itself, is kept as
 * the mark and its JSON; every other string as it is.
 */
const mark = '\u0001';

export function toText(value: string): string {
  return value.startsWith(mark) || !value.isWellFormed() ? mark + JSON.stringify(value) : value;
}

export function fromText(text: string): string {
  return text.startsWith(mark) ? (JSON.parse(text.slice(1)) as string) : text;
}
