import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  bothEras,
  breakableTools,
  completions,
  expectSettled,
  persist,
  refund,
  release,
  revive,
  runIdOf,
  waiting,
  type Call,
} from './breaking.ts';
import { Fleet } from './fleet.ts';
import { errorNameOf, runOf, textOf, type Host } from './host.ts';
import { until, type Service } from './service.ts';

const leaseMs = 600;

let fleet: Fleet;
let hosts: Host[];
beforeAll(async () => {
  fleet = await Fleet.start('postgres', {
    HOLDFAST_TOOLS: breakableTools,
    HOLDFAST_LEASE_MS: String(leaseMs),
  });
  hosts = await bothEras(fleet);
});
afterAll(() => fleet.dispose());

/** The worker in which a body began, by what the body logged there. */
function workerOf(runId: string, attempt: number): Promise<Service> {
  return until(() =>
    fleet.workers.find(({ log }) =>
      log.some(
        (line) => line['msg'] === 'body began' && line['runId'] === runId && line['attempt'] === attempt,
      ),
    ),
  );
}

const logged = (runId: string, message: RegExp): Promise<boolean> =>
  until(() =>
    fleet.workers.some(({ log }) =>
      log.some((line) => line['runId'] === runId && message.test(String(line['msg']))),
    ),
  );

describe('F172: a worker is killed in mid-call', () => {
  test.each([
    ['before the body', 'check', 1],
    ['in the body', 'body', 1],
    ['after the body, before the commit', 'done', 2],
  ] as const)('F172 %s: another takes over', async (_, dies, ends) => {
    const call = refund({ dies });
    const { result, sent } = await persist(fleet, hosts, call);
    expect(textOf(result)).toBe(`refunded ${call.args.order_id} at attempt 2`);
    expect(completions(fleet, result)).toBe(ends);
    expect(sent).toEqual([1, 1]);
    await expectSettled(fleet, hosts, call, result);
    await revive(fleet);
  });

  test.each(['check', 'body', 'done'] as const)(
    "F172 onCrash 'unknown', killed at %s: the outcome is unknown, and no second body",
    async (dies) => {
      const call = refund({ dies }, 'refund_once');
      const { result } = await persist(fleet, hosts, call);
      expect(errorNameOf(result)).toBe('OutcomeUnknown');
      expect(fleet.journal(runOf(result).id).filter(({ what }) => what === 'start')).toHaveLength(
        dies === 'check' ? 0 : 1,
      );
      await expectSettled(fleet, hosts, call, result);
      await revive(fleet);
    },
  );

  test('F172 variant: the one that takes over is killed too, and so is the next', async () => {
    const call = refund({ waits: 'body' });
    const answered = persist(fleet, hosts, call);
    await waiting(fleet, call);
    const id = await runIdOf(fleet, 'running');
    for (const attempt of [1, 2, 3]) {
      await (await workerOf(id, attempt)).kill();
      await revive(fleet);
    }
    await workerOf(id, 4);
    release(fleet, call);
    const { result, sent } = await answered;
    expect(textOf(result)).toBe(`refunded ${call.args.order_id} at attempt 4`);
    expect(completions(fleet, result)).toBe(1);
    expect(sent).toEqual([1, 1]);
    await expectSettled(fleet, hosts, call, result);
  });

  test('F172 variant: a worker that holds thirty runs is killed, and all of them end', async () => {
    const calls = Array.from({ length: 30 }, () => refund({ waits: 'body' }));
    const answered = Promise.all(calls.map((call) => persist(fleet, hosts, call)));
    for (const call of calls) await waiting(fleet, call);
    await fleet.workers[0]!.kill();
    await revive(fleet);
    for (const call of calls) release(fleet, call);
    const ends = await answered;
    expect(ends.map(({ result }) => completions(fleet, result))).toEqual(Array(30).fill(1));
    await expectSettled(fleet, hosts, calls[0]!, ends[0]!.result);
  });
});

describe('F174: a worker loses its lease and comes back', () => {
  /** Stops the worker in mid-call, for three leases and until another has taken over; gives the late one. */
  async function freeze(call: Call, id: string): Promise<Service> {
    const stoppedAt = performance.now();
    const late = await workerOf(id, 1);
    late.send('SIGSTOP');
    await workerOf(id, 2);
    await until(() => performance.now() - stoppedAt > 3 * leaseMs);
    release(fleet, call);
    return late;
  }

  test('F174 stopped after its body: its late write is refused and logged', async () => {
    const call = refund({ freezes: 'done', lingers: true });
    const startedAt = performance.now();
    const answered = persist(fleet, hosts, call);
    await waiting(fleet, call);
    const id = await runIdOf(fleet, 'running');
    await until(() => performance.now() - startedAt > 3 * leaseMs);
    for (const worker of fleet.workers) worker.send('SIGCONT');
    await logged(id, /^late result discarded/);
    expect(await fleet.run(id)).toMatchObject({ state: 'running', attempt: 2 });
    release(fleet, call);
    const { result, sent } = await answered;
    expect(textOf(result)).toBe(`refunded ${call.args.order_id} at attempt 2`);
    expect(sent).toEqual([1, 1]);
    await expectSettled(fleet, hosts, call, result);
  });

  test('F174 stopped in its body: it is told that it lost its lease, and serves on', async () => {
    const call = refund({ waits: 'body' });
    const answered = persist(fleet, hosts, call);
    await waiting(fleet, call);
    const id = await runIdOf(fleet, 'running');
    const late = await freeze(call, id);
    const { result, sent } = await answered;
    expect(textOf(result)).toBe(`refunded ${call.args.order_id} at attempt 2`);
    expect(sent).toEqual([1, 1]);
    late.send('SIGCONT');
    await until(() => late.log.some(({ msg }) => /^lease lost/.test(String(msg))));
    expect(await fleet.run(id)).toMatchObject({ state: 'succeeded', attempt: 2 });
    await expectSettled(fleet, hosts, call, result);

    // Under a new lease it is a worker like any other: alone, it does the next call.
    const [other] = fleet.workers.filter((worker) => worker !== late);
    await other!.kill();
    const next = await persist(fleet, hosts, refund());
    expect(textOf(next.result)).toMatch(/at attempt 1$/);
    await revive(fleet);
  });

  test('F174 variant: its event loop is blocked by the tool, not by a signal', async () => {
    const call = refund({ waits: 'done' });
    const answered = persist(fleet, hosts, call);
    const id = await runIdOf(fleet, 'running');
    await workerOf(id, 1);
    // The second attempt blocks its own worker; both are let go together.
    await workerOf(id, 2);
    release(fleet, call);
    const { result, sent } = await answered;
    await logged(id, /^late result discarded/);
    expect(sent).toEqual([1, 1]);
    const ended = await fleet.run(id);
    expect(ended).toMatchObject({ state: 'succeeded', attempt: runOf(result).attempt });
    await expectSettled(fleet, hosts, call, result);
  });

  test('F174 variant: while it is stopped its gateway dies as well', async () => {
    const call = refund({ freezes: 'body' });
    const answered = persist(fleet, hosts, call);
    const id = await runIdOf(fleet, 'running', 1);
    await workerOf(id, 1);
    await fleet.gateways[0]!.service.kill();
    const { result } = await answered;
    expect(textOf(result)).toBe(`refunded ${call.args.order_id} at attempt 2`);
    for (const worker of fleet.workers) worker.send('SIGCONT');
    await revive(fleet);
    await expectSettled(fleet, hosts, call, result);
  });
});
