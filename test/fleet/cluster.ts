import { mkdirSync } from 'node:fs';
import { startHaproxy, type Haproxy } from '../servers/index.ts';
import { until } from '../system/service.ts';
import { podOf, services, type KubernetesObject, type PodSpec, type ServiceName } from '../helm/chart.ts';
import { Pod } from './pod.ts';

export interface ClusterOptions {
  /** Objects of the release, and those that its user created beside it. */
  readonly objects: readonly KubernetesObject[];
  readonly folder: string;
  readonly sticky: boolean;
}

interface Deployment {
  readonly replicas: number;
  /** Maximum of pods in excess of the replicas during a replacement. */
  readonly maxSurge: number;
  readonly pod: PodSpec;
  readonly pods: Pod[];
}

/** Addresses of gateways that the proxy checks. */
const gatewayPlaces = 10;

/**
 * The Deployments of a rendered release on this machine, behind a real proxy that checks `/readyz` of each gateway,
 * as the endpoints of a Service follow readiness.
 */
export class Cluster {
  readonly proxy: Haproxy;
  /** The ends of the containers of deleted pods, by pod. */
  readonly endings: string[] = [];
  readonly #options: ClusterOptions;
  readonly #net: string;
  readonly #deployments: ReadonlyMap<ServiceName, Deployment>;
  readonly #gone: Pod[] = [];
  #made = 0;

  /** Resolves when every pod is ready and the proxy routes to the gateways. */
  static async start(options: ClusterOptions): Promise<Cluster> {
    // Other users of this machine may run one too.
    const part = (): number => 10 + Math.floor(Math.random() * 200);
    const net = `127.${part()}.${part()}`;
    const proxy = await startHaproxy({
      file: options.sticky ? 'haproxy-sticky.cfg' : 'haproxy.cfg',
      places: Array.from({ length: gatewayPlaces }, (_, i) => ({
        host: `${net}.${i + 1}`,
        port: 8000,
        opsPort: 9464,
      })),
    });
    const cluster = new Cluster(options, net, proxy);
    try {
      mkdirSync(options.folder, { recursive: true });
      for (const service of services) {
        const { replicas } = cluster.#of(service);
        for (let i = 0; i < replicas; i++) cluster.#add(service);
      }
      await until(() => services.every((service) => cluster.pods(service).every((pod) => pod.isReady)), 100);
      await cluster.#known();
    } catch (error) {
      await cluster.dispose();
      throw error;
    }
    return cluster;
  }

  private constructor(options: ClusterOptions, net: string, proxy: Haproxy) {
    this.#options = options;
    this.#net = net;
    this.proxy = proxy;
    this.#deployments = new Map(services.map((service) => [service, deploymentOf(options.objects, service)]));
  }

  pods(service: ServiceName): readonly Pod[] {
    return this.#of(service).pods;
  }

  /** Containers that ended without a kill by this test. */
  get troubles(): readonly string[] {
    return [...services.flatMap((service) => this.pods(service)), ...this.#gone].flatMap(
      ({ troubles }) => troubles,
    );
  }

  /**
   * Replaces every pod according to the strategy of the Deployment: starts new pods up to the surge, and deletes an old
   * pod when a new one is ready. Resolves when the last old pod has ended.
   */
  async rollingRestart(service: ServiceName): Promise<void> {
    const { pods, maxSurge } = this.#of(service);
    const old = [...pods];
    const deletions: Promise<void>[] = [];
    while (old.length > 0) {
      const turn = old.splice(0, maxSurge);
      const fresh = turn.map(() => this.#add(service));
      await until(() => fresh.every((pod) => pod.isReady), 50);
      for (const pod of turn) deletions.push(this.#delete(service, pod));
    }
    await Promise.all(deletions);
  }

  /** Kills the container of each pod, one after another, each after the previous one is ready again. */
  async killEach(service: ServiceName): Promise<void> {
    for (const pod of this.pods(service)) {
      await pod.kill();
      await until(() => pod.isReady, 50);
      if (service === 'gateway') await this.#known();
    }
  }

  async dispose(): Promise<void> {
    await Promise.all(services.flatMap((service) => this.pods(service)).map((pod) => pod.dispose()));
    await this.proxy.stop();
  }

  #of(service: ServiceName): Deployment {
    return this.#deployments.get(service)!;
  }

  /** Waits until the proxy routes to every gateway. */
  async #known(): Promise<void> {
    await until(async () => (await this.proxy.ready()).length === this.pods('gateway').length, 100);
  }

  #add(service: ServiceName): Pod {
    const { pod, pods } = this.#of(service);
    const { objects, folder } = this.#options;
    const made = new Pod({
      name: `${service}-${++this.#made}`,
      ip: this.#freeAddress(service),
      spec: pod,
      objects,
      folder,
    });
    pods.push(made);
    return made;
  }

  async #delete(service: ServiceName, pod: Pod): Promise<void> {
    const { pods } = this.#of(service);
    const { code, signal } = await pod.terminate();
    pods.splice(pods.indexOf(pod), 1);
    this.#gone.push(pod);
    this.endings.push(`${pod.name}: ${signal ?? code}`);
  }

  #freeAddress(service: ServiceName): string {
    const taken = services.flatMap((other) => this.pods(other)).map(({ ip }) => ip);
    const first = service === 'gateway' ? 1 : 100;
    for (let i = first; i < (service === 'gateway' ? 1 + gatewayPlaces : 250); i++) {
      if (!taken.includes(`${this.#net}.${i}`)) return `${this.#net}.${i}`;
    }
    throw new Error('no free address');
  }
}

function deploymentOf(objects: readonly KubernetesObject[], service: ServiceName): Deployment {
  const object = objects.find(
    ({ kind, metadata }) =>
      kind === 'Deployment' && metadata.labels['app.kubernetes.io/component'] === service,
  )!;
  const { replicas, strategy } = object.spec as unknown as {
    readonly replicas: number;
    readonly strategy: {
      readonly rollingUpdate: { readonly maxSurge: string | number; readonly maxUnavailable: number };
    };
  };
  const { maxSurge, maxUnavailable } = strategy.rollingUpdate;
  if (maxUnavailable !== 0) throw new Error(`${service}: maxUnavailable ${maxUnavailable} is not supported`);
  const surge = typeof maxSurge === 'number' ? maxSurge : (replicas * parseInt(maxSurge, 10)) / 100;
  return { replicas, maxSurge: Math.ceil(surge), pod: podOf(object)!, pods: [] };
}
