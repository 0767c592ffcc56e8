import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { randomFrom } from '../chaos/random.ts';
import { startUpstreamProcess, tool, type UpstreamProcess } from '../servers/index.ts';
import { openHost } from '../system/host.ts';
import { until } from '../system/service.ts';
import { toolsOf } from '../system/upstream-fleet.ts';
import { services } from '../helm/chart.ts';
import { lookBack, type Aftermath } from './aftermath.ts';
import { Cluster } from './cluster.ts';
import { Crowd, type Made, type PhaseTimes, type Temper } from './crowd.ts';
import { keys, release } from './release.ts';
import { fleetStores, type FleetStore, type StoreKind } from './stores.ts';
import { judge, type PhaseVerdict } from './verdict.ts';

export interface DriveOptions {
  readonly store: StoreKind;
  readonly sticky: boolean;
  readonly hosts: number;
  readonly seed: number;
  /** Folder for volumes and output of pods. */
  readonly folder: string;
}

/** An event of the release while hosts call. */
interface Phase {
  readonly name: string;
  /** Whether hosts must not notice anything. */
  readonly isCalm: boolean;
  act(cluster: Cluster, store: FleetStore): Promise<void>;
}

const rollings: readonly Phase[] = services.map((service) => ({
  name: `rolling restart of ${service}s`,
  isCalm: true,
  act: (cluster) => cluster.rollingRestart(service),
}));

const faults: readonly Phase[] = [
  ...services.map((service) => ({
    name: `kill -9 of each ${service}`,
    isCalm: false,
    act: (cluster: Cluster) => cluster.killEach(service),
  })),
  { name: 'restart of the store', isCalm: false, act: (_, store) => store.restart() },
];
const failover: Phase = {
  name: 'forced failover of Postgres',
  isCalm: false,
  act: (_, store) => store.failOver!(),
};

export interface PhaseReport extends PhaseVerdict {
  readonly name: string;
  readonly isCalm: boolean;
  readonly tookMs: number;
}

export interface DriveReport extends Omit<Aftermath, 'facts'> {
  readonly phases: readonly PhaseReport[];
  readonly sessionsLost: number;
  /** Number of sessions in the stick table of the proxy. */
  readonly remembered: number;
  readonly troubles: readonly string[];
  /** Containers of deleted pods that did not end with exit code 0 within their grace period. */
  readonly badEndings: readonly string[];
  readonly deleted: number;
}

/** Installs the chart on this machine and triggers every event, one after another, while hosts call. */
export async function drive(options: DriveOptions, say: (line: string) => void): Promise<DriveReport> {
  const random = randomFrom(options.seed);
  const journal = join(options.folder, 'journal', 'journal');
  mkdirSync(join(journal, '..'), { recursive: true });
  chmodSync(join(journal, '..'), 0o777);
  let store: FleetStore | undefined;
  let upstream: UpstreamProcess | undefined;
  let cluster: Cluster | undefined;
  try {
    store = await fleetStores[options.store]();
    upstream = await startUpstreamProcess({
      era: 'modern',
      pages: [[tool('pay', { delayMs: 50 }), tool('look', { delayMs: 20 })]],
    });
    const { sticky, folder } = options;
    cluster = await Cluster.start({
      objects: release({ storeUrl: store.url, upstreamUrl: upstream.url, sticky, journal, folder }),
      folder: join(folder, 'pods'),
      sticky,
    });
    const url = `${cluster.proxy.base}/mcp`;
    const first = await openHost('modern', url, keys.desk);
    await until(async () => (await toolsOf(first)).some(({ name }) => name === 'shop__pay'), 100);
    say(`${services.flatMap((service) => cluster!.pods(service)).length} pods are ready`);

    const made: Made[] = [];
    const times = new Map<string, PhaseTimes>();
    let sessionsLost = 0;
    const crowd = async (name: string, temper: Temper, phases: readonly Phase[]): Promise<void> => {
      const hosts = await Crowd.open(name, temper, { hosts: options.hosts, url, random });
      for (const phase of phases) {
        times.set(phase.name, await hosts.during(phase.name, () => phase.act(cluster!, store!)));
        say(`${phase.name}: ${hosts.made.filter((call) => call.phase === phase.name).length} calls`);
      }
      made.push(...hosts.made);
      sessionsLost += hosts.sessionsLost;
      await hosts.close();
    };
    await crowd('a', 'plain', rollings);
    const broken = [...faults, ...(store.failOver === undefined ? [] : [failover])];
    await crowd('b', 'stubborn', broken);
    const remembered = await cluster.proxy.remembered();
    const executions = upstream.executions();
    const { facts, ...rest } = await lookBack({ made, base: cluster.proxy.base, journal, executions });
    return {
      ...rest,
      phases: [...rollings, ...broken].map(({ name, isCalm }) => {
        const { tookMs, overAt } = times.get(name)!;
        return { ...judge(facts.get(name) ?? [], { isCalm, overAt }), name, isCalm, tookMs };
      }),
      sessionsLost,
      remembered,
      troubles: cluster.troubles,
      badEndings: cluster.endings.filter((ending) => !ending.endsWith(': 0')),
      deleted: cluster.endings.length,
    };
  } finally {
    await cluster?.dispose();
    await upstream?.stop();
    await store?.close();
  }
}
