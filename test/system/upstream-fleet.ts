import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ScriptableUpstream, type UpstreamScript } from '../servers/index.ts';
import { Fleet, type FleetSize } from './fleet.ts';
import type { Host } from './host.ts';
import { root, until, type Env } from './service.ts';

/** An entry of a settings file. */
export type ServerEntry = Readonly<Record<string, unknown>> & { readonly id: string };

/** A deployment with upstream servers, whose settings file is rewritten while it runs. */
export class UpstreamFleet {
  readonly fleet: Fleet;
  readonly #path: string;
  readonly #upstreams: ScriptableUpstream[] = [];
  #entries: ServerEntry[] = [];

  static async start(
    kind: Fleet['kind'],
    change: Env = {},
    size: FleetSize = { gateways: 2, workers: 2, connectors: 2 },
  ): Promise<UpstreamFleet> {
    let path = '';
    const fleet = await Fleet.start(
      kind,
      (folder) => {
        path = join(folder, 'servers.json');
        writeFileSync(path, '{"servers": []}');
        return { HOLDFAST_SERVERS_FILE: path, HOLDFAST_STDIO_ENABLED: 'true', ...change };
      },
      size,
    );
    return new UpstreamFleet(fleet, path);
  }

  private constructor(fleet: Fleet, path: string) {
    this.fleet = fleet;
    this.#path = path;
  }

  /** Where the servers are written. */
  get path(): string {
    return this.#path;
  }

  /** An upstream over HTTP that lives as long as the deployment. */
  async upstream(script: Partial<UpstreamScript> = {}): Promise<ScriptableUpstream> {
    const upstream = await ScriptableUpstream.start({ script });
    this.#upstreams.push(upstream);
    return upstream;
  }

  /** Adds a server, or puts it in the place of the one with its id. */
  set(entry: ServerEntry): void {
    this.#entries = [...this.#entries.filter(({ id }) => id !== entry.id), entry];
    this.#write();
  }

  /** Adds servers though their ids are the same. */
  add(...entries: ServerEntry[]): void {
    this.#entries = [...this.#entries, ...entries];
    this.#write();
  }

  remove(id: string): void {
    this.#entries = this.#entries.filter((entry) => entry.id !== id);
    this.#write();
  }

  #write(): void {
    writeFileSync(this.#path, JSON.stringify({ servers: this.#entries }));
  }

  /** Adds a server and waits until hosts see its tools. */
  async connect(entry: ServerEntry, host: Host): Promise<string[]> {
    this.set(entry);
    return this.listed(host, entry.id);
  }

  /** The names that a host sees of a server, once there are any. */
  async listed(host: Host, id: string): Promise<string[]> {
    return until(async () => {
      const names = (await toolsOf(host)).map(({ name }) => name).filter((name) => name.startsWith(`${id}_`));
      return names.length > 0 ? names : undefined;
    }, 50);
  }

  /** What a connector says is wrong with a server, once it says so. */
  async diagnostic(id: string, pattern = /./): Promise<string> {
    return until(
      () =>
        this.services
          .flatMap(({ log }) => log)
          .filter(({ origin }) => origin === id)
          .map(({ msg }) => String(msg))
          .find((message) => pattern.test(message)),
      20,
    );
  }

  /** Those that connect to servers. */
  get services(): Fleet['connectors'] {
    return this.fleet.kind === 'standalone'
      ? this.fleet.gateways.map(({ service }) => service)
      : this.fleet.connectors;
  }

  async dispose(): Promise<void> {
    await this.fleet.dispose();
    await Promise.all(this.#upstreams.map((upstream) => upstream.close()));
  }
}

/** A server on stdio that answers as its flags and the names of its tools say (`test/servers/stdio-upstream.mjs`). */
export function stdioServer(
  id: string,
  tools: readonly (string | object)[],
  flags: readonly string[] = [],
): ServerEntry & { readonly args: readonly string[] } {
  const list = tools.map((tool) =>
    typeof tool === 'string' ? { name: tool, inputSchema: { type: 'object' } } : tool,
  );
  const script = join(root, 'test/servers/stdio-upstream.mjs');
  return { id, command: '${node}', args: [script, `--list=${JSON.stringify(list)}`, ...flags] };
}

export interface ListedTool {
  readonly name: string;
  readonly title?: string;
  readonly description: string;
  readonly inputSchema: Record<string, unknown>;
  readonly outputSchema?: Record<string, unknown>;
  readonly annotations: Record<string, unknown>;
}

export async function toolsOf(host: Host): Promise<readonly ListedTool[]> {
  const { messages } = await host.send('tools/list').answer;
  const tools = messages.at(-1)?.result?.['tools'];
  if (!Array.isArray(tools)) throw new Error(`no list of tools: ${JSON.stringify(messages)}`);
  return tools as ListedTool[];
}
