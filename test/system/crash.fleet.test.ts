import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  bothEras,
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
import { errorNameOf, runOf, textOf, type Host } from './host.ts';
import { until } from './service.ts';

/** A kill at each step of a call's way, with hosts of both eras waiting for it. `idem:one-completion`, `run:accepted-is-kept`, `run:fenced`. */
describe.each(['standalone', 'sqlite', 'postgres', 'valkey'] as const)('on %s', (kind) => {
  const isOneProcess = kind === 'standalone';
  let fleet: Fleet;
  let hosts: Host[];
  beforeAll(async () => {
    fleet = await Fleet.start(kind, {
      HOLDFAST_TOOLS: breakableTools,
      ...(isOneProcess && { HOLDFAST_WORKER_CONCURRENCY: '1' }),
    });
    hosts = await bothEras(fleet);
  });
  afterAll(() => fleet.dispose());

  test('submitted, not claimed: the process that took the call dies, and the run waits for a worker', async () => {
    const before = refund({ waits: 'body' });
    const call = refund();
    // Nobody is free to claim it: the one slot is taken, or no worker lives.
    const slot = isOneProcess ? persist(fleet, hosts, before) : undefined;
    if (isOneProcess) await waiting(fleet, before);
    else await Promise.all(fleet.workers.map((worker) => worker.kill()));
    const answered = persist(fleet, hosts, call);
    const id = await runIdOf(fleet, 'queued', 1);

    await fleet.gateways[0]!.service.kill();
    await revive(fleet);
    release(fleet, before);
    const { result, sent } = await answered;
    expect(runOf(result)).toEqual({ id, attempt: 1, reattached: true });
    for (const times of sent) expect(times).toBeGreaterThan(1);
    expect(completions(fleet, result)).toBe(1);
    if (slot !== undefined) expect(textOf((await slot).result)).toMatch(/at attempt 2$/);
    await expectSettled(fleet, hosts, call, result);
  });

  test.each([
    ['claimed, body not begun', 'check', 1],
    ['body running', 'body', 1],
    // The body ended unseen, so it had to run again: its first end is known to nobody.
    ['body done, not recorded', 'done', 2],
  ] as const)('%s: the worker dies, another gives the one result', async (_, dies, ends) => {
    const call = refund({ dies });
    const answered = persist(fleet, hosts, call);
    await oneDied(fleet);
    await revive(fleet);
    const { result, sent } = await answered;
    expect(textOf(result)).toBe(`refunded ${call.args.order_id} at attempt 2`);
    expect(completions(fleet, result)).toBe(ends);
    // Where only the worker dies, the host waits on as if nothing had happened.
    if (!isOneProcess) expect(sent).toEqual([1, 1]);
    await expectSettled(fleet, hosts, call, result);
  });

  test.each(['body', 'done'] as const)(
    "onCrash 'unknown' (%s): the worker dies, the body is not run again",
    async (dies) => {
      const call = refund({ dies }, 'refund_once');
      const answered = persist(fleet, hosts, call);
      await oneDied(fleet);
      await revive(fleet);
      const { result } = await answered;
      expect(errorNameOf(result)).toBe('OutcomeUnknown');
      expect(result._meta!['holdfast/error']).toMatchObject({ outcome: 'unknown', retryable: false });
      expect(fleet.journal(runOf(result).id).filter(({ what }) => what === 'start')).toHaveLength(1);
      await expectSettled(fleet, hosts, call, result);
    },
  );

  test('recorded, not answered: the result is given at once by whoever is asked', async () => {
    const call = refund({ waits: 'body' });
    const first = hosts.map((host) => host.begin(call.tool, call.args, { token: call.token }));
    await waiting(fleet, call);
    const id = await runIdOf(fleet, 'running', 1);
    const asked = fleet.gateways[0]!.service;
    // The one process cannot record while it is stopped: there the host goes away instead.
    if (isOneProcess) for (const { cut } of first) cut();
    else asked.send('SIGSTOP');
    release(fleet, call);
    await until(async () => {
      const { body } = await fleet.api(`/runs/${id}`, undefined, 1);
      return body['state'] === 'succeeded';
    });
    await asked.kill();
    for (const { answer } of first) await expect(answer).rejects.toThrow();
    await revive(fleet);

    const { result } = await persist(fleet, hosts, call, { gateway: 1 });
    expect(runOf(result)).toEqual({ id, attempt: 1, reattached: true });
    expect(completions(fleet, result)).toBe(1);
    await expectSettled(fleet, hosts, call, result);
  });

  test('everything dies in mid-call, is started again, and a repeat gets the one result', async () => {
    const call = refund({ waits: 'body' });
    const first = hosts.map((host) => host.begin(call.tool, call.args, { token: call.token }));
    await waiting(fleet, call);
    await Promise.all(
      [...fleet.gateways.map(({ service }) => service), ...fleet.workers].map((p) => p.kill()),
    );
    for (const { answer } of first) await expect(answer).rejects.toThrow();
    await revive(fleet);
    release(fleet, call);
    const { result } = await persist(fleet, hosts, call);
    expect(textOf(result)).toBe(`refunded ${call.args.order_id} at attempt 2`);
    expect(completions(fleet, result)).toBe(1);
    await expectSettled(fleet, hosts, call, result);
  });

  if (isOneProcess) return;

  test.each([
    ['claimed, body not begun', 'check'],
    ['body running', 'body'],
    ['body done, not recorded', 'done'],
  ] as const)('%s: the gateway dies, another has the result of the same attempt', async (_, waits) => {
    const call = refund({ waits });
    const answered = persist(fleet, hosts, call);
    await waiting(fleet, call);
    await fleet.gateways[0]!.service.kill();
    release(fleet, call);
    const { result, sent } = await answered;
    await revive(fleet);
    for (const times of sent) expect(times).toBeGreaterThan(1);
    const { attempt } = runOf(result);
    // At 'done' the worker is blocked: on a slow machine it may lose its lease over that.
    if (waits !== 'done') expect(attempt).toBe(1);
    expect(completions(fleet, result)).toBe(attempt);
    await expectSettled(fleet, hosts, call, result);
  });

  test('a worker that was stopped while another took over cannot overwrite the result', async () => {
    const call = refund({ freezes: 'done', lingers: true });
    const answered = persist(fleet, hosts, call);
    await waiting(fleet, call);
    const runId = await runIdOf(fleet, 'running');
    // The late result comes first: it must not become the run's.
    for (const worker of executors(fleet)) worker.send('SIGCONT');
    await until(() =>
      executors(fleet).some(({ log }) =>
        log.some((line) => line['runId'] === runId && /^late result discarded/.test(String(line['msg']))),
      ),
    );
    expect(await fleet.run(runId)).toMatchObject({ state: 'running', attempt: 2 });
    release(fleet, call);
    const { result, sent } = await answered;
    expect(textOf(result)).toBe(`refunded ${call.args.order_id} at attempt 2`);
    expect(sent).toEqual([1, 1]);
    await expectSettled(fleet, hosts, call, result);
  });
});
