import { setTimeout as sleep } from 'node:timers/promises';
import type { Balancer } from '../system/balancer.ts';
import type { Fleet } from '../system/fleet.ts';
import { startConnector, startWorker, type Service } from '../system/service.ts';
import type { TcpProxy, UpstreamProcess } from '../servers/index.ts';
import { pick } from './random.ts';
import type { ChaosStore } from './stores.ts';

export interface FaultCount {
  gatewaysKilled: number;
  workersKilled: number;
  connectorsKilled: number;
  workersStopped: number;
  gatewaysStopped: number;
  connectorsStopped: number;
  storeRestarts: number;
  storeConnectionsCut: number;
  hostConnectionsCut: number;
  upstreamConnectionsCut: number;
  upstreamsKilled: number;
  upstreamHeldBack: number;
}

/** An upstream that the storm breaks too. */
export interface BreakableUpstream {
  readonly process: UpstreamProcess;
  /** The network between the connectors and the upstream. */
  readonly network: TcpProxy;
}

export interface FaultParts {
  readonly fleet: Fleet;
  readonly store: ChaosStore;
  readonly balancer: Balancer;
  readonly random: () => number;
  readonly seconds: number;
  readonly leaseMs: number;
  /** Minimum number of running gateways, of workers and of connectors. */
  readonly spared: number;
  readonly upstreams?: readonly BreakableUpstream[];
}

/** A kill of a service, or a stop for longer than a lease, and its time. */
export interface Struck {
  readonly kind: 'gateway' | 'worker' | 'connector' | 'upstream';
  readonly how: 'killed' | 'stopped';
  /** On the clock of `Date.now`. */
  readonly at: number;
  /** Time at which it, or its replacement, ran again. */
  until: number;
}

interface Place {
  readonly kind: 'gateway' | 'worker' | 'connector';
  readonly number: number;
}

/**
 * The faults of a storm. Each second it kills one gateway or worker and starts it again. In between, it
 * stops workers and a gateway for longer than a lease, restarts the store once, and cuts connections.
 * With upstreams, it also kills connectors, stops two owners instead of a second worker, and breaks the
 * connections and processes of the upstreams. The seed determines the targets and times.
 */
export class Faults {
  readonly count: FaultCount = {
    gatewaysKilled: 0,
    workersKilled: 0,
    connectorsKilled: 0,
    workersStopped: 0,
    gatewaysStopped: 0,
    connectorsStopped: 0,
    storeRestarts: 0,
    storeConnectionsCut: 0,
    hostConnectionsCut: 0,
    upstreamConnectionsCut: 0,
    upstreamsKilled: 0,
    upstreamHeldBack: 0,
  };
  readonly struck: Struck[] = [];
  /** Ended connectors, kept for their logs. */
  readonly formerConnectors: Service[] = [];
  /** Services that ended without a kill, with their last output. */
  readonly endedByThemselves: string[] = [];
  /** Time of each service from its start until it was ready. */
  readonly startMs: number[] = [];
  readonly #parts: FaultParts;
  /** Places whose service is starting, or is stopped. */
  readonly #busy = new Set<string>();
  readonly #pending = new Set<Promise<void>>();
  readonly #upstreams: readonly BreakableUpstream[];
  readonly #killing = new Set<UpstreamProcess>();

  constructor(parts: FaultParts) {
    this.#parts = parts;
    this.#upstreams = parts.upstreams ?? [];
  }

  /** Resolves when every service is ready again. */
  async run(): Promise<void> {
    const { seconds, random, store } = this.#parts;
    const at = (share: number): number => Math.max(1, Math.floor(seconds * share));
    const begunAt = performance.now();
    const stops = [
      { due: at(0.2), kind: 'worker' },
      { due: at(0.35), kind: this.#upstreams.length > 0 ? 'connector' : 'gateway' },
      { due: at(0.6), kind: this.#upstreams.length > 0 ? 'connector' : 'worker' },
    ] as const;
    let stopped = 0;
    for (let second = 1; second < seconds; second++) {
      await sleep(Math.max(0, begunAt + second * 1_000 - performance.now()));
      this.#reviveEnded();
      // If no service can be stopped in a second, the next second makes up for it.
      const stop = stops[stopped];
      if (stop !== undefined && second >= stop.due && this.#stop(stop.kind)) stopped++;
      if (second === at(0.5) && store.restart !== undefined) {
        this.count.storeRestarts++;
        this.#background(store.restart());
      }
      this.#kill();
      await sleep(random() * 500);
      if (random() < 0.3) this.#cut();
      this.#breakUpstream(second);
    }
    while (this.#pending.size > 0) await Promise.all(this.#pending);
    this.#reviveEnded();
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  #kill(): void {
    const place = pick(this.#free(), this.#parts.random);
    if (place === undefined) return;
    this.count[`${place.kind}sKilled`]++;
    this.#background(
      this.#hold(place, async (service) => {
        const struck = this.#strike(place.kind, 'killed');
        await service.kill();
        if (place.kind === 'connector') this.formerConnectors.push(service);
        await this.#start(place);
        struck.until = Date.now();
      }),
    );
  }

  #stop(kind: Place['kind']): boolean {
    const free = this.#free().filter((place) => place.kind === kind);
    // Among connectors, strikes the one that sends.
    const place = kind === 'connector' ? this.#owner(free) : pick(free, this.#parts.random);
    if (place === undefined) return false;
    this.count[`${kind}sStopped`]++;
    this.#background(
      this.#hold(place, async (service) => {
        const struck = this.#strike(kind, 'stopped');
        service.send('SIGSTOP');
        await sleep(this.#parts.leaseMs * 1.5);
        service.send('SIGCONT');
        struck.until = Date.now();
      }),
    );
    return true;
  }

  #strike(kind: Struck['kind'], how: Struck['how']): Struck {
    const struck: Struck = { kind, how, at: Date.now(), until: Infinity };
    this.struck.push(struck);
    return struck;
  }

  /** The connector that sent a call last. */
  #owner(among: readonly Place[]): Place | undefined {
    const lastSent = (place: Place): string =>
      /.*"time":"([^"]+)".*"msg":"call dispatched"/s.exec(this.#at(place).stdout)?.[1] ?? '';
    return among.reduce<Place | undefined>(
      (last, place) => (last === undefined || lastSent(place) > lastSent(last) ? place : last),
      undefined,
    );
  }

  /** Cuts its connections in some seconds, delays its bytes in others, and kills it in every tenth. */
  #breakUpstream(second: number): void {
    const { random } = this.#parts;
    const upstream = pick(this.#upstreams, random);
    if (upstream === undefined) return;
    const { process, network } = upstream;
    const what = random();
    if (second % 10 === 5) {
      if (this.#killing.has(process)) return;
      this.count.upstreamsKilled++;
      this.#killing.add(process);
      const struck = this.#strike('upstream', 'killed');
      this.#background(
        process
          .kill()
          .then(() => process.restart())
          .finally(() => {
            struck.until = Date.now();
            this.#killing.delete(process);
          }),
      );
    } else if (what < 0.2) {
      this.count.upstreamConnectionsCut += network.connections;
      network.cut();
    } else if (what < 0.5) {
      // Kills then meet calls whose bytes have left but have not arrived.
      this.count.upstreamHeldBack++;
      network.blackhole(true);
      this.#background(sleep(600).then(() => network.blackhole(false)));
    }
  }

  #cut(): void {
    const { random, store, balancer } = this.#parts;
    if (store.network !== undefined && random() < 0.5) {
      this.count.storeConnectionsCut += store.network.connections;
      store.network.cut();
    } else {
      this.count.hostConnectionsCut += balancer.connections;
      balancer.cut();
    }
  }

  #reviveEnded(): void {
    for (const place of this.#places()) {
      const service = this.#at(place);
      if (service.isRunning || this.#busy.has(nameOf(place))) continue;
      this.#note(place, service);
      this.#background(this.#hold(place, () => this.#start(place)));
    }
  }

  /** Starts a service like a supervisor: again, if it ends at once. */
  async #start(place: Place): Promise<void> {
    const { fleet } = this.#parts;
    for (let tries = 1; ; tries++) {
      try {
        const begunAt = performance.now();
        if (place.kind === 'gateway') await fleet.restartGateway(place.number);
        else if (place.kind === 'worker') fleet.workers[place.number] = await startWorker(fleet.env);
        else fleet.connectors[place.number] = await startConnector(fleet.env);
        this.startMs.push(Math.round(performance.now() - begunAt));
        return;
      } catch (error) {
        this.endedByThemselves.push(`${nameOf(place)}, while starting: ${String(error).slice(-1_000)}`);
        if (tries === 5) throw error;
      }
    }
  }

  #note(place: Place, service: Service): void {
    this.endedByThemselves.push(
      `${nameOf(place)}: ${`${service.stdout}${service.stderr}`.trim().split('\n').slice(-3).join('\n')}`,
    );
  }

  async #hold(place: Place, use: (service: Service) => Promise<void>): Promise<void> {
    this.#busy.add(nameOf(place));
    try {
      await use(this.#at(place));
    } finally {
      this.#busy.delete(nameOf(place));
    }
  }

  #background(work: Promise<void>): void {
    const kept = work.finally(() => this.#pending.delete(kept));
    this.#pending.add(kept);
    kept.catch(() => {});
  }

  #places(): Place[] {
    const { gateways, workers, connectors } = this.#parts.fleet;
    return [
      ...gateways.map((_, number) => ({ kind: 'gateway' as const, number })),
      ...workers.map((_, number) => ({ kind: 'worker' as const, number })),
      ...connectors.map((_, number) => ({ kind: 'connector' as const, number })),
    ];
  }

  /** The undisturbed services, without the last ones of a kind, which are spared. */
  #free(): Place[] {
    const free = this.#places().filter(
      (place) => !this.#busy.has(nameOf(place)) && this.#at(place).isRunning,
    );
    return free.filter(({ kind }) => free.filter((other) => other.kind === kind).length > this.#parts.spared);
  }

  #at({ kind, number }: Place): Service {
    const { gateways, workers, connectors } = this.#parts.fleet;
    if (kind === 'gateway') return gateways[number]!.service;
    return (kind === 'worker' ? workers : connectors)[number]!;
  }
}

const nameOf = ({ kind, number }: Place): string => `${kind} ${number}`;
