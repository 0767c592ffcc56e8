/**
 * A pod as processes on this machine. It acts as the kubelet for the one container of a rendered pod, with a separate
 * loopback address instead of a separate network.
 *
 * Starting: the container runs, and its startup probe has not succeeded yet. Running: readiness and liveness are
 * probed; a container that ends, or fails its liveness probe, is started again in the same place. Terminating:
 * `terminate` was called; the preStop sleep, SIGTERM, and SIGKILL after the grace period. Gone: the
 * container has ended after that and does not start again.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { chmodSync, chownSync, closeSync, mkdirSync, openSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { root, type Container, type KubernetesObject, type PodSpec } from '../helm/chart.ts';
import { environmentOf } from '../helm/pod-environment.ts';

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
  readonly periodSeconds: number;
  readonly failureThreshold: number;
  readonly timeoutSeconds: number;
}

interface Mount {
  readonly name: string;
  readonly mountPath: string;
}

/** The fields that are read of a rendered pod. */
interface Spec extends PodSpec {
  readonly terminationGracePeriodSeconds: number;
  readonly securityContext: {
    readonly runAsUser: number;
    readonly runAsGroup: number;
    readonly fsGroup: number;
  };
}

interface ServiceContainer extends Container {
  readonly args: readonly string[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly volumeMounts: readonly Mount[];
  readonly startupProbe: Probe;
  readonly readinessProbe: Probe;
  readonly livenessProbe: Probe;
  readonly lifecycle?: { readonly preStop: { readonly sleep: { readonly seconds: number } } };
}

export interface PodOptions {
  readonly name: string;
  readonly ip: string;
  readonly spec: PodSpec;
  /** Objects of the release, and those that its user created beside it. */
  readonly objects: readonly KubernetesObject[];
  /** Folder for volumes, the working directory and logs. */
  readonly folder: string;
}

/** The end of a container. */
export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

const isRoot = process.getuid?.() === 0;

export class Pod {
  readonly name: string;
  readonly ip: string;
  /** File with its output. */
  readonly log: string;
  /** Ends of the container without a kill by this test, including failed liveness probes. */
  readonly troubles: string[] = [];
  readonly #spec: Spec;
  readonly #container: ServiceContainer;
  readonly #env: Readonly<Record<string, string>>;
  readonly #workingDirectory: string;
  #process: ChildProcess | undefined;
  #ended: Promise<Ended> | undefined;
  #isReady = false;
  #isTerminating = false;
  /** Processes that were ended on purpose, so that their end is not reported. */
  #killed: ChildProcess | undefined;

  constructor({ name, ip, spec, objects, folder }: PodOptions) {
    if (spec.containers.length !== 1) throw new Error(`${name}: only pods with one container are supported`);
    this.name = name;
    this.ip = ip;
    this.#spec = spec as Spec;
    this.#container = spec.containers[0] as ServiceContainer;
    if (this.#container.args[0] !== 'node') throw new Error(`${name} runs ${this.#container.args[0]}`);
    const own = join(folder, name);
    mkdirSync(own);
    this.log = join(own, 'log');
    // The working directory of the image: it contains the program and is not writable.
    this.#workingDirectory = join(own, 'app');
    mkdirSync(this.#workingDirectory);
    symlinkSync(join(root, 'apps'), join(this.#workingDirectory, 'apps'));
    const places = new Map<string, string>();
    for (const { name: volume, mountPath } of this.#container.volumeMounts)
      places.set(mountPath, this.#volume(volume, own, objects));
    this.#env = {
      PATH: process.env['PATH'] ?? '',
      TMPDIR: places.get('/tmp')!,
      ...inPlaces(environmentOf(this.#container, { objects, secret, ip }), places, ip),
    };
    void this.#supervise();
  }

  get isReady(): boolean {
    return this.#isReady && !this.#isTerminating;
  }

  get pid(): number | undefined {
    return this.#process?.pid;
  }

  /** Sends SIGKILL, like the kernel when memory runs out. The container starts again. */
  async kill(): Promise<void> {
    this.#isReady = false;
    this.#killed = this.#process;
    this.#process?.kill('SIGKILL');
    await this.#ended;
  }

  /** Deletes the pod. Resolves to the end of its container: a signal if the grace period was too short. */
  async terminate(): Promise<Ended> {
    this.#isTerminating = true;
    const graceMs = this.#spec.terminationGracePeriodSeconds * 1_000;
    const giveUp = setTimeout(() => this.#process?.kill('SIGKILL'), graceMs);
    await sleep((this.#container.lifecycle?.preStop.sleep.seconds ?? 0) * 1_000);
    this.#process?.kill('SIGTERM');
    const ended = await this.#ended!;
    clearTimeout(giveUp);
    return ended;
  }

  /** Ends the pod at once and for good. */
  async dispose(): Promise<void> {
    this.#isTerminating = true;
    this.#process?.kill('SIGKILL');
    await this.#ended;
  }

  async #supervise(): Promise<void> {
    while (!this.#isTerminating) {
      const child = this.#start();
      const over = new AbortController();
      void this.#probe(over.signal);
      const { code, signal } = await this.#ended!;
      over.abort();
      this.#isReady = false;
      if (this.#isTerminating || child === this.#killed) continue;
      this.troubles.push(`${this.name} ended without a kill (${signal ?? code})`);
      // Like the kubelet, which waits longer each time; no service should end twice.
      await sleep(1_000);
    }
  }

  #start(): ChildProcess {
    const log = openSync(this.log, 'a');
    const { runAsUser, runAsGroup } = this.#spec.securityContext;
    const child = spawn(process.execPath, this.#container.args.slice(1), {
      cwd: this.#workingDirectory,
      env: this.#env,
      stdio: ['ignore', log, log],
      ...(isRoot && { uid: runAsUser, gid: runAsGroup }),
    });
    closeSync(log);
    running.add(child);
    this.#process = child;
    this.#ended = new Promise((resolve) => {
      const gone = (ended: Ended): void => {
        running.delete(child);
        resolve(ended);
      };
      child.once('error', () => gone({ code: 127, signal: null }));
      child.once('exit', (code, signal) => gone({ code, signal }));
    });
    return child;
  }

  async #probe(over: AbortSignal): Promise<void> {
    const { startupProbe, readinessProbe, livenessProbe } = this.#container;
    const hasStarted = await this.#probing(startupProbe, over, (isOk) => (isOk ? true : undefined));
    if (hasStarted === undefined) return;
    await Promise.all([
      this.#probing(readinessProbe, over, (isOk, failed) => {
        if (isOk) this.#isReady = true;
        else if (failed >= readinessProbe.failureThreshold) this.#isReady = false;
        return undefined;
      }),
      this.#probing(livenessProbe, over, () => undefined),
    ]);
  }

  /**
   * Probes repeatedly until `judge` returns a verdict. A startup or liveness probe that fails too often kills the
   * container.
   */
  async #probing(
    probe: Probe,
    over: AbortSignal,
    judge: (isOk: boolean, failed: number) => true | undefined,
  ): Promise<true | undefined> {
    const port = this.#container.ports.find(({ name }) => name === probe.httpGet.port)!.containerPort;
    const url = `http://${this.ip}:${port}${probe.httpGet.path}`;
    let failed = 0;
    while (!over.aborted) {
      const isOk = await answersWell(url, probe.timeoutSeconds * 1_000);
      if (over.aborted) return undefined;
      failed = isOk ? 0 : failed + 1;
      if (judge(isOk, failed)) return true;
      if (
        failed >= probe.failureThreshold &&
        probe !== this.#container.readinessProbe &&
        !this.#isTerminating
      ) {
        this.troubles.push(`${this.name}: ${probe.httpGet.path} failed ${failed} times`);
        this.#killed = this.#process;
        this.#process?.kill('SIGKILL');
        return undefined;
      }
      await sleep(probe.periodSeconds * 1_000, undefined, { ref: false });
    }
    return undefined;
  }

  /** The folder that represents a volume: root owns the files of a Secret or ConfigMap, and its group may read them. */
  #volume(name: string, own: string, objects: readonly KubernetesObject[]): string {
    const volume = this.#spec.volumes?.find((candidate) => candidate.name === name) as
      | {
          readonly secret?: { readonly secretName: string; readonly defaultMode?: number };
          readonly configMap?: { readonly name: string };
          readonly hostPath?: { readonly path: string };
          readonly emptyDir?: object;
        }
      | undefined;
    if (volume?.hostPath !== undefined) return volume.hostPath.path;
    const folder = join(own, `volume-${name}`);
    mkdirSync(folder);
    const { runAsUser, fsGroup } = this.#spec.securityContext;
    if (volume?.emptyDir !== undefined) {
      if (isRoot) chownSync(folder, runAsUser, fsGroup);
      return folder;
    }
    const [kind, source] =
      volume?.secret === undefined
        ? ['ConfigMap', volume?.configMap?.name]
        : ['Secret', volume.secret.secretName];
    const object = objects.find((candidate) => candidate.kind === kind && candidate.metadata.name === source);
    if (object === undefined) throw new Error(`${this.name}: volume ${name} needs the ${kind} ${source}`);
    for (const [file, text] of Object.entries(object.stringData ?? object.data ?? {})) {
      const path = join(folder, file);
      writeFileSync(path, text);
      if (isRoot) chownSync(path, 0, fsGroup);
      chmodSync(path, octal(volume?.secret?.defaultMode) ?? 0o644);
    }
    return folder;
  }
}

/** A file mode in the notation of the chart, 0440: octal in the YAML 1.1 of Kubernetes, but parsed here as YAML 1.2. */
function octal(mode: number | undefined): number | undefined {
  return mode === undefined ? undefined : Number.parseInt(String(mode), 8);
}

const running = new Set<ChildProcess>();
// The pods end with this process, whatever ends it.
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

function secret(name: string, key: string): never {
  throw new Error(`no Secret ${name} with the key ${key}`);
}

/** Variables with local mount paths, and the address of the pod for every address. */
function inPlaces(
  env: Readonly<Record<string, string>>,
  places: ReadonlyMap<string, string>,
  ip: string,
): Record<string, string> {
  const mounted = new RegExp(`(?<![\\w/])(${[...places.keys()].join('|')})(?=/|$)`, 'g');
  return Object.fromEntries(
    Object.entries(env).map(([name, value]) => [
      name,
      value
        .replace(mounted, (_, mountPath: string) => places.get(mountPath)!)
        .replace(/^0\.0\.0\.0(?=:|$)/, ip),
    ]),
  );
}

async function answersWell(url: string, withinMs: number): Promise<boolean> {
  try {
    const answer = await fetch(url, {
      headers: { connection: 'close' },
      signal: AbortSignal.timeout(withinMs),
    });
    await answer.arrayBuffer();
    return answer.ok;
  } catch {
    return false;
  }
}
