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

/** An upstream that is broken too. */
export interface BreakableUpstream {
  readonly process: UpstreamProcess;
  /** What is between the connectors and it. */
  readonly network: TcpProxy;
}

export interface FaultParts {
  readonly fleet: Fleet;
  readonly store: ChaosStore;
  readonly balancer: Balancer;
  readonly random: () => number;
  readonly seconds: number;
  readonly leaseMs: number;
  /** How many gateways, how many workers and how many connectors are left running. */
  readonly spared: number;
  readonly upstreams?: readonly BreakableUpstream[];
}

/** A service that was killed, or stopped for longer than a lease, and when. */
export interface Struck {
  readonly kind: 'gateway' | 'worker' | 'connector' | 'upstream';
  readonly how: 'killed' | 'stopped';
  /** On the clock of `Date.now`. */
  readonly at: number;
  /** When it ran again, or another in its place. */
  until: number;
}

interface Place {
  readonly kind: 'gateway' | 'worker' | 'connector';
  readonly number: number;
}

/**
 * What goes wrong in a storm. Each second one gateway or worker is killed and started again; in
 * between, workers and a gateway are stopped for longer than a lease, the store is restarted once,
 * and connections are cut. Where there are upstreams, connectors are killed too, two owners are stopped
 * instead of a second worker, and the upstreams' connections and processes are broken. The seed says
 * which and when.
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
  /** Connectors that are no more, for what they logged. */
  readonly formerConnectors: Service[] = [];
  /** Services that ended though nobody killed them, with the last that they said. */
  readonly endedByThemselves: string[] = [];
  /** How long each service took from its start to being ready. */
  readonly startMs: number[] = [];
  readonly #parts: FaultParts;
  /** Places whose service is being started, or is stopped. */
  readonly #busy = new Set<string>();
  readonly #pending = new Set<Promise<void>>();
  readonly #upstreams: readonly BreakableUpstream[];
  readonly #killing = new Set<UpstreamProcess>();

  constructor(parts: FaultParts) {
    this.#parts = parts;
    this.#upstreams = parts.upstreams ?? [];
  }

  /** Resolves when all is well again. */
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
      // A second in which none can be stopped is made up for in the next.
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
    // Of the connectors the one that sends.
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

  /** Some seconds its connections are cut, in some its bytes are held back, and in every tenth it is killed. */
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
      // So that kills meet calls whose bytes have left and have not come.
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

  /** Starts a service as a supervisor does: again, when it ends at once. */
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
        this.endedByThemselves.push(`${nameOf(place)}, as it started: ${String(error).slice(-1_000)}`);
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

  /** What runs undisturbed, without the last of a kind that are spared. */
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
