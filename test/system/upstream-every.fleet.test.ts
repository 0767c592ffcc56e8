import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { tool } from '../servers/index.ts';
import { runOf, textOf, type Host } from './host.ts';
import { stopEverything, until } from './service.ts';
import { UpstreamFleet } from './upstream-fleet.ts';

let own: UpstreamFleet;
let host: Host;
beforeAll(async () => {
  // So long that nobody waits for one to run out.
  own = await UpstreamFleet.start('postgres', { HOLDFAST_CONNECTOR_LEASE_MS: '120000' });
  host = await own.fleet.host('modern');
});
afterAll(async () => {
  await own.dispose();
  await stopEverything();
});

test('with placement every each connector serves the server, and when one dies the others go on at once', async () => {
  const upstream = await own.upstream({ pages: [[tool('pay')]] });
  await own.connect({ id: 'shop', url: upstream.url, placement: 'every', concurrency: 4 }, host);
  const sent = (): number[] =>
    own.services.map(({ log }) => log.filter(({ msg }) => msg === 'call dispatched').length);
  const runs: string[] = [];
  const pay = async (n: number): Promise<void> => {
    const result = await host.call('shop__pay', { n });
    expect(textOf(result)).toBe(JSON.stringify({ n }));
    runs.push(runOf(result).id);
  };

  await until(async () => {
    await pay(runs.length);
    return sent().every((calls) => calls > 0);
  });
  // Lines come later than answers.
  const [ofDead, ofLiving] = await until(() => {
    const calls = sent();
    return calls[0]! + calls[1]! === runs.length ? (calls as [number, number]) : undefined;
  });
  await own.services[0]!.kill();
  await Promise.all(Array.from({ length: 20 }, () => pay(runs.length)));
  await until(() => sent()[1] === ofLiving + 20);
  expect(sent()[0]).toBe(ofDead);
  // Each was executed once, whoever sent it.
  expect(upstream.executions.byKey()).toEqual(Object.fromEntries(runs.map((id) => [id, 1])));
});
