import { readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { program } from './program.ts';
import { Supervised, eventually, freePort, serverFolder, unprivileged } from './supervised.ts';

/** An address for a gateway, which may be absent: it gets requests while its `/readyz` answers 200. */
export interface GatewayPlace {
  readonly host: string;
  readonly port: number;
  /** Port of `/readyz`. */
  readonly opsPort: number;
}

export interface HaproxyOptions {
  readonly places: readonly GatewayPlace[];
  /** A configuration of `deploy/ingress` for these addresses; if omitted, one that reuses connections to gateways. */
  readonly file?: 'haproxy.cfg' | 'haproxy-sticky.cfg';
  /** Time for which a stream may be silent before it is cut; 1 h if omitted. Not with `file`. */
  readonly silenceMs?: number;
}

/** Counters of HAProxy over all gateways since its start. */
export interface HaproxyCount {
  /** Responses of 500 to 599 to hosts, including its own 502, 503 and 504. */
  readonly serverErrors: number;
  /** Requests of hosts whose headers have arrived. */
  readonly requests: number;
  /** Number of reuses of an existing connection to a gateway. */
  readonly reused: number;
}

/** A real HAProxy in front of gateways. */
export interface Haproxy {
  /** `http://127.0.0.1:<port>` */
  readonly base: string;
  /** Names of the addresses that currently get requests, as `host:port`. */
  ready(): Promise<string[]>;
  count(): Promise<HaproxyCount>;
  /** Number of sessions in the stick table. */
  remembered(): Promise<number>;
  stop(): Promise<void>;
}

/** @throws Error with the failed attempts and the packages to install */
export async function startHaproxy(options: HaproxyOptions): Promise<Haproxy> {
  const command = await program('haproxy');
  const folder = serverFolder('haproxy');
  const server = new Supervised(folder, 'SIGKILL');
  const port = await freePort();
  const socket = join(folder, 'admin.sock');
  const file = join(folder, 'haproxy.cfg');
  writeFileSync(file, configuration(options, port, socket));
  const ask = (what: string): Promise<string> => {
    const connection = connect(socket);
    connection.end(`${what}\n`);
    return text(connection);
  };
  try {
    await server.start({ command, args: ['-db', '-f', file], ...unprivileged });
    await eventually('haproxy answers', () => {
      if (server.pid === undefined) throw new Error(`haproxy ended\n${server.log}`);
      return ask('show info');
    });
  } catch (error) {
    await server.stop();
    throw error;
  }
  /** The lines of `show stat` as objects. */
  const stat = async (): Promise<Record<string, string>[]> => {
    const [head, ...lines] = (await ask('show stat')).replace(/^# /, '').trim().split('\n');
    const names = head!.split(',');
    return lines.map((line) => Object.fromEntries(line.split(',').map((value, i) => [names[i], value])));
  };
  return {
    base: `http://127.0.0.1:${port}`,
    async ready() {
      const rows = (await stat()).filter(({ pxname }) => pxname === 'gateways');
      return rows
        .filter(({ svname, status }) => svname?.startsWith('127.') && status?.startsWith('UP'))
        .map(({ svname }) => svname!);
    },
    async count() {
      const rows = await stat();
      const front = rows.find(({ svname }) => svname === 'FRONTEND')!;
      const back = rows.find(({ pxname, svname }) => pxname === 'gateways' && svname === 'BACKEND')!;
      return {
        serverErrors: Number(front['hrsp_5xx']),
        requests: Number(front['req_tot']),
        reused: Number(back['reuse']),
      };
    },
    async remembered() {
      return Number(/used:(\d+)/.exec(await ask('show table gateways'))?.[1] ?? 0);
    },
    stop: () => server.stop(),
  };
}

function configuration(options: HaproxyOptions, port: number, socket: string): string {
  const text = options.file === undefined ? reusing(options) : deployed(options.file);
  const servers = options.places.map(
    ({ host, port, opsPort }) => `  server ${host}:${port} ${host}:${port} check port ${opsPort}\n`,
  );
  return text
    .replace(/^global\n/m, `$&  stats socket ${socket} mode 600 level admin\n`)
    .replace(/bind :8080/, `bind 127.0.0.1:${port}`)
    .replace(/(^ {2}server .*\n)+/m, servers.join(''));
}

function deployed(file: string): string {
  return readFileSync(join(import.meta.dirname, '../../deploy/ingress', file), 'utf8');
}

/** A proxy that keeps idle connections to gateways for 60 s, like usual ingresses and unlike those of `deploy/ingress`. */
function reusing({ silenceMs = 3_600_000 }: HaproxyOptions): string {
  return `global
defaults
  mode http
  timeout connect 2s
  timeout client ${silenceMs}ms
  timeout server ${silenceMs}ms
  timeout http-keep-alive 60s
  # Tries another gateway if the first accepted no connection: nothing was sent then.
  option redispatch 1
  retries 3
  retry-on conn-failure
  http-reuse always
frontend hosts
  bind :8080
  default_backend gateways
backend gateways
  balance roundrobin
  option httpchk GET /readyz
  default-server check inter 1s fall 1 rise 1 pool-purge-delay 60s
  server here-come-the-places
`;
}
