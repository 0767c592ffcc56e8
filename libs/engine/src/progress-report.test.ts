import { expect, test } from '@jest/globals';
import { freshRunId, type Progress } from '@holdfast/run';
import type { Claim } from '@holdfast/store';
import { ProgressReport } from './progress-report.js';
import { silent } from './test-runs.js';

const claimed = (token: string): Claim =>
  ({ seq: 1, token, run: { id: freshRunId(0), attempt: 2 } }) as unknown as Claim;

interface Written {
  readonly token: string;
  readonly values: readonly number[];
}

/** A store in which only the claims with these tokens may report, and each write waits to be let through. */
function store(...tokens: readonly string[]) {
  const written: Written[] = [];
  let letThrough = Promise.withResolvers<void>();
  return {
    written,
    next(): void {
      letThrough.resolve();
      letThrough = Promise.withResolvers();
    },
    async report({ token }: { token: string }, events: readonly (Progress & { n: number })[]) {
      await letThrough.promise;
      if (!tokens.includes(token)) return false;
      written.push({ token, values: events.map(({ value }) => value) });
      return true;
    },
  };
}

test('what comes while a write is under way is written together, in order', async () => {
  const runs = store('a');
  const report = new ProgressReport({ claim: claimed('a') }, runs, silent);
  report.add({ value: 1 });
  await Promise.resolve();
  report.add({ value: 2 });
  report.add({ value: 3 });
  runs.next();
  await new Promise(setImmediate);
  runs.next();
  await report.flush();
  expect(runs.written).toEqual([
    { token: 'a', values: [1] },
    { token: 'a', values: [2, 3] },
  ]);
});

test('a claim that was taken back goes on under its new token', async () => {
  const runs = store('new');
  const held = { claim: claimed('old') };
  const report = new ProgressReport(held, runs, silent);
  report.add({ value: 1 });
  await Promise.resolve();
  runs.next();
  await report.flush();
  expect(runs.written).toEqual([]);
  held.claim = claimed('new');
  report.add({ value: 2 });
  await Promise.resolve();
  runs.next();
  await report.flush();
  expect(runs.written).toEqual([{ token: 'new', values: [2] }]);
});
