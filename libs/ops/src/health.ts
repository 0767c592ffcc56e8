import { maskSecrets } from './mask.js';

export interface HealthAnswer {
  readonly ok: boolean;
  readonly failing: readonly { readonly name: string; readonly reason: string }[];
}

/** Something that must have happened once before a process takes work. */
export interface Condition {
  /** It happened. It stays so: a store that goes away later must not take every replica out at once. */
  met(): void;
  /** Why it has not happened yet; ignored once it has. */
  waiting(reason: string): void;
}

/** The answers of `/healthz` and `/readyz`. Holds state only: asks nothing, waits for nothing. */
export interface Health {
  /** The condition of that name; the first mention makes it, and it is unmet. */
  condition(name: string): Condition;
  /** Not ready from here on, for good: the process is stopping. */
  drain(): void;
  /** The process is alive, which is told by answering at all. */
  live(): HealthAnswer;
  /** Every condition was met once, and the process is not draining. */
  ready(): HealthAnswer;
}

/**
 * @param conditions  the conditions known from the start, name to why each is unmet; name them here so that a
 *                    process is not ready before the part that would name them has come up
 */
export function createHealth(conditions: Readonly<Record<string, string>> = {}): Health {
  /** Name to reason; undefined once met. */
  const states = new Map<string, string | undefined>(Object.entries(conditions));
  let draining = false;
  return {
    condition(name) {
      if (!states.has(name)) states.set(name, 'not yet');
      return {
        met: () => void states.set(name, undefined),
        waiting(reason) {
          if (states.get(name) !== undefined) states.set(name, maskSecrets(reason));
        },
      };
    },
    drain: () => void (draining = true),
    live: () => ({ ok: true, failing: [] }),
    ready() {
      const failing = [...states].flatMap(([name, reason]) => (reason === undefined ? [] : { name, reason }));
      if (draining) failing.push({ name: 'draining', reason: 'the process is stopping' });
      return { ok: failing.length === 0, failing };
    },
  };
}
