import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { BreakablePostgres, Load } from './breakable-postgres.ts';
import { completions, expectSettled, persist, refund, release, waiting } from './breaking.ts';
import { errorNameOf, resultOf, runOf, textOf } from './host.ts';
import { until } from './service.ts';

describe('F158: the database goes away under load', () => {
  let it: BreakablePostgres;
  beforeAll(async () => {
    // Long enough for a renewal that needs several tries: what a lost lease runs again is not what this is about.
    it = await BreakablePostgres.start({ HOLDFAST_LEASE_MS: '5000' });
  }, 60_000);
  afterAll(() => it.dispose());

  const allRun = (): boolean => it.services.every(({ isRunning }) => isRunning);

  test('F158 every connection is ended by the server, again and again: no process ends, no call is lost or doubled', async () => {
    const held = Array.from({ length: 10 }, () => refund({ waits: 'body' }));
    const answered = Promise.all(held.map((call) => persist(it.fleet, it.hosts, call)));
    for (const call of held) await waiting(it.fleet, call);
    const calls = new Load(it);
    for (let round = 0; round < 8; round++) {
      await it.terminate();
      await calls.more(8);
    }
    await calls.stop();
    for (const call of held) release(it.fleet, call);
    const results = (await answered).map(({ result }) => result);
    expect(results.map((result) => [runOf(result).attempt, completions(it.fleet, result)])).toEqual(
      Array(10).fill([1, 1]),
    );
    await expectSettled(it.fleet, it.hosts, held[0]!, results[0]!);
    expect(allRun()).toBe(true);
  }, 60_000);

  test('F158 Postgres is killed: calls are answered "internal error" until it is back, and all of them end once', async () => {
    const held = refund({ waits: 'body' });
    const answered = persist(it.fleet, it.hosts, held);
    await waiting(it.fleet, held);
    const calls = new Load(it);
    await calls.more(8);
    await it.server.kill();

    for (const host of it.hosts) {
      const answer = await host.begin('refund_again', { order_id: 'o-down' }).answer;
      if (host.era === 'legacy') {
        expect(answer.status).toBe(503);
        expect(answer.messages[0]!.error).toEqual({ code: -32603, message: 'internal error' });
      } else {
        expect(errorNameOf(resultOf(answer))).toBe('InternalError');
        expect(textOf(resultOf(answer))).toBe('InternalError: internal error');
      }
    }
    // The body ends while there is nowhere to record it.
    release(it.fleet, held);
    await until(() => it.fleet.wholeJournal().some((line) => line.what === 'end' && line.attempt === 1));
    expect(allRun()).toBe(true);

    await it.server.restart();
    await calls.more(16);
    await calls.stop();
    const { result } = await answered;
    expect([runOf(result).attempt, completions(it.fleet, result)]).toEqual([1, 1]);
    await expectSettled(it.fleet, it.hosts, held, result);
    expect(allRun()).toBe(true);
  }, 60_000);

  test('F158 variant: the network is cut in both directions, then silent, then refuses', async () => {
    const calls = new Load(it);
    for (let round = 0; round < 3; round++) {
      it.network.cut();
      it.hearing.cut();
      await calls.more(8);
    }
    it.network.blackhole(true);
    it.network.blackhole(false);
    await calls.more(8);
    it.network.refuse(true);
    it.network.cut();
    // Whoever asks now is refused; those who wait go on waiting.
    await until(async () => {
      const answer = await it.hosts[0]!.begin('refund_again', { order_id: 'o-refused' }).answer;
      return answer.status === 503;
    });
    it.network.refuse(false);
    await calls.more(8);
    await calls.stop();
    expect(allRun()).toBe(true);
  }, 60_000);

  test('F158 variant: the answer to a claim is lost, and the claim was made', async () => {
    // Claims wait for this lock, with everything that they need to be made later.
    const locker = new pg.Client({ connectionString: it.url });
    await locker.connect();
    await locker.query('BEGIN');
    await locker.query('SELECT FROM holdfast.workers FOR UPDATE');
    const call = refund();
    const answered = persist(it.fleet, it.hosts, call);
    await until(async () => {
      const [blocked] = await it.query<{ n: number }>(
        "SELECT count(*)::integer AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%FOR KEY SHARE%'",
      );
      return blocked!.n > 0;
    });
    it.network.cut();
    await locker.query('COMMIT');
    await locker.end();
    const { result } = await answered;
    expect(completions(it.fleet, result)).toBe(1);
    expect(runOf(result).attempt).toBeGreaterThan(1);
    await expectSettled(it.fleet, it.hosts, call, result);
  });
});

/**
 * A worker of this fleet that believes to hear, and does not, looks for work every 5 s, and such a
 * gateway for results every 20 s: forty calls end within the time of a test only where they hear.
 */
describe('F160, F162: LISTEN is lost', () => {
  const heard = /^store notifications are heard again/;
  const notHeard = /^store notifications are not heard/;
  let it: BreakablePostgres;
  beforeAll(async () => {
    it = await BreakablePostgres.start({ HOLDFAST_LEASE_MS: '15000', HOLDFAST_POLL_INTERVAL_MS: '2000' });
    await it.calls(40);
  }, 60_000);
  afterAll(() => it.dispose());

  test('F160 ended by the server, and no new one is let in: polling picks up; then it is restored', async () => {
    const [wasHeard, wasNotHeard] = [it.said(heard), it.said(notHeard)];
    it.hearing.refuse(true);
    await it.terminateListeners();
    await it.saidAgain(notHeard, wasNotHeard);
    await it.calls(2);
    it.hearing.refuse(false);
    await it.saidAgain(heard, wasHeard);
    await it.calls(40);
  }, 60_000);

  test('F160 variant: it is ended again and again', async () => {
    for (let round = 0; round < 4; round++) {
      const before = it.said(heard);
      await it.terminateListeners();
      await it.saidAgain(heard, before);
    }
    await it.calls(40);
  });

  test('F160 variant: what was submitted while nobody heard is done when they hear again', async () => {
    const wasHeard = it.said(heard);
    it.hearing.refuse(true);
    it.hearing.cut();
    const calls = Array.from({ length: 10 }, () => refund());
    const answered = Promise.all(calls.map((call) => persist(it.fleet, it.hosts, call)));
    it.hearing.refuse(false);
    await it.saidAgain(heard, wasHeard);
    expect((await answered).map(({ result }) => completions(it.fleet, result))).toEqual(Array(10).fill(1));
  });

  test('F162 Postgres is restarted three times, and each time calls are picked up as before', async () => {
    for (let round = 0; round < 3; round++) {
      const before = it.said(heard);
      await it.server.restart();
      await it.saidAgain(heard, before);
      await it.calls(40);
    }
    expect(it.services.every(({ isRunning }) => isRunning)).toBe(true);
  }, 60_000);

  test('F162 variant: it is killed instead, with runs on their way', async () => {
    const before = it.said(heard);
    const call = refund({ waits: 'body' });
    const answered = persist(it.fleet, it.hosts, call);
    await waiting(it.fleet, call);
    await it.server.kill();
    release(it.fleet, call);
    await it.server.restart();
    await it.saidAgain(heard, before);
    const { result } = await answered;
    expect([runOf(result).attempt, completions(it.fleet, result)]).toEqual([1, 1]);
    await it.calls(40);
  }, 60_000);
});
