import { afterEach } from '@jest/globals';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** Calls `cleanup` after the test, before those that were registered earlier. */
export function afterTest(cleanup: () => unknown): void {
  cleanups.push(cleanup);
}
