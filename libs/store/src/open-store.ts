import { setTimeout as sleep } from 'node:timers/promises';
import { RunError } from '@holdfast/run';
import type { Store } from './contract.js';
import { openPostgres, type PostgresOptions } from './postgres.js';
import { openSqlite } from './sqlite.js';
import { readOptions } from './store-url.js';
import { openValkey } from './valkey.js';

/** For stores behind a network. */
export type OpenOptions = Pick<PostgresOptions, 'listenUrl' | 'log' | 'pollMs'>;

/**
 * Opens the store that `url` names: `memory:`, `sqlite:PATH` (option `?synchronous=normal`),
 * `postgres://…` (option `?schema=NAME`, and those of the connection), `valkey://…` (options `?prefix=NAME`
 * and `?waitaof=1`). Unknown options are refused.
 *
 * @throws RunError `store-unfit` when it is no store of ours or cannot keep what a store
 *   promises; trying again does not help. `store-unavailable` when it cannot be reached now.
 */
export async function openStore(url: string, options: OpenOptions = {}): Promise<Store> {
  const scheme = /^([a-z]+):/.exec(url)?.[1];
  switch (scheme) {
    case 'memory':
      readOptions(url.slice('memory:'.length), [], 'the store memory:');
      return openSqlite({ path: ':memory:' });
    case 'sqlite': {
      const [path = '', query] = url.slice('sqlite:'.length).split('?', 2) as [string, string?];
      return openSqlite({ path, synchronous: synchronousOf(query) });
    }
    case 'postgres':
    case 'postgresql':
      return openPostgres({ url, ...options });
    case 'valkey':
    case 'valkeys':
    case 'redis':
    case 'rediss':
      return openValkey({ url, ...(options.log && { log: options.log }) });
    default:
      throw new RunError(
        'store-unfit',
        `no store is opened by ${scheme ?? 'that'}: use memory:, sqlite:PATH, postgres://… or valkey://…`,
      );
  }
}

function synchronousOf(query: string | undefined): 'full' | 'normal' {
  const { synchronous = 'full' } = readOptions(query ?? '', ['synchronous'], 'the SQLite URL');
  if (synchronous !== 'full' && synchronous !== 'normal')
    throw new RunError('store-unfit', `synchronous of the SQLite URL must be full or normal`);
  return synchronous;
}

/**
 * Does what needs the store as soon as that is there: tries again for ever, telling `onFailure` each
 * time. Resolves to undefined when `signal` aborts before that: who aborts ends the process, and with 0.
 *
 * @throws whatever trying again does not help, as RunError `store-unfit`
 */
export async function whenThere<T>(
  attempt: () => Promise<T>,
  onFailure: (error: RunError) => void,
  signal: AbortSignal,
): Promise<T | undefined> {
  for (let pauseMs = 250; !signal.aborted; pauseMs = Math.min(pauseMs * 2, 5_000)) {
    try {
      return await attempt();
    } catch (error) {
      // Whoever stops us closes the store under what is tried.
      if (signal.aborted) return undefined;
      if (!(error instanceof RunError) || error.code !== 'store-unavailable') throw error;
      onFailure(error);
      await sleep(pauseMs, undefined, { signal }).catch(() => {});
    }
  }
  return undefined;
}
