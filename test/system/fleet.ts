import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { testDatabase, testValkey } from '../servers/index.ts';
import { openHost, type Host } from './host.ts';
import {
  root,
  scratchFolder,
  startConnector,
  startGateway,
  startStandalone,
  startWorker,
  type Env,
  type Listening,
  type Service,
} from './service.ts';

/** Keys of callers; any other works too where a test adds it. */
export const keys = { desk: 'key-of-desk-in-tests', ci: 'key-of-ci-in-tests' } as const;
export const adminKey = 'key-of-admin-in-tests';

/** Settings of a fleet that shows in a second what takes a minute in production. */
export const shortSettings: Env = {
  HOLDFAST_AUTH: 'keys',
  HOLDFAST_API_KEYS: JSON.stringify(keys),
  HOLDFAST_ADMIN_KEYS: JSON.stringify({ admin: adminKey }),
  HOLDFAST_LEASE_MS: '1000',
  HOLDFAST_CONNECTOR_LEASE_MS: '1500',
  HOLDFAST_DRAIN_MS: '2000',
  HOLDFAST_POLL_INTERVAL_MS: '100',
  HOLDFAST_LOG_LEVEL: 'debug',
  HOLDFAST_TOOLS: join(root, 'examples/orders/dist/index.js'),
};

export interface Line {
  /** `aborted` is noted by `tools/attentive.ts` only. */
  readonly what: 'start' | 'end' | 'aborted';
  readonly tool: string;
  readonly runId: string;
  readonly attempt: number;
}

/** What the bodies of the example tools noted in the file that HOLDFAST_EXAMPLES_LOG names, in order. */
export function readJournal(path: string): readonly Line[] {
  if (!existsSync(path)) return [];
  return readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [what, tool, runId, attempt] = line.split(' ') as [Line['what'], string, string, string];
      return { what, tool, runId, attempt: Number(attempt) };
    });
}

export interface FleetSize {
  readonly gateways: number;
  readonly workers: number;
  readonly connectors?: number;
}

/** A deployment of the product as processes: two gateways and two workers on a store, or the one process on SQLite. */
export class Fleet {
  readonly kind: 'standalone' | 'postgres' | 'valkey' | 'sqlite';
  readonly env: Env;
  gateways: Listening[] = [];
  workers: Service[] = [];
  connectors: Service[] = [];
  readonly #folder: ReturnType<typeof scratchFolder>;
  readonly #journal: string;

  /** @param change settings that differ from the short ones, or what gives them for the fleet's folder */
  static async start(
    kind: Fleet['kind'],
    change: Env | ((folder: string) => Env) = {},
    size: FleetSize = { gateways: 2, workers: 2 },
  ): Promise<Fleet> {
    const folder = scratchFolder();
    const changed = typeof change === 'function' ? change(folder.path) : change;
    const ownStore = async (): Promise<string> =>
      kind === 'postgres'
        ? testDatabase()
        : kind === 'valkey'
          ? testValkey()
          : `sqlite:${join(folder.path, 'holdfast.db')}`;
    const fleet = new Fleet(kind, folder, {
      ...shortSettings,
      HOLDFAST_STORE: changed['HOLDFAST_STORE'] ?? (await ownStore()),
      HOLDFAST_EXAMPLES_LOG: join(folder.path, 'journal'),
      ...changed,
    });
    if (kind === 'standalone') fleet.gateways = [await startStandalone(fleet.env)];
    else {
      fleet.connectors = await Promise.all(
        Array.from({ length: size.connectors ?? 0 }, () => startConnector(fleet.env)),
      );
      // Workers first: a gateway that starts with the tools there is ready to serve them.
      fleet.workers = await Promise.all(Array.from({ length: size.workers }, () => startWorker(fleet.env)));
      fleet.gateways = await Promise.all(
        Array.from({ length: size.gateways }, () => startGateway(fleet.env)),
      );
    }
    return fleet;
  }

  private constructor(kind: Fleet['kind'], folder: ReturnType<typeof scratchFolder>, env: Env) {
    this.kind = kind;
    this.#folder = folder;
    this.env = env;
    this.#journal = env['HOLDFAST_EXAMPLES_LOG']!;
  }

  get folder(): string {
    return this.#folder.path;
  }

  /** The MCP endpoint of a gateway; that of the one process for any number. */
  url(gateway = 0): string {
    return `${this.gateways[gateway % this.gateways.length]!.base}/mcp`;
  }

  host(era: Host['era'], { key = keys.desk as string, gateway = 0 } = {}): ReturnType<typeof openHost> {
    return openHost(era, this.url(gateway), key);
  }

  /** What the bodies of the example tools noted of one run, in order. */
  journal(runId: string): readonly Line[] {
    return this.wholeJournal().filter((line) => line.runId === runId);
  }

  wholeJournal(): readonly Line[] {
    return readJournal(this.#journal);
  }

  async api(
    path: string,
    key: string | undefined = adminKey,
    gateway = 0,
  ): Promise<{ status: number; body: Record<string, unknown> }> {
    const answer = await fetch(`${this.gateways[gateway % this.gateways.length]!.base}/api${path}`, {
      headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
    });
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
  }

  /** Cancels a run by the API. */
  async cancel(id: string, gateway = 0): Promise<{ status: number; body: Record<string, unknown> }> {
    const answer = await fetch(
      `${this.gateways[gateway % this.gateways.length]!.base}/api/runs/${id}/cancel`,
      {
        method: 'POST',
        headers: { authorization: `Bearer ${adminKey}` },
      },
    );
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
  }

  async run(id: string): Promise<Record<string, unknown> & { state: string; attempt: number }> {
    return (await this.api(`/runs/${id}`)).body as Record<string, unknown> & {
      state: string;
      attempt: number;
    };
  }

  async restartGateway(gateway: number): Promise<void> {
    const { base } = this.gateways[gateway]!;
    const start = this.kind === 'standalone' ? startStandalone : startGateway;
    // On the same port, as a pod behind its Service: hosts keep their URL.
    this.gateways[gateway] = await start({ ...this.env, HOLDFAST_PORT: new URL(base).port });
  }

  /** Kills every worker at once and starts as many others. */
  async replaceWorkers(): Promise<void> {
    await Promise.all(this.workers.map((worker) => worker.kill()));
    this.workers = await Promise.all(this.workers.map(() => startWorker(this.env)));
  }

  /** Stops everything as an operator would and starts as much again. Resolves to the exit codes. */
  async restart(): Promise<(number | null)[]> {
    const codes = await Promise.all(this.services.map((service) => service.stop()));
    this.connectors = await Promise.all(this.connectors.map(() => startConnector(this.env)));
    this.workers = await Promise.all(this.workers.map(() => startWorker(this.env)));
    await Promise.all(this.gateways.map((_gateway, number) => this.restartGateway(number)));
    return codes;
  }

  get services(): readonly Service[] {
    return [...this.gateways.map(({ service }) => service), ...this.workers, ...this.connectors];
  }

  async dispose(): Promise<void> {
    await Promise.all(this.services.map((service) => service.kill()));
    this.#folder.remove();
  }
}
