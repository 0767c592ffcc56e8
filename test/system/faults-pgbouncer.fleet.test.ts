import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { startPgBouncer, testDatabase, type PgBouncer } from '../servers/index.ts';
import {
  bothEras,
  breakableTools,
  completions,
  expectSettled,
  persist,
  refund,
  release,
  revive,
  waiting,
} from './breaking.ts';
import { Fleet } from './fleet.ts';
import { errorNameOf, runOf, textOf, type Host } from './host.ts';
import { until, type Service } from './service.ts';

const deaf = /accepts LISTEN but delivers no notification/;

/** The whole product through PgBouncer in transaction mode, without its support of prepared statements. */
describe.each([
  ['LISTEN directly at Postgres', 'direct'],
  ['HOLDFAST_STORE_LISTEN_URL=off', 'off'],
  ['LISTEN through the pooler', 'unset'],
] as const)('F164: %s', (_, listen) => {
  let pooler: PgBouncer;
  let fleet: Fleet;
  let hosts: Host[];
  beforeAll(async () => {
    const direct = await testDatabase();
    // Far fewer connections than the product has: statements of one client run on many of them.
    pooler = await startPgBouncer(direct, { poolSize: 4 });
    fleet = await Fleet.start('postgres', {
      HOLDFAST_STORE: pooler.url,
      ...(listen !== 'unset' && { HOLDFAST_STORE_LISTEN_URL: listen === 'off' ? 'off' : direct }),
      HOLDFAST_TOOLS: breakableTools,
      // Nothing may be lost here for want of a connection, on a slow machine neither.
      HOLDFAST_LEASE_MS: '5000',
    });
    hosts = await bothEras(fleet);
  }, 60_000);
  afterAll(async () => {
    await fleet?.dispose();
    await pooler?.stop();
  });

  const services = (): Service[] => [...fleet.gateways.map(({ service }) => service), ...fleet.workers];
  const logs = (): Record<string, unknown>[] => services().flatMap(({ log }) => log);

  test('F164 200 calls of both eras over both gateways, 20 at a time', async () => {
    const results = await Promise.all(
      Array.from({ length: 20 }, async (_, i) => {
        const ended = [];
        for (let round = 0; round < 5; round++) {
          const call = refund();
          const { result, sent } = await persist(fleet, hosts, call, { gateway: i });
          expect(textOf(result)).toBe(`refunded ${call.args.order_id} at attempt 1`);
          expect([sent, completions(fleet, result)]).toEqual([[1, 1], 1]);
          ended.push(result);
        }
        return ended;
      }),
    );
    // Each by a host of either era.
    expect(results.flat()).toHaveLength(100);
    expect(logs().filter(({ level }) => level === 'error')).toEqual([]);
    const listed = (await fleet.api('/runs?state=succeeded&limit=200')).body['runs'];
    expect(listed).toHaveLength(100);
  }, 60_000);

  test('F164 it says so where notifications do not come, and only there', async () => {
    if (listen === 'unset') await until(() => logs().some(({ msg }) => deaf.test(String(msg))));
    else expect(logs().filter(({ msg }) => deaf.test(String(msg)))).toEqual([]);
  });

  test('F164 variant: sessions, lists, conflicts and the API work through it', async () => {
    const [legacy] = hosts;
    const listed = await legacy!.send('tools/list').answer;
    expect(listed.messages[0]!.result!['tools']).toHaveLength(2);
    const call = refund();
    const { result } = await persist(fleet, hosts, call);
    const conflict = await legacy!.call(
      call.tool,
      { ...call.args, order_id: 'other' },
      { token: call.token },
    );
    expect(errorNameOf(conflict)).toBe('IdempotencyConflict');
    expect(await fleet.run(runOf(result).id)).toMatchObject({ state: 'succeeded', arguments: call.args });
    await expectSettled(fleet, hosts, call, result);
  });

  test('F164 variant: a worker is killed in mid-call; the next call is as ever', async () => {
    const call = refund({ dies: 'body' });
    const { result } = await persist(fleet, hosts, call);
    expect(textOf(result)).toBe(`refunded ${call.args.order_id} at attempt 2`);
    await revive(fleet);

    const held = refund({ waits: 'body' });
    const answered = persist(fleet, hosts, held);
    await waiting(fleet, held);
    release(fleet, held);
    const ended = await answered;
    expect(completions(fleet, ended.result)).toBe(1);
    await expectSettled(fleet, hosts, held, ended.result);
  });
});
