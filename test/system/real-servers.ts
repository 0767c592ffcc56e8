import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { eventually, onFreePort, serverFolder, Supervised } from '../servers/supervised.ts';
import { root, scratchFolder } from './service.ts';
import type { ServerEntry } from './upstream-fleet.ts';

/** A server that others wrote, and how it is asked without Holdfast between. */
export interface RealServer {
  readonly entry: ServerEntry;
  /** The SDK's own client, connected; closed with all others by `RealServers.close`. */
  direct(): Promise<Client>;
}

/** Packages of npm, as in package.json, each as its users start it. */
export class RealServers {
  readonly #folder = scratchFolder();
  readonly #processes: Supervised[] = [];
  readonly #clients: Client[] = [];

  /** `server-everything` over stdio. */
  everything(id = 'everything'): RealServer {
    return this.#stdio(id, [published('server-everything'), 'stdio']);
  }

  /** The same with all that its child reads on stdin in a file as well: one message a line. */
  overheard(id: string): RealServer & { read(): Record<string, unknown>[] } {
    const copy = join(this.#folder.path, `${id}.jsonl`);
    writeFileSync(copy, '');
    const pipe = ['-c', 'tee -a "$0" | exec "$@"', copy, process.execPath];
    const { direct } = this.everything(id);
    return {
      entry: { id, command: 'sh', args: [...pipe, published('server-everything'), 'stdio'] },
      direct,
      read: () =>
        readFileSync(copy, 'utf8')
          .split('\n')
          .slice(0, -1)
          .map((line) => JSON.parse(line) as Record<string, unknown>),
    };
  }

  /** `server-everything` over Streamable HTTP, with sessions. */
  everythingOverHttp(id = 'everything-http'): Promise<RealServer> {
    return this.#http(id, (port) => [`PORT=${port}`, process.execPath, published('server-everything'), 'streamableHttp']); // prettier-ignore
  }

  /** `server-filesystem` on an empty folder. */
  files(id = 'files'): RealServer & { readonly folder: string } {
    const folder = join(this.#folder.path, id);
    mkdirSync(folder);
    return { ...this.#stdio(id, [published('server-filesystem'), folder]), folder };
  }

  /** `server-memory` on a file that is not there yet. */
  memory(id = 'memory'): RealServer {
    return this.#stdio(id, [published('server-memory')], {
      MEMORY_FILE_PATH: join(this.#folder.path, `${id}.jsonl`),
    });
  }

  /** A server written with fastmcp, over HTTP. */
  fast(id = 'fast'): Promise<RealServer> {
    const script = join(root, 'test/servers/fastmcp-upstream.ts');
    return this.#http(id, (port) => [process.execPath, script, String(port)]);
  }

  #stdio(id: string, args: string[], env: Record<string, string> = {}): RealServer {
    const command = process.execPath;
    return {
      entry: { id, command, args, env },
      direct: () => this.#connect(new StdioClientTransport({ command, args, env, stderr: 'ignore' })),
    };
  }

  async #http(id: string, command: (port: number) => string[]): Promise<RealServer> {
    const server = new Supervised(serverFolder('real'), 'SIGKILL');
    this.#processes.push(server);
    const port = await onFreePort(async (free) => {
      await server.start({ command: 'env', args: command(free) });
      // Both answer a GET without a session with a refusal.
      await eventually(id, () => fetch(`http://127.0.0.1:${free}/mcp`).then(({ status }) => status));
    });
    const url = `http://127.0.0.1:${port}/mcp`;
    return {
      entry: { id, url },
      direct: () => this.#connect(new StreamableHTTPClientTransport(new URL(url))),
    };
  }

  async #connect(transport: Transport): Promise<Client> {
    const client = new Client({ name: 'direct', version: '1' });
    this.#clients.push(client);
    await client.connect(transport);
    return client;
  }

  async close(): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.close()));
    await Promise.all(this.#processes.map((server) => server.stop()));
    this.#folder.remove();
  }
}

function published(name: string): string {
  return join(root, 'node_modules/@modelcontextprotocol', name, 'dist/index.js');
}
