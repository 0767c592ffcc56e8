import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { BreakablePostgres } from '../system/breakable-postgres.ts';
import { until } from '../system/service.ts';

const heard = /^store notifications are heard again/;
const notHeard = /^store notifications are not heard/;

let it: BreakablePostgres;
beforeAll(async () => {
  // As in the short form: forty calls take minutes where notifications are not heard.
  it = await BreakablePostgres.start({ HOLDFAST_LEASE_MS: '15000', HOLDFAST_POLL_INTERVAL_MS: '2000' });
}, 60_000);
afterAll(() => it.dispose());

test('F160 LISTEN is ended and refused for 20 s: calls go on, and are picked up as before within 60 s of it', async () => {
  const [wasHeard, wasNotHeard] = [it.said(heard), it.said(notHeard)];
  it.hearing.refuse(true);
  await it.terminateListeners();
  const refusedAt = performance.now();
  await it.saidAgain(notHeard, wasNotHeard);
  await until(async () => {
    await it.calls(1);
    return performance.now() - refusedAt > 20_000;
  });
  it.hearing.refuse(false);
  await it.saidAgain(heard, wasHeard);
  await it.calls(40);
}, 90_000);

test('F160 variant: the connection of LISTEN goes silent without an end: it is noticed and replaced', async () => {
  const [wasHeard, wasNotHeard] = [it.said(heard), it.said(notHeard)];
  it.hearing.blackhole(true);
  await it.saidAgain(notHeard, wasNotHeard);
  await it.calls(2);
  it.hearing.blackhole(false);
  await it.saidAgain(heard, wasHeard);
  await it.calls(40);
}, 120_000);

test('F158 Postgres is gone for 20 s and comes back: works again within 30 s, nothing is lost or doubled', async () => {
  const wasHeard = it.said(heard);
  await it.server.kill();
  const goneAt = performance.now();
  await until(() => performance.now() - goneAt > 20_000);
  await it.server.restart();
  await it.calls(40);
  await it.saidAgain(heard, wasHeard);
  expect(it.services.every(({ isRunning }) => isRunning)).toBe(true);
}, 90_000);
