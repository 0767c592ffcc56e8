import { afterEach, expect, test } from '@jest/globals';
import { Fleet, keys } from './fleet.ts';
import { eras, runOf, type Host } from './host.ts';
import { stopEverything, until } from './service.ts';

let fleet: Fleet;
afterEach(async () => {
  await fleet.dispose();
  await stopEverything();
});

const refund = async (host: Host, order_id: string, token?: string): Promise<ReturnType<typeof runOf>> =>
  runOf(await host.call('refund_order', { order_id }, { token }));

test('within the window a call without a token that repeats gets the first result', async () => {
  fleet = await Fleet.start('postgres', { HOLDFAST_DEDUPE_WINDOW_MS: '60000' }, { gateways: 2, workers: 1 });
  for (const era of eras) {
    const [desk, elsewhere] = [await fleet.host(era), await fleet.host(era, { gateway: 1 })];
    const ci = await fleet.host(era, { key: keys.ci });
    const first = await refund(desk, era);
    expect(first.reattached).toBe(false);
    expect(await refund(elsewhere, era)).toEqual({ ...first, reattached: true });
    expect(fleet.journal(first.id).map(({ what }) => what)).toEqual(['start', 'end']);

    // Other arguments, another caller, a token of its own: another call.
    for (const other of [await refund(desk, `${era}-2`), await refund(ci, era), await refund(desk, era, era)])
      expect(other).toMatchObject({ reattached: false, id: expect.not.stringMatching(first.id) });
  }
});

test('after the window it is a call of its own', async () => {
  fleet = await Fleet.start('standalone', { HOLDFAST_DEDUPE_WINDOW_MS: '300' });
  const host = await fleet.host('modern');
  const first = await refund(host, 'o-1');
  const next = await until(async () => {
    const run = await refund(host, 'o-1');
    return run.id === first.id ? undefined : run;
  });
  expect(next.reattached).toBe(false);
});
