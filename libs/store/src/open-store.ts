import { setTimeout as sleep } from 'node:timers/promises';
import { RunError } from '@holdfast/run';
import type { Store } from './contract.js';
import { openPostgres, type PostgresOptions } from './postgres.js';
import { openSqlite } from './sqlite.js';

/** For stores behind a network. */
export type OpenOptions = Pick<PostgresOptions, 'listenUrl' | 'log'>;

/**
 * Opens the store that `url` names: `memory:`, `sqlite:PATH` (option `?synchronous=normal`),
 * `postgres://…`.
 *
 * @throws RunError `store-unfit` when it is no store of ours or cannot keep what a store
 *   promises; trying again does not help. `store-unavailable` when it cannot be reached now.
 */
export async function openStore(url: string, options: OpenOptions = {}): Promise<Store> {
  const scheme = /^([a-z]+):/.exec(url)?.[1];
  switch (scheme) {
    case 'memory':
      return openSqlite({ path: ':memory:' });
    case 'sqlite': {
      const [path = '', query] = url.slice('sqlite:'.length).split('?', 2) as [string, string?];
      return openSqlite({ path, synchronous: synchronousOf(query) });
    }
    case 'postgres':
    case 'postgresql':
      return openPostgres({ url, ...options });
    default:
      throw new RunError(
        'store-unfit',
        `no store is opened by ${scheme ?? 'that'}: use memory:, sqlite:PATH or postgres://…`,
      );
  }
}

function synchronousOf(query: string | undefined): 'full' | 'normal' {
  const value = new URLSearchParams(query).get('synchronous') ?? 'full';
  if (value !== 'full' && value !== 'normal')
    throw new RunError('store-unfit', `synchronous must be full or normal, not ${value}`);
  return value;
}

/** `openStore` as soon as the store can be reached; see `whenStoreIsThere`. */
export function openStoreWhenThere(
  url: string,
  options: OpenOptions,
  onFailure: (error: RunError) => void,
  signal: AbortSignal,
): Promise<Store | undefined> {
  return whenStoreIsThere(() => openStore(url, options), onFailure, signal);
}

/**
 * Does what a process needs of the store before it serves, as soon as the store can be reached:
 * tries again for ever, telling `onFailure` each time. A store that was opened may be gone again
 * at the next step. Resolves to undefined when `signal` aborts before that: who aborts ends the
 * process, and with 0.
 *
 * @param act safe to repeat
 * @throws what `act` throws that is not `store-unavailable`: trying again does not help
 */
export async function whenStoreIsThere<T>(
  act: () => Promise<T>,
  onFailure: (error: RunError) => void,
  signal: AbortSignal,
): Promise<T | undefined> {
  for (let pauseMs = 250; !signal.aborted; pauseMs = Math.min(pauseMs * 2, 5_000)) {
    try {
      return await act();
    } catch (error) {
      if (!(error instanceof RunError) || error.code !== 'store-unavailable') throw error;
      onFailure(error);
      await sleep(pauseMs, undefined, { signal }).catch(() => {});
    }
  }
  return undefined;
}
