import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { adminKey, Fleet, keys } from './fleet.ts';
import { eras, resultOf, runOf, textOf, type ToolResult } from './host.ts';

describe.each(['sqlite', 'postgres'] as const)('on %s', (kind) => {
  let fleet: Fleet;
  beforeAll(async () => {
    fleet = await Fleet.start(kind);
  });
  afterAll(() => fleet.dispose());

  const ends = (result: ToolResult): number =>
    fleet.journal(runOf(result).id).filter(({ what }) => what === 'end').length;

  const sameCall = async (result: ToolResult): Promise<unknown> =>
    (await fleet.run(runOf(result).id))['same_call'];

  let orders = 0;
  const order = (): string => `o-${++orders}`;

  describe.each(eras)('F24: a %s host sends a call twice within milliseconds', (era) => {
    test('F24 (a) without a token: two runs, each of which names the other', async () => {
      const host = await fleet.host(era);
      const args = { order_id: order() };
      const first = host.call('refund_order', args);
      await sleep(3); // the fault itself
      const [one, two] = await Promise.all([first, host.call('refund_order', args)]);
      expect(runOf(one).id).not.toBe(runOf(two).id);
      expect([ends(one), ends(two)]).toEqual([1, 1]);
      expect(await sameCall(one)).toEqual([runOf(two).id]);
      expect(await sameCall(two)).toEqual([runOf(one).id]);
      const listed = (await fleet.api('/runs?tool=refund_order')).body['runs'] as { id: string }[];
      expect(listed.map(({ id }) => id)).toEqual(expect.arrayContaining([runOf(one).id, runOf(two).id]));
    });

    test('F24 (b) with a token: one run, and both get its result', async () => {
      const host = await fleet.host(era);
      const args = { order_id: order() };
      const token = `pair-${args.order_id}`;
      const first = host.call('refund_order', args, { token });
      await sleep(3);
      const [one, two] = await Promise.all([first, host.call('refund_order', args, { token })]);
      expect(one.content).toEqual(two.content);
      expect(runOf(one).id).toBe(runOf(two).id);
      expect([runOf(one).reattached, runOf(two).reattached].sort()).toEqual([false, true]);
      expect(ends(one)).toBe(1);
      expect(await sameCall(one)).toEqual([]);
    });

    test('F24 variant: twenty at once over both gateways, half of them written another way', async () => {
      const host = await fleet.host(era);
      const order_id = order();
      const token = `many-${order_id}`;
      const results = await Promise.all(
        Array.from({ length: 20 }, (_, i) =>
          host.call(
            'refund_order',
            {},
            {
              token,
              via: fleet.url(i),
              raw:
                i % 4 < 2
                  ? `{"order_id":"${order_id}","delay_ms":120}`
                  : ` { "delay_ms" : 1.2e2, "order_id" : "${order_id}" }`,
            },
          ),
        ),
      );
      expect(new Set(results.map(textOf))).toEqual(new Set([`refunded ${order_id}`]));
      expect(new Set(results.map((result) => runOf(result).id)).size).toBe(1);
      expect(results.filter((result) => !runOf(result).reattached)).toHaveLength(1);
      expect(ends(results[0]!)).toBe(1);
    });

    test('F24 variant: the same JSON-RPC id twice is two requests with an answer each', async () => {
      const host = await fleet.host(era);
      const args = { order_id: order(), delay_ms: 100 };
      const answers = await Promise.all(
        [0, 1].map((gateway) => host.begin('refund_order', args, { id: 7, via: fleet.url(gateway) }).answer),
      );
      expect(answers.map(({ messages }) => messages.at(-1)!.id)).toEqual([7, 7]);
      const [one, two] = answers.map(resultOf) as [ToolResult, ToolResult];
      expect(runOf(one).id).not.toBe(runOf(two).id);
      expect(await sameCall(one)).toEqual([runOf(two).id]);
    });

    test("F24 variant: other arguments, another tool and another caller's call are not linked", async () => {
      const order_id = order();
      const mine = await fleet.host(era);
      const theirs = await fleet.host(era, { key: keys.ci });
      const result = await mine.call('refund_order', { order_id });
      await mine.call('refund_order', { order_id, delay_ms: 0 });
      await mine.call('lookup_order', { order_id });
      await theirs.call('refund_order', { order_id });
      expect(await sameCall(result)).toEqual([]);
    });

    test('F24 variant: the caller sees the link with its own key', async () => {
      const host = await fleet.host(era);
      const args = { order_id: order() };
      const one = await host.call('refund_order', args);
      const two = await host.call('refund_order', args);
      const path = `/runs/${runOf(one).id}`;
      expect((await fleet.api(path, keys.desk)).body['same_call']).toEqual([runOf(two).id]);
      expect((await fleet.api(path, keys.ci)).status).toBe(404);
      expect((await fleet.api(path, adminKey)).status).toBe(200);
    });
  });
});
