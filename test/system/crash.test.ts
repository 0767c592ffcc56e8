import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  breakableTools,
  completions,
  executors,
  expectSettled,
  oneDied,
  persist,
  refund,
  release,
  revive,
  runIdOf,
  waiting,
} from './breaking.ts';
import { Fleet } from './fleet.ts';
import { eras, errorNameOf, runOf, textOf } from './host.ts';
import { until } from './service.ts';

/** A kill at each step of a call's way. `idem:one-completion`, `run:accepted-is-kept`, `run:fenced`. */
describe.each(['standalone', 'sqlite'] as const)('on %s', (kind) => {
  const isOneProcess = kind === 'standalone';
  let fleet: Fleet;
  beforeAll(async () => {
    fleet = await Fleet.start(kind, {
      HOLDFAST_TOOLS: breakableTools,
      ...(isOneProcess && { HOLDFAST_WORKER_CONCURRENCY: '1' }),
    });
  });
  afterAll(() => fleet.dispose());

  describe.each(eras)('a %s host', (era) => {
    test('submitted, not claimed: the process that took the call dies, and the run waits for a worker', async () => {
      const host = await fleet.host(era);
      const before = refund({ waits: 'body' });
      const call = refund();
      // Nobody is free to claim it: the one slot is taken, or no worker lives.
      const slot = isOneProcess ? persist(fleet, host, before) : undefined;
      if (isOneProcess) await waiting(fleet, before);
      else await Promise.all(fleet.workers.map((worker) => worker.kill()));
      const answered = persist(fleet, host, call);
      const id = await runIdOf(fleet, 'queued', 1);

      await fleet.gateways[0]!.service.kill();
      await revive(fleet);
      release(fleet, before);
      const { result, sent } = await answered;
      expect(runOf(result)).toEqual({ id, attempt: 1, reattached: true });
      expect(sent).toBeGreaterThan(1);
      expect(completions(fleet, result)).toBe(1);
      if (slot !== undefined) expect(textOf((await slot).result)).toMatch(/at attempt 2$/);
      await expectSettled(fleet, host, call, result);
    });

    test.each([
      ['claimed, body not begun', 'check', 1],
      ['body running', 'body', 1],
      // The body ended unseen, so it had to run again: its first end is known to nobody.
      ['body done, not recorded', 'done', 2],
    ] as const)('%s: the worker dies, another gives the one result', async (_, dies, ends) => {
      const host = await fleet.host(era);
      const call = refund({ dies });
      const answered = persist(fleet, host, call);
      await oneDied(fleet);
      await revive(fleet);
      const { result, sent } = await answered;
      expect(textOf(result)).toBe(`refunded ${call.args.order_id} at attempt 2`);
      expect(completions(fleet, result)).toBe(ends);
      // Where only the worker dies, the host waits on as if nothing had happened.
      if (!isOneProcess) expect(sent).toBe(1);
      await expectSettled(fleet, host, call, result);
    });

    test.each(['body', 'done'] as const)(
      "onCrash 'unknown' (%s): the worker dies, the body is not run again",
      async (dies) => {
        const host = await fleet.host(era);
        const call = refund({ dies }, 'refund_once');
        const answered = persist(fleet, host, call);
        await oneDied(fleet);
        await revive(fleet);
        const { result } = await answered;
        expect(errorNameOf(result)).toBe('OutcomeUnknown');
        expect(result._meta!['holdfast/error']).toMatchObject({ outcome: 'unknown', retryable: false });
        expect(fleet.journal(runOf(result).id).filter(({ what }) => what === 'start')).toHaveLength(1);
        await expectSettled(fleet, host, call, result);
      },
    );

    test('recorded, not answered: the result is given at once by whoever is asked', async () => {
      const host = await fleet.host(era);
      const call = refund({ waits: 'body' });
      const first = host.begin(call.tool, call.args, { token: call.token });
      await waiting(fleet, call);
      const id = await runIdOf(fleet, 'running', 1);
      const asked = fleet.gateways[0]!.service;
      // The one process cannot record while it is stopped: there the host goes away instead.
      if (isOneProcess) first.cut();
      else asked.send('SIGSTOP');
      release(fleet, call);
      await until(async () => {
        const { body } = await fleet.api(`/runs/${id}`, undefined, 1);
        return body['state'] === 'succeeded';
      });
      await asked.kill();
      await expect(first.answer).rejects.toThrow();
      await revive(fleet);

      const { result } = await persist(fleet, host, call, { gateway: 1 });
      expect(runOf(result)).toEqual({ id, attempt: 1, reattached: true });
      expect(completions(fleet, result)).toBe(1);
      await expectSettled(fleet, host, call, result);
    });

    test('everything dies in mid-call, is started again, and a repeat gets the one result', async () => {
      const host = await fleet.host(era);
      const call = refund({ waits: 'body' });
      const first = host.begin(call.tool, call.args, { token: call.token });
      await waiting(fleet, call);
      await Promise.all(
        [...fleet.gateways.map(({ service }) => service), ...fleet.workers].map((p) => p.kill()),
      );
      await expect(first.answer).rejects.toThrow();
      await revive(fleet);
      release(fleet, call);
      const { result } = await persist(fleet, host, call);
      expect(textOf(result)).toBe(`refunded ${call.args.order_id} at attempt 2`);
      expect(completions(fleet, result)).toBe(1);
      await expectSettled(fleet, host, call, result);
    });

    if (isOneProcess) return;

    test.each([
      ['claimed, body not begun', 'check'],
      ['body running', 'body'],
      ['body done, not recorded', 'done'],
    ] as const)('%s: the gateway dies, another has the result of the same attempt', async (_, waits) => {
      const host = await fleet.host(era);
      const call = refund({ waits });
      const answered = persist(fleet, host, call);
      await waiting(fleet, call);
      await fleet.gateways[0]!.service.kill();
      release(fleet, call);
      const { result, sent } = await answered;
      await revive(fleet);
      expect(sent).toBeGreaterThan(1);
      const { attempt } = runOf(result);
      // At 'done' the worker is blocked: on a slow machine it may lose its lease over that.
      if (waits !== 'done') expect(attempt).toBe(1);
      expect(completions(fleet, result)).toBe(attempt);
      await expectSettled(fleet, host, call, result);
    });

    test('a worker that was stopped while another took over cannot overwrite the result', async () => {
      const host = await fleet.host(era);
      const call = refund({ freezes: 'done' });
      const { result, sent } = await persist(fleet, host, call);
      expect(textOf(result)).toBe(`refunded ${call.args.order_id} at attempt 2`);
      expect(sent).toBe(1);
      for (const worker of executors(fleet)) worker.send('SIGCONT');
      const runId = runOf(result).id;
      await until(() =>
        executors(fleet).some(({ log }) =>
          log.some((line) => line['runId'] === runId && /^late result discarded/.test(String(line['msg']))),
        ),
      );
      expect(await fleet.run(runId)).toMatchObject({ state: 'succeeded', attempt: 2 });
      await expectSettled(fleet, host, call, result);
    });
  });
});
