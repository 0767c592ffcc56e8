import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import { eventually } from './supervised.ts';

/** A Valkey or Redis server that may be shared: every test keeps to a prefix of its own. */
export interface ValkeyServer {
  readonly url: string;
  /** Stops a server that was started here and removes its data. Safe twice. */
  stop(): Promise<void>;
}

/** A server of one's own, for tests about outages. Port and data stay the same throughout. */
export interface PrivateValkey extends ValkeyServer {
  readonly port: number;
  readonly source: ValkeySource;
  /** Shuts down as an operator would when it is running, then starts; resolves when it answers. */
  restart(): Promise<void>;
  /** Ends it at once with SIGKILL; `restart` brings it back. */
  kill(): Promise<void>;
  /** Freezes it: connections stay open, new ones are accepted, nothing answers. */
  pause(): Promise<void>;
  resume(): Promise<void>;
}

/** Ways to get a server when `TEST_VALKEY_URL` is not set, in the order in which they are tried. */
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
 * What prefixes of tests start with: the same throughout one run of the tests, since workers inherit
 * the variable, and different for two runs that share a server.
 */
const PREFIX = (process.env['HOLDFAST_TEST_PREFIX'] ??= `test_${randomBytes(4).toString('hex')}_`);

/** The server as an empty store: by a prefix that nobody else has. */
export function newStoreUrl(server: string): string {
  const url = new URL(server);
  url.searchParams.set('prefix', PREFIX + randomBytes(6).toString('hex'));
  return url.href;
}

/** A connection of a test's own. Gives up after a few tries; `redis:` is the only scheme that every client knows. */
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
  redis.on('error', () => {}); // who waits for a command is told
  return redis;
}

/** Removes what this run of the tests left on a server that others use. */
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

/** Resolves to the process id that the server says it has, once it answers; to 0 when it is gone. */
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
