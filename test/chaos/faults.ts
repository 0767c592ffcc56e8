import { setTimeout as sleep } from 'node:timers/promises';
import type { Balancer } from '../system/balancer.ts';
import type { Fleet } from '../system/fleet.ts';
import { startWorker, type Service } from '../system/service.ts';
import { pick } from './random.ts';
import type { ChaosStore } from './stores.ts';

export interface FaultCount {
  gatewaysKilled: number;
  workersKilled: number;
  workersStopped: number;
  gatewaysStopped: number;
  storeRestarts: number;
  storeConnectionsCut: number;
  hostConnectionsCut: number;
}

export interface FaultParts {
  readonly fleet: Fleet;
  readonly store: ChaosStore;
  readonly balancer: Balancer;
  readonly random: () => number;
  readonly seconds: number;
  readonly leaseMs: number;
  /** How many gateways, and how many workers, are left running. */
  readonly spared: number;
}

interface Place {
  readonly kind: 'gateway' | 'worker';
  readonly number: number;
}

/**
 * What goes wrong in a storm. Each second one gateway or worker is killed and started again; in
 * between, workers and a gateway are stopped for longer than a lease, the store is restarted once,
 * and connections are cut. The seed says which and when.
 */
export class Faults {
  readonly count: FaultCount = {
    gatewaysKilled: 0,
    workersKilled: 0,
    workersStopped: 0,
    gatewaysStopped: 0,
    storeRestarts: 0,
    storeConnectionsCut: 0,
    hostConnectionsCut: 0,
  };
  /** Services that ended though nobody killed them, with the last that they said. */
  readonly endedByThemselves: string[] = [];
  /** How long each service took from its start to being ready. */
  readonly startMs: number[] = [];
  readonly #parts: FaultParts;
  /** Places whose service is being started, or is stopped. */
  readonly #busy = new Set<string>();
  readonly #pending = new Set<Promise<void>>();

  constructor(parts: FaultParts) {
    this.#parts = parts;
  }

  /** Resolves when all is well again. */
  async run(): Promise<void> {
    const { seconds, random, store } = this.#parts;
    const at = (share: number): number => Math.max(1, Math.floor(seconds * share));
    const begunAt = performance.now();
    const stops = [
      { due: at(0.2), kind: 'worker' },
      { due: at(0.35), kind: 'gateway' },
      { due: at(0.7), kind: 'worker' },
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
    }
    while (this.#pending.size > 0) await Promise.all(this.#pending);
    this.#reviveEnded();
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  #kill(): void {
    const place = pick(this.#free(), this.#parts.random);
    if (place === undefined) return;
    this.count[place.kind === 'gateway' ? 'gatewaysKilled' : 'workersKilled']++;
    this.#background(
      this.#hold(place, async (service) => {
        await service.kill();
        await this.#start(place);
      }),
    );
  }

  #stop(kind: Place['kind']): boolean {
    const place = pick(
      this.#free().filter((free) => free.kind === kind),
      this.#parts.random,
    );
    if (place === undefined) return false;
    this.count[kind === 'gateway' ? 'gatewaysStopped' : 'workersStopped']++;
    this.#background(
      this.#hold(place, async (service) => {
        service.send('SIGSTOP');
        await sleep(this.#parts.leaseMs * 1.5);
        service.send('SIGCONT');
      }),
    );
    return true;
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
        else fleet.workers[place.number] = await startWorker(fleet.env);
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
    const { gateways, workers } = this.#parts.fleet;
    return [
      ...gateways.map((_, number) => ({ kind: 'gateway' as const, number })),
      ...workers.map((_, number) => ({ kind: 'worker' as const, number })),
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
    const { gateways, workers } = this.#parts.fleet;
    return kind === 'gateway' ? gateways[number]!.service : workers[number]!;
  }
}

const nameOf = ({ kind, number }: Place): string => `${kind} ${number}`;
