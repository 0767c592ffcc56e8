import { startBalancer, type Balancer } from '../system/balancer.ts';
import { keys, type Fleet } from '../system/fleet.ts';
import { errorNameOf, runOf, type ToolResult } from '../system/host.ts';
import type { Service } from '../system/service.ts';
import { UpstreamFleet } from '../system/upstream-fleet.ts';
import { startTcpProxy, startUpstreamProcess, tool, type UpstreamScript } from '../servers/index.ts';
import { Faults, type BreakableUpstream, type FaultCount } from './faults.ts';
import { inTurns } from './in-turns.ts';
import { pick, randomFrom } from './random.ts';
import { sendDuring } from './sending.ts';
import type { StormOptions } from './storm.ts';
import { chaosStores } from './stores.ts';
import { StubbornHost, type Answered, type StubbornCall } from './stubborn-host.ts';
import { judge, type CallFacts, type UpstreamVerdict } from './upstream-verdict.ts';

/** `calls` counts the writes. */
export interface UpstreamStormOptions extends StormOptions {
  readonly reads: number;
  readonly connectors: number;
}

export interface UpstreamStormReport {
  readonly faults: FaultCount;
  readonly endedByThemselves: readonly string[];
  /** Calls that had to be sent more than once. */
  readonly broken: number;
  readonly verdict: UpstreamVerdict;
}

const leaseMs = 2_000;
/** Time for which a host waits for an answer before it sends again. */
const patienceMs = 10_000;

/** Two servers: one accepts many calls at once, the other one at a time, so that calls wait in its queue. */
const servers: Readonly<
  Record<string, { readonly concurrency: number; readonly script: Partial<UpstreamScript> }>
> = {
  shop: {
    concurrency: 16,
    script: {
      era: 'modern',
      pages: [[tool('pay'), tool('pay_slowly', { delayMs: 1_500 }), tool('look', { delayMs: 200 })]],
    },
  },
  till: {
    concurrency: 1,
    script: { era: 'legacy', pages: [[tool('pay', { delayMs: 60 }), tool('look', { delayMs: 20 })]] },
  },
};
const writeTools = ['shop__pay', 'shop__pay_slowly', 'till__pay'];
const readTools = ['shop__look', 'till__look'];

/** Starts a fleet with upstreams, breaks all of it while hosts send writes and reads, and counts executions at the upstreams. */
export async function upstreamStorm(
  options: UpstreamStormOptions,
  say: (line: string) => void,
): Promise<UpstreamStormReport> {
  const openStore = chaosStores[options.store];
  if (openStore === undefined)
    throw new Error(`--store ${options.store} is unknown; use one of ${Object.keys(chaosStores).join(', ')}`);
  const store = await openStore();
  const upstreams = new Map<string, BreakableUpstream>();
  let own: UpstreamFleet | undefined;
  let balancer: Balancer | undefined;
  try {
    for (const [id, { script }] of Object.entries(servers)) {
      const process = await startUpstreamProcess(script);
      const network = await startTcpProxy({ port: Number(new URL(process.url).port) });
      upstreams.set(id, { process, network });
    }
    const { gateways, workers, connectors } = options;
    own = await UpstreamFleet.start(
      'sqlite',
      {
        ...(store.url !== undefined && { HOLDFAST_STORE: store.url }),
        HOLDFAST_LEASE_MS: String(leaseMs),
        HOLDFAST_CONNECTOR_LEASE_MS: String(leaseMs),
        // Connectors log a won mark at this level.
        HOLDFAST_LOG_LEVEL: 'debug',
      },
      { gateways, workers, connectors },
    );
    const { fleet } = own;
    const first = await fleet.host('modern');
    for (const [id, { network }] of upstreams) {
      const entry = {
        id,
        url: `http://127.0.0.1:${network.port}/mcp`,
        concurrency: servers[id]!.concurrency,
        overrides: { look: 'read' },
      };
      await own.connect(entry, first);
    }
    balancer = await startBalancer(
      fleet.gateways.map(({ base }) => base),
      { onRefusal: 'next', probeEveryMs: 500 },
    );
    const random = randomFrom(options.seed);
    const { seconds, spared } = options;
    const faults = new Faults({
      ...{ fleet, store, balancer, random, seconds, leaseMs, spared },
      upstreams: [...upstreams.values()],
    });
    const hosts = Array.from(
      { length: options.hosts },
      (_, i) =>
        new StubbornHost(i % 2 === 0 ? 'legacy' : 'modern', `${balancer!.base}/mcp`, keys.desk, patienceMs),
    );
    await Promise.all(hosts.map((host) => host.open()));
    const calls = makeCalls(options, randomFrom(options.seed + 1));
    const answered = await sendDuring(faults, { hosts, calls, seconds, say });
    say('        the storm is over; what the upstreams executed is counted');
    return {
      faults: faults.count,
      endedByThemselves: faults.endedByThemselves,
      broken: answered.filter(({ sent }) => sent > 1).length,
      verdict: await count({ fleet, answered, faults, upstreams: [...upstreams.values()] }),
    };
  } finally {
    await balancer?.close();
    await own?.dispose();
    for (const { process, network } of upstreams.values()) {
      await network.close();
      await process.stop();
    }
    await store.close();
  }
}

/** Writes and reads in random order. */
function makeCalls(
  { calls, reads, seed }: UpstreamStormOptions,
  random: () => number,
): (StubbornCall & { readonly toolClass: 'read' | 'write' })[] {
  let writesLeft = calls;
  return Array.from({ length: calls + reads }, (_, i) => {
    const toolClass = random() < writesLeft / (calls + reads - i) ? 'write' : 'read';
    if (toolClass === 'write') writesLeft--;
    return {
      toolClass,
      tool: pick(toolClass === 'write' ? writeTools : readTools, random)!,
      args: { n: i },
      token: `${toolClass}-${seed}-${i}`,
    };
  });
}

interface ShownRun {
  readonly state: string;
  readonly attempt: number;
  readonly submitted_at: string;
  readonly started_at: string | null;
  readonly finished_at: string | null;
  readonly error?: { readonly name: string; readonly outcome: string };
}

interface Aftermath {
  readonly fleet: Fleet;
  readonly answered: readonly Answered[];
  readonly faults: Faults;
  readonly upstreams: readonly BreakableUpstream[];
}

async function count({ fleet, answered, faults, upstreams }: Aftermath): Promise<UpstreamVerdict> {
  const said = readConnectors([...faults.formerConnectors, ...fleet.connectors]);
  const executed = Map.groupBy(
    upstreams.flatMap(({ process }) => process.executions()),
    ({ key }) => key,
  );
  const facts: CallFacts[] = [];
  await inTurns(answered, 16, async ({ call, result, reason, gotAt }) => {
    const runId = result && runOf(result).id;
    const run = runId === undefined ? undefined : ((await fleet.run(runId)) as unknown as ShownRun);
    const time = (text: string | null | undefined): number =>
      text === undefined || text === null ? Infinity : Date.parse(text);
    facts.push({
      token: call.token,
      toolClass: readTools.includes(call.tool) ? 'read' : 'write',
      got: result && outcomeOf(result),
      reason,
      ended:
        run?.state === 'succeeded'
          ? success
          : run?.error && { name: run.error.name, outcome: run.error.outcome },
      submittedAt: time(run?.submitted_at),
      startedAt: time(run?.started_at),
      finishedAt: time(run?.finished_at),
      attempt: run?.attempt ?? 0,
      gotAt,
      dispatchedAt: runId === undefined ? undefined : said.dispatchedAt.get(runId),
      isUnheard: runId !== undefined && said.unheard.has(runId),
      executedAt: (executed.get(runId ?? '') ?? []).map(({ at }) => at),
    });
  });
  const known = new Set(answered.map(({ result }) => result && runOf(result).id));
  const strays = [...executed.keys()].filter((key) => !known.has(key)).length;
  return judge(facts, faults.struck, strays);
}

const success = { name: 'succeeded', outcome: 'ran' };

function outcomeOf(result: ToolResult): { name: string; outcome: string } {
  const error = result._meta?.['holdfast/error'];
  return error === undefined ? success : { name: errorNameOf(result)!, outcome: error.outcome };
}

/** The log lines of connectors about runs. Ignores the half line that a killed connector may leave. */
function readConnectors(connectors: readonly Service[]): {
  readonly dispatchedAt: ReadonlyMap<string, number>;
  readonly unheard: ReadonlySet<string>;
} {
  const dispatchedAt = new Map<string, number>();
  const unheard = new Set<string>();
  for (const { stdout } of connectors) {
    for (const line of stdout.split('\n')) {
      if (!line.endsWith('}')) continue;
      if (!/"msg":"call (dispatched|failed)"/.test(line)) continue;
      const { msg, runId, time } = JSON.parse(line) as { msg: string; runId: string; time: string };
      if (msg === 'call dispatched') dispatchedAt.set(runId, Date.parse(time));
      else unheard.add(runId);
    }
  }
  return { dispatchedAt, unheard };
}
