import { expect, test } from '@jest/globals';
import { storm } from '../chaos/storm.ts';

test('a short storm on Postgres: nothing lost, nothing completed twice, no session lost', async () => {
  const size = { gateways: 2, workers: 2, hosts: 10, spared: 0 };
  const options = { store: 'postgres', calls: 100, ...size, seed: 11, seconds: 15 };
  const report = await storm(options, () => {});
  expect(report).toMatchObject({
    calls: 100,
    lost: [],
    completedTwice: [],
    surplusRuns: 0,
    unfinishedRuns: 0,
    sessions: 5,
    sessionsLost: 0,
    endedByThemselves: [],
  });
  const { faults, broken } = report;
  expect(faults.gatewaysKilled + faults.workersKilled).toBeGreaterThan(0);
  expect(faults.storeRestarts).toBe(1);
  expect(broken).toBeGreaterThan(0);
}, 180_000);
