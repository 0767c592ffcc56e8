import { afterAll, afterEach, describe, expect, test } from '@jest/globals';
import { startBalancer, type Balancer, type Balancing } from './balancer.ts';
import { Fleet, keys } from './fleet.ts';
import { eras, runOf, textOf } from './host.ts';
import { openSdkHost, type SdkHost } from './sdk-host.ts';
import { startWorker, stopEverything, until, type Env } from './service.ts';

export interface UpdateLengths {
  /** How long the body of the call lasts during which services are replaced. */
  readonly callMs: number;
  /** Longer than a gateway lets its balancer find out, shorter than the call. */
  readonly drainMs: number;
  /** Hosts that call during a rolling restart. */
  readonly hosts: number;
  /** How often all gateways are restarted under load. */
  readonly rounds: number;
}

/** What the person at a host notices of an update: nothing (drain:zero-loss). */
export function updates(lengths: UpdateLengths): void {
  const settings: Env = { HOLDFAST_DRAIN_MS: String(lengths.drainMs) };
  let fleet: Fleet;
  let balancer: Balancer;
  const hosts: SdkHost[] = [];

  const raise = async (balancing: Balancing): Promise<void> => {
    fleet = await Fleet.start('postgres', settings);
    balancer = await startBalancer(
      fleet.gateways.map(({ base }) => base),
      balancing,
    );
  };
  const open = async (era: SdkHost['era']): Promise<SdkHost> => {
    const host = await openSdkHost(era, `${balancer.base}/mcp`, keys.desk);
    hosts.push(host);
    return host;
  };
  /** Stops and starts every gateway, one after another, as a rolling update does. */
  const rollGateways = async (): Promise<void> => {
    for (const [number, { service }] of fleet.gateways.entries()) {
      expect(await service.stop()).toBe(0);
      await fleet.restartGateway(number);
      // The next goes once balancers know the new one, as an orchestrator waits for its endpoints.
      await until(() => balancer.knows(fleet.gateways[number]!.base));
    }
  };
  const rollWorkers = async (): Promise<void> => {
    for (const [number, worker] of fleet.workers.entries()) {
      const next = await startWorker(fleet.env);
      expect(await worker.stop()).toBe(0);
      fleet.workers[number] = next;
    }
  };

  afterEach(async () => {
    await Promise.all(hosts.splice(0).map((host) => host.close()));
    await balancer.close();
    await fleet.dispose();
  });
  afterAll(stopEverything);

  describe('a call that lasts longer than the drain', () => {
    test.each(eras)('gets its result while every gateway is replaced (%s)', async (era) => {
      await raise({ onRefusal: 'reset' });
      const host = await open(era);
      const told: number[] = [];
      const answer = host.call('refund_order', { order_id: 'o-1', delay_ms: lengths.callMs }, (value) =>
        told.push(value),
      );
      await until(() => fleet.wholeJournal().length > 0);
      await rollGateways();
      expect(textOf(await answer)).toBe('refunded o-1');
      expect(fleet.wholeJournal().map(({ what }) => what)).toEqual(['start', 'end']);
      expect(told).toEqual([...told].sort((a, b) => a - b));
      expect(new Set(told).size).toBe(told.length);
    });

    test.each(eras)('gets its result while every worker is replaced (%s)', async (era) => {
      await raise({ onRefusal: 'reset' });
      const host = await open(era);
      const answer = host.call('refund_order', { order_id: 'o-1', delay_ms: lengths.callMs });
      await until(() => fleet.wholeJournal().length > 0);
      await rollWorkers();
      const result = await answer;
      expect(textOf(result)).toBe('refunded o-1');
      const { id, attempt } = runOf(result);
      expect(attempt).toBeGreaterThan(1);
      // The body ran again elsewhere, and came to its end once.
      const lines = fleet.journal(id).map(({ what }) => what);
      expect(lines).toEqual([...Array<string>(attempt).fill('start'), 'end']);
    });
  });

  test('no call of many hosts fails while every gateway is replaced under load', async () => {
    await raise({ onRefusal: 'reset' });
    const crowd = await Promise.all(Array.from({ length: lengths.hosts }, (_, i) => open(eras[i % 2]!)));
    let isOver = false;
    let calls = 0;
    const failures: string[] = [];
    const load = crowd.map(async (host, i) => {
      for (let n = 1; !isOver; n++) {
        const order_id = `o-${i}-${n}`;
        const delay_ms = n % 3 === 0 ? 1_000 : 0;
        try {
          const result = await host.call('refund_order', { order_id, delay_ms });
          if (textOf(result) !== `refunded ${order_id}`)
            failures.push(`${host.era} ${order_id}: ${textOf(result)}`);
        } catch (error) {
          failures.push(`${host.era} ${order_id}: ${String(error)} ${String((error as Error).cause)}`);
        }
        calls++;
      }
    });
    const goneOn = async (): Promise<void> => {
      const goal = calls + lengths.hosts;
      await until(() => calls >= goal);
    };
    await goneOn();
    for (let round = 0; round < lengths.rounds; round++) await rollGateways();
    await goneOn();
    isOver = true;
    await Promise.all(load);
    process.stderr.write(`rolling restart: ${calls} calls, ${failures.length} failed\n`);
    expect(failures).toEqual([]);
    expect(balancer.refused).toBe(0);
  });

  test('a stream that is cut three times brings every progress once, in order, and the result', async () => {
    await raise({ onRefusal: 'next' });
    const host = await open('legacy');
    const told: number[] = [];
    const answer = host.call('refund_order', { order_id: 'o-1', delay_ms: lengths.callMs }, (value) =>
      told.push(value),
    );
    for (const round of [0, 1, 2]) {
      const known = told.length;
      await until(() => told.length > known + 1);
      await fleet.gateways[round % 2]!.service.kill();
      // Where the stream went by the other gateway it is cut on its way.
      balancer.cut();
      await fleet.restartGateway(round % 2);
    }
    expect(textOf(await answer)).toBe('refunded o-1');
    const stepMs = lengths.callMs / 20;
    expect(told).toEqual(Array.from({ length: 20 }, (_, i) => i * stepMs));
    expect(fleet.wholeJournal().map(({ what }) => what)).toEqual(['start', 'end']);
  });
}
