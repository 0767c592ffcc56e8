import { Redis } from 'ioredis';
import { ensureError, RunError } from '@holdfast/run';
import { connectionOptions, isNoDatabase, toRunError, type Address } from './valkey-connection.js';
import { refusalOf } from './schema-version.js';
import { scripts } from './valkey-scripts.js';

/**
 * Of the layout that `valkey-scripts.ts` describes. Each so far only adds to the one before, so that processes
 * of that one go on and start beside it; 2 added upstreams: their servers, and the field and
 * the mark of their runs.
 */
export const layout = 2;
/** The least layout that a process has to know beside this one: see `SchemaVersion`. */
const leastLayout = 0;

/**
 * Checks what the guarantees rest on, and that the layout of the keys is one we know.
 *
 * @param warn  told what weakens a guarantee but is the operator's to decide
 * @throws RunError `store-unfit` with the remedy; `store-unavailable` when it cannot be reached now
 */
export async function prepareServer(
  address: Address,
  commandMs: number,
  warn: (message: string) => void,
): Promise<void> {
  const { name } = address;
  const redis = new Redis({
    ...connectionOptions(address, commandMs),
    retryStrategy: null,
    enableReadyCheck: false,
  });
  let lost: Error | undefined;
  redis.on('error', (error) => (lost ??= error));
  try {
    await redis.connect();
    // ioredis passes over a database that is not there, and goes on in 0.
    await redis.select(address.options.db!);
    await checkServer(redis, address, warn);
    const [version, least] = (await redis.eval(
      scripts.version,
      1,
      address.prefix,
      '',
      '',
      address.channel,
      layout,
      leastLayout,
    )) as [string, string | null];
    const refusal = refusalOf({ version: Number(version), least: Number(least) }, layout);
    if (refusal !== undefined) throw unfit(name, refusal);
  } catch (thrown) {
    if (thrown instanceof RunError) throw thrown;
    // Of a refused handshake the connection tells in an event, and of itself only that it is closed.
    const error = ensureError(isReply(thrown) ? thrown : (lost ?? thrown));
    throw remedyOf(error, name) ?? toRunError(error, name);
  } finally {
    redis.disconnect();
  }
}

const isReply = (thrown: unknown): boolean => (thrown as Error).name === 'ReplyError';

const unfit = (name: string, what: string): RunError =>
  new RunError('store-unfit', `the Valkey store ${name} cannot be used: ${what}`);

/** What the server refuses until somebody corrects the URL or the server. */
function remedyOf({ name: kind, message }: Error, name: string): RunError | undefined {
  if (kind !== 'ReplyError') return undefined;
  if (/^(NOAUTH|WRONGPASS|ERR AUTH|ERR invalid password)/.test(message))
    return unfit(name, 'it refuses the user or the password; correct those in the URL');
  if (message.startsWith('NOPERM'))
    return unfit(
      name,
      `its user may not do what a store needs; ACL SETUSER it with ~{…}:* &{…}:* +@all -@dangerous +info, with the prefix in the braces`,
    );
  if (isNoDatabase({ message }))
    return unfit(
      name,
      'the server has no database of that number (a cluster has only 0); correct the URL, or tell deployments apart by ?prefix=NAME',
    );
  if (message.startsWith('MOVED'))
    return unfit(
      name,
      'it is a node of a cluster, and the keys of the store belong to another; use the URL of that node, or a server that is no cluster',
    );
  return undefined;
}

async function checkServer(
  redis: Redis,
  { name, waitAof }: Address,
  warn: (message: string) => void,
): Promise<void> {
  const info = parse(await redis.info());
  const valkey = info.get('valkey_version');
  const version = valkey ?? info.get('redis_version') ?? '0';
  const isOld = valkey === undefined ? older(version, 7, 0) : older(version, 7, 2);
  if (isOld)
    throw unfit(
      name,
      `its server is ${valkey === undefined ? 'Redis' : 'Valkey'} ${version}; use Valkey 7.2, Redis 7.0 or newer`,
    );
  if (info.get('loading') === '1')
    throw new RunError('store-unavailable', `the Valkey store ${name} is still loading its data`);
  const policy = info.get('maxmemory_policy');
  if (policy !== 'noeviction')
    throw unfit(
      name,
      `its maxmemory-policy is ${policy ?? 'unknown'}, under which it may drop runs to make room; set maxmemory-policy noeviction`,
    );
  if (info.get('role') !== 'master')
    throw unfit(name, 'the server is a replica, which takes no writes; use the URL of the primary');
  if (info.get('cluster_enabled') === '1') {
    const state = /cluster_state:(\w+)/.exec((await redis.cluster('INFO')) as string)?.[1];
    if (state !== 'ok')
      throw unfit(name, `its cluster is ${state ?? 'not known to be up'}; repair the cluster first`);
  }
  const hasAof = info.get('aof_enabled') === '1';
  if (waitAof) {
    if (!hasAof)
      throw unfit(name, '?waitaof=1 waits for an append-only file, which is off; set appendonly yes');
    if (older(version, 7, 2))
      throw unfit(
        name,
        `?waitaof=1 needs WAITAOF, which Redis ${version} has not; use Valkey 7.2 or Redis 7.2 or newer`,
      );
  }
  if (!hasAof)
    warn(
      'the Valkey server keeps no append-only file: when it stops, runs are lost back to its last snapshot; set appendonly yes',
    );
}

function parse(info: string): Map<string, string> {
  return new Map(
    info
      .split('\r\n')
      .filter((line) => line.includes(':'))
      .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]),
  );
}

function older(version: string, major: number, minor: number): boolean {
  const [a = 0, b = 0] = version.split('.').map(Number);
  return a < major || (a === major && b < minor);
}
