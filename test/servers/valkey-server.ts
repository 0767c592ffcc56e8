import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import { eventually } from './supervised.ts';

/** A Valkey or Redis server that may be shared: every test uses its own prefix. */
export interface ValkeyServer {
  readonly url: string;
  /** Stops a server that was started here and removes its data. Safe twice. */
  stop(): Promise<void>;
}

/** A private server, for tests of outages. Port and data never change. */
export interface PrivateValkey extends ValkeyServer {
  readonly port: number;
  readonly source: ValkeySource;
  /** Shuts down as an operator does if it runs, then starts; resolves when it answers. */
  restart(): Promise<void>;
  /** Kills it at once with SIGKILL; `restart` starts it again. */
  kill(): Promise<void>;
  /** Freezes it: connections stay open, new ones are accepted, nothing answers. */
  pause(): Promise<void>;
  resume(): Promise<void>;
}

/** Sources of a server if `TEST_VALKEY_URL` is not set, in the order in which they are tried. */
export const VALKEY_SOURCES = ['binaries', 'docker', 'apt'] as const;
export type ValkeySource = (typeof VALKEY_SOURCES)[number];

/** Settings of the server by their names in its configuration file. */
export type ValkeySettings = Readonly<Record<string, string>>;

export const SETTINGS: ValkeySettings = { appendonly: 'yes', appendfsync: 'everysec', save: '' };

/** Settings as arguments of the server's command line. */
export const settingArguments = (settings: ValkeySettings): string[] =>
  Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);

export const serverUrl = (port: number): string => `valkey://127.0.0.1:${port}/0`;

/**
 * Start of the prefixes of tests: the same within one run of the tests, because workers inherit
 * the variable, and different for two runs that share a server.
 */
const PREFIX = (process.env['HOLDFAST_TEST_PREFIX'] ??= `test_${randomBytes(4).toString('hex')}_`);

/** The server as an empty store, with a unique prefix. */
export function newStoreUrl(server: string): string {
  const url = new URL(server);
  url.searchParams.set('prefix', PREFIX + randomBytes(6).toString('hex'));
  return url.href;
}

/** A private connection of a test. Gives up after a few tries; `redis:` is the only scheme that every client knows. */
export function connectTo(server: string): Redis {
  const { hostname, port, username, password, pathname, protocol } = new URL(server);
  const redis = new Redis({
    host: hostname.replace(/^\[|\]$/g, ''),
    port: Number(port || '6379'),
    db: Number(pathname.slice(1) || '0'),
    ...(username !== '' && { username: decodeURIComponent(username) }),
    ...(password !== '' && { password: decodeURIComponent(password) }),
    ...(['valkeys:', 'rediss:'].includes(protocol) && { tls: {} }),
    retryStrategy: null,
    connectTimeout: 2_000,
    commandTimeout: 10_000,
    lazyConnect: true,
  });
  redis.on('error', () => {}); // the error also rejects the pending commands
  return redis;
}

/** Removes the keys of this run of the tests from a shared server. */
export async function removeKeys(server: string): Promise<void> {
  const redis = connectTo(server);
  try {
    for await (const keys of redis.scanStream({ match: `{${PREFIX}*`, count: 1_000 })) {
      if ((keys as string[]).length > 0) await redis.unlink(...(keys as string[]));
    }
  } finally {
    redis.disconnect();
  }
}

/** Resolves to the process id that the server reports, once it answers; to 0 if it has exited. */
export function answering(url: string, gone: () => boolean): Promise<number> {
  return eventually('valkey answers', async () => {
    if (gone()) return 0;
    const redis = connectTo(url);
    try {
      return Number(/process_id:(\d+)/.exec(await redis.info('server'))?.[1]);
    } finally {
      redis.disconnect();
    }
  });
}
