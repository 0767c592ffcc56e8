import { existsSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { delimiter, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { aptInstall } from './apt.ts';
import { Supervised, eventually, freePort, serverFolder, unprivileged } from './supervised.ts';

/** A place for a gateway, whether one is there or not: it gets requests while `/readyz` there says 200. */
export interface GatewayPlace {
  readonly host: string;
  readonly port: number;
  /** Where `/readyz` is. */
  readonly opsPort: number;
}

export interface HaproxyOptions {
  readonly places: readonly GatewayPlace[];
  /** Leads a session of a legacy host to the gateway that opened it. */
  readonly sticky?: boolean;
  /** How long it keeps idle connections to gateways and hosts, as ingresses do: 60 s when omitted. */
  readonly keepAliveMs?: number;
  /** How long a stream may be silent before it is cut: 1 h when omitted. */
  readonly silenceMs?: number;
}

/** What HAProxy counted over all gateways since it began. */
export interface HaproxyCount {
  /** Answers of 500 to 599 that hosts got, its own 502, 503 and 504 among them. */
  readonly serverErrors: number;
  /** Requests of hosts whose headers have come. */
  readonly requests: number;
  /** Connections to gateways that it opened, and those that it had and used again. */
  readonly connected: number;
  readonly reused: number;
}

/** A real HAProxy in front of gateways. */
export interface Haproxy {
  /** `http://127.0.0.1:<port>` */
  readonly base: string;
  /** Names of the places that get requests now, as `host:port`. */
  ready(): Promise<string[]>;
  count(): Promise<HaproxyCount>;
  /** Sessions that it remembers the gateway of. */
  remembered(): Promise<number>;
  stop(): Promise<void>;
}

/** @throws Error saying what was tried and what to install */
export async function startHaproxy(options: HaproxyOptions): Promise<Haproxy> {
  const command = await haproxyBinary();
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
  /** Lines of `show stat` as objects. */
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
        connected: Number(back['connect']),
        reused: Number(back['reuse']),
      };
    },
    async remembered() {
      return Number(/used:(\d+)/.exec(await ask('show table gateways'))?.[1] ?? 0);
    },
    stop: () => server.stop(),
  };
}

/** On the PATH or in Debian's place, else installed when that can be done. */
async function haproxyBinary(): Promise<string> {
  const found = installed();
  if (found !== undefined) return found;
  try {
    await aptInstall('haproxy');
  } catch (cause) {
    throw new Error(
      'these tests need HAProxy 2.4 or newer (Debian: apt-get install haproxy; macOS: brew install haproxy)',
      { cause },
    );
  }
  return installed() ?? '/usr/sbin/haproxy';
}

function installed(): string | undefined {
  return [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin']
    .filter((folder) => folder !== '')
    .map((folder) => join(folder, 'haproxy'))
    .find((path) => existsSync(path));
}

function configuration(
  { places, sticky = false, keepAliveMs = 60_000, silenceMs = 3_600_000 }: HaproxyOptions,
  port: number,
  socket: string,
): string {
  return `
global
  stats socket ${socket} mode 600 level admin
defaults
  mode http
  timeout connect 2s
  timeout client ${silenceMs}ms
  timeout server ${silenceMs}ms
  timeout http-keep-alive ${keepAliveMs}ms
  # To another gateway, when the first took no connection: nothing was sent then.
  option redispatch 1
  retries 3
  retry-on conn-failure
  http-reuse always
frontend hosts
  bind 127.0.0.1:${port}
  default_backend gateways
backend gateways
  balance roundrobin
  option httpchk GET /readyz
${sticky ? stick : ''}  default-server check inter 1s fall 1 rise 1 pool-purge-delay ${keepAliveMs}ms
${places.map(({ host, port, opsPort }) => `  server ${host}:${port} ${host}:${port} check port ${opsPort}`).join('\n')}
`;
}

const stick = `  stick-table type string len 128 size 100k expire 1h
  stick store-response res.hdr(mcp-session-id)
  stick on req.hdr(mcp-session-id)
`;
