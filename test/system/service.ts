import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Root of the repository. */
export const root = join(import.meta.dirname, '..', '..');

export type App = 'gateway' | 'worker' | 'connector' | 'standalone';
export type Env = Readonly<Record<string, string>>;

const running = new Set<Service>();

/** One service as a process of its own, started as an operator would. */
export class Service {
  readonly app: App;
  readonly pid: number;
  /** Everything that it printed, as it came. */
  stdout = '';
  stderr = '';
  readonly exited: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
  readonly #child: ChildProcess;
  readonly #watchers = new Set<() => void>();

  /** @param from  where its built files are, as the root of the repository is one */
  constructor(app: App, env: Env, args: readonly string[] = [], cwd: string = root, from: string = root) {
    this.app = app;
    const inherited = { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '' };
    this.#child = spawn(process.execPath, [join(from, 'apps', app, 'dist', 'main.js'), ...args], {
      cwd,
      env: { ...inherited, ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.pid = this.#child.pid!;
    for (const name of ['stdout', 'stderr'] as const) {
      this.#child[name]!.setEncoding('utf8').on('data', (text: string) => {
        this[name] += text;
        for (const watcher of [...this.#watchers]) watcher();
      });
    }
    this.#child.stdin!.on('error', () => {});
    this.exited = new Promise((resolve) => {
      this.#child.once('close', (code, signal) => {
        running.delete(this);
        resolve({ code, signal });
        for (const watcher of [...this.#watchers]) watcher();
      });
    });
    running.add(this);
  }

  get isRunning(): boolean {
    return running.has(this);
  }

  get stdin(): NodeJS.WritableStream {
    return this.#child.stdin!;
  }

  /** Events that it logged, parsed. */
  get log(): readonly Record<string, unknown>[] {
    return `${this.stdout}\n${this.stderr}`
      .split('\n')
      .filter((line) => line.startsWith('{"level"'))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  }

  /** Resolves to the first match in what it printed. Rejects when it ends before that. */
  async printed(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this.stdout) ?? pattern.exec(this.stderr);
      if (match !== null) return match;
      if (!this.isRunning)
        throw new Error(`${this.app} ended before it printed ${pattern}:\n${this.stdout}\n${this.stderr}`);
      await new Promise<void>((resolve) => {
        const watcher = (): void => {
          this.#watchers.delete(watcher);
          resolve();
        };
        this.#watchers.add(watcher);
      });
    }
  }

  send(signal: NodeJS.Signals): void {
    if (this.isRunning) this.#child.kill(signal);
  }

  /** SIGKILL: no chance to tidy; one that is stopped does not run again before it dies. */
  async kill(): Promise<void> {
    this.send('SIGKILL');
    await this.exited;
  }

  /** SIGTERM, and a kill for one that does not go. */
  async stop(): Promise<number | null> {
    this.send('SIGCONT');
    this.send('SIGTERM');
    const giveUp = setTimeout(() => this.send('SIGKILL'), 30_000);
    const { code } = await this.exited;
    clearTimeout(giveUp);
    return code;
  }
}

/** Kills whatever a test file left running. */
export async function stopEverything(): Promise<void> {
  await Promise.all([...running].map((service) => service.kill()));
}

/** A folder of its own, and how to remove it. */
export function scratchFolder(): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), 'holdfast-system-'));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

export interface Listening {
  readonly service: Service;
  /** `http://127.0.0.1:<port>` */
  readonly base: string;
  /** Where `/readyz` and `/metrics` are. */
  readonly ops: string;
}

/** A gateway that is ready to serve. */
export async function startGateway(env: Env): Promise<Listening> {
  const service = new Service('gateway', { HOLDFAST_PORT: '0', HOLDFAST_OPS_PORT: '0', ...env });
  await service.printed(/"msg":"gateway listens"/);
  const { port, opsPort } = service.log.find(({ msg }) => msg === 'gateway listens') as {
    port: number;
    opsPort: number;
  };
  const listening = { service, base: `http://127.0.0.1:${port}`, ops: `http://127.0.0.1:${opsPort}` };
  await ready(listening);
  return listening;
}

/** A worker that serves its tools. */
export async function startWorker(env: Env): Promise<Service> {
  const service = new Service('worker', { HOLDFAST_OPS_PORT: '0', ...env });
  await service.printed(/"msg":"worker serves"/);
  return service;
}

/** A connector that serves its servers, on a port of its own. */
export async function startConnector(env: Env): Promise<Service> {
  const service = new Service('connector', {
    HOLDFAST_OPS_PORT: '0',
    HOLDFAST_CONNECTOR_BIND: `127.0.0.1:${await freePort()}`,
    ...env,
  });
  await service.printed(/"msg":"connector serves"/);
  return service;
}

/** A port that is free now. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** The whole product in one process, ready to serve. */
export async function startStandalone(env: Env, cwd?: string, args?: readonly string[]): Promise<Listening> {
  const service = new Service('standalone', { HOLDFAST_PORT: '0', ...env }, args, cwd);
  const [, base] = await service.printed(/Holdfast serves (http:\/\/[^/\s]+)/);
  const listening = { service, base: base!, ops: base! };
  await ready(listening);
  return listening;
}

async function ready({ service, ops }: Listening): Promise<void> {
  await until(async () => {
    if (!service.isRunning) throw new Error(`${service.app} ended:\n${service.stderr}`);
    return (await fetch(`${ops}/readyz`)).ok;
  }, 50);
}

/** Longer than the time limit of any test here. */
const hopelessMs = 180_000;

/** Looks again until there is something. The test's own time limit is the limit; after it nobody looks for ever. */
export async function until<T>(look: () => Promise<T> | T, pauseMs = 10): Promise<NonNullable<T>> {
  const began = performance.now();
  for (;;) {
    const found = await look();
    if (found) return found;
    if (performance.now() - began > hopelessMs) throw new Error('it did not come about in three minutes');
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}
