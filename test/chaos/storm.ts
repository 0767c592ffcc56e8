import { join } from 'node:path';
import { startBalancer, type Balancer } from '../system/balancer.ts';
import { Fleet, keys } from '../system/fleet.ts';
import { runOf, textOf, type ToolResult } from '../system/host.ts';
import { root } from '../system/service.ts';
import { Faults, type FaultCount } from './faults.ts';
import { inTurns } from './in-turns.ts';
import { randomFrom } from './random.ts';
import { sendDuring } from './sending.ts';
import { chaosStores } from './stores.ts';
import { StubbornHost, type Answered, type StubbornCall } from './stubborn-host.ts';

export interface StormOptions {
  /** One of `chaosStores`. */
  readonly store: string;
  readonly calls: number;
  readonly gateways: number;
  readonly workers: number;
  readonly hosts: number;
  /** Minimum number of running gateways, and of workers. */
  readonly spared: number;
  readonly seed: number;
  /** Duration of the faults; the starts of the calls are spread evenly over it. */
  readonly seconds: number;
}

export interface StormReport {
  readonly calls: number;
  readonly faults: FaultCount;
  /** Services that ended without a kill. */
  readonly endedByThemselves: readonly string[];
  /** Calls whose host never got a result, with the reason. */
  readonly lost: readonly string[];
  /** Calls with two different results, or with a result that differs from that of the run. */
  readonly completedTwice: readonly string[];
  /** Runs in the store in excess of one for each call. */
  readonly surplusRuns: number;
  /** Runs that have not ended. */
  readonly unfinishedRuns: number;
  readonly sessions: number;
  readonly sessionsLost: number;
  /** Calls that had to be sent more than once. */
  readonly broken: number;
  /** Bodies that started again: their worker died, or lost its lease, before an end was recorded. */
  readonly bodiesRerun: number;
  /** Bodies that ended but whose end was not recorded. */
  readonly endsNotRecorded: number;
  /** From a host's first broken connection to its result, in milliseconds. */
  readonly reattachMs: Quantiles;
  /** The same, without the remaining time of the run itself. */
  readonly afterEndMs: Quantiles;
  /** From the start of a process, after a kill, until it is ready. */
  readonly startMs: Quantiles;
}

export interface Quantiles {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

const leaseMs = 2_000;
/** Time for which a host waits for an answer before it sends again. */
const patienceMs = 10_000;

/** Starts a fleet, sends calls with tokens from hosts of both eras while it is broken, and checks the calls. */
export async function storm(options: StormOptions, say: (line: string) => void): Promise<StormReport> {
  const openStore = chaosStores[options.store];
  if (openStore === undefined)
    throw new Error(`--store ${options.store} is unknown; use one of ${Object.keys(chaosStores).join(', ')}`);
  const store = await openStore();
  let fleet: Fleet | undefined;
  let balancer: Balancer | undefined;
  try {
    fleet = await Fleet.start(
      'sqlite',
      {
        ...(store.url !== undefined && { HOLDFAST_STORE: store.url }),
        HOLDFAST_TOOLS: join(root, 'test/system/tools/refund.ts'),
        HOLDFAST_LEASE_MS: String(leaseMs),
        HOLDFAST_LOG_LEVEL: 'info',
      },
      { gateways: options.gateways, workers: options.workers },
    );
    balancer = await startBalancer(
      fleet.gateways.map(({ base }) => base),
      { onRefusal: 'next', probeEveryMs: 500 },
    );
    const random = randomFrom(options.seed);
    const { seconds, spared } = options;
    const faults = new Faults({ fleet, store, balancer, random, seconds, leaseMs, spared });
    const hosts = Array.from(
      { length: options.hosts },
      (_, i) =>
        new StubbornHost(i % 2 === 0 ? 'legacy' : 'modern', `${balancer!.base}/mcp`, keys.desk, patienceMs),
    );
    await Promise.all(hosts.map((host) => host.open()));
    const calls = makeCalls(options, randomFrom(options.seed + 1));
    const answered = await sendDuring(faults, { hosts, calls, seconds, say });
    say('        the storm is over; every call is repeated, and every run looked at');
    return await inspect({ fleet, hosts, answered, faults });
  } finally {
    await balancer?.close();
    await fleet?.dispose();
    await store.close();
  }
}

/** Most bodies are short; one in ten lasts seconds, so that kills meet them. */
function makeCalls({ calls, seed }: StormOptions, random: () => number): StubbornCall[] {
  return Array.from({ length: calls }, (_, i) => ({
    tool: 'refund_order',
    args: { order_id: `o-${i}`, delay_ms: Math.round(random() * (random() < 0.1 ? 5_000 : 500)) },
    token: `storm-${seed}-${i}`,
  }));
}

interface Aftermath {
  readonly fleet: Fleet;
  readonly hosts: readonly StubbornHost[];
  readonly answered: readonly Answered[];
  readonly faults: Faults;
}

interface ShownRun {
  readonly id: string;
  readonly state: string;
  readonly attempt: number;
  readonly finished_at: string;
  readonly result?: ToolResult;
}

async function inspect({ fleet, hosts, answered, faults }: Aftermath): Promise<StormReport> {
  const lost: string[] = [];
  const completedTwice: string[] = [];
  const reattached: number[] = [];
  const afterEnd: number[] = [];
  let endsNotRecorded = 0;
  const journal = fleet.wholeJournal();
  const linesOf = Map.groupBy(journal, ({ runId }) => runId);
  await inTurns(answered, 16, async (one, i) => {
    const name = `${one.call.token} (${one.era})`;
    if (one.result === undefined) return void lost.push(`${name}: ${one.reason}`);
    const { id, attempt } = runOf(one.result);
    const said = textOf(one.result);
    const run = (await fleet.run(id)) as unknown as ShownRun;
    if (one.result.isError === true || run.state !== 'succeeded')
      return void lost.push(`${name}: ${said}; its run ${id} is ${run.state}`);
    // Sent by another host, which in half of the cases has the other era.
    const again = await hosts[(i + 1) % hosts.length]!.call(one.call, Date.now() + 30_000);
    const repeated = again.result === undefined ? again.reason : textOf(again.result);
    if (textOf(run.result!) !== said || repeated !== said || run.attempt !== attempt)
      completedTwice.push(`${name}: ${said}, then ${repeated}; its run ${id} has ${textOf(run.result!)}`);
    const ends = (linesOf.get(id) ?? []).filter(({ what }) => what === 'end');
    if (!ends.some((end) => end.attempt === attempt))
      completedTwice.push(`${name}: no body of attempt ${attempt} completed`);
    endsNotRecorded += ends.filter((end) => end.attempt !== attempt).length;
    if (one.brokenAt === undefined) return;
    reattached.push(one.gotAt - one.brokenAt);
    afterEnd.push(one.gotAt - Math.max(one.brokenAt, Date.parse(run.finished_at)));
  });
  const kept = await Promise.all(hosts.map((host) => host.hasSession()));
  const runs = await allRuns(fleet);
  return {
    calls: answered.length,
    faults: faults.count,
    endedByThemselves: faults.endedByThemselves,
    lost,
    completedTwice,
    surplusRuns: runs.length - answered.length,
    unfinishedRuns: runs.filter(({ state }) => state !== 'succeeded').length,
    sessions: hosts.filter(({ era }) => era === 'legacy').length,
    sessionsLost:
      hosts.reduce((sum, { sessionsLost }) => sum + sessionsLost, 0) +
      kept.filter((isKept) => !isKept).length,
    broken: answered.filter(({ sent }) => sent > 1).length,
    bodiesRerun: [...linesOf.values()].reduce(
      (sum, lines) => sum + Math.max(0, lines.filter(({ what }) => what === 'start').length - 1),
      0,
    ),
    endsNotRecorded,
    reattachMs: quantiles(reattached),
    afterEndMs: quantiles(afterEnd),
    startMs: quantiles(faults.startMs),
  };
}

async function allRuns(fleet: Fleet): Promise<{ state: string }[]> {
  const runs: { state: string }[] = [];
  let cursor: unknown;
  do {
    const { body } = await fleet.api(
      `/runs?limit=200${cursor === undefined ? '' : `&cursor=${String(cursor)}`}`,
    );
    runs.push(...(body['runs'] as { state: string }[]));
    cursor = body['cursor'];
  } while (cursor !== undefined);
  return runs;
}

function quantiles(values: readonly number[]): Quantiles {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share: number): number =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return { p50: at(0.5), p99: at(0.99), max: sorted.at(-1) ?? 0 };
}
