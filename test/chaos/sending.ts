import { setTimeout as sleep } from 'node:timers/promises';
import type { Faults } from './faults.ts';
import type { Answered, StubbornCall, StubbornHost } from './stubborn-host.ts';

export interface Sending {
  readonly hosts: readonly StubbornHost[];
  readonly calls: readonly StubbornCall[];
  /** The starts of the calls are spread evenly over this time. */
  readonly seconds: number;
  say(line: string): void;
}

/** Time after the storm until a call counts as lost. */
const graceMs = 120_000;

/** Sends all calls during the faults. Resolves after both, to the answers of the hosts. */
export async function sendDuring(
  faults: Faults,
  { hosts, calls, seconds, say }: Sending,
): Promise<Answered[]> {
  const answered: Answered[] = [];
  const begunAt = Date.now();
  const telling = setInterval(() => {
    const { gatewaysKilled, workersKilled, connectorsKilled } = faults.count;
    say(
      `${String(Math.round((Date.now() - begunAt) / 1_000)).padStart(5)} s  ${answered.length} of ${calls.length} calls answered, ` +
        `${answered.filter(({ sent }) => sent > 1).length} of them sent again; ${gatewaysKilled + workersKilled + connectorsKilled} kills`,
    );
  }, 5_000);
  const storming = faults.run();
  try {
    const gapMs = (seconds * 1_000) / calls.length;
    await Promise.all([
      storming,
      ...calls.map(async (call, i) => {
        await sleep(i * gapMs);
        answered.push(await hosts[i % hosts.length]!.call(call, begunAt + seconds * 1_000 + graceMs));
      }),
    ]);
  } finally {
    clearInterval(telling);
  }
  return answered;
}
