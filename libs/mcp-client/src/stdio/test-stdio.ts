import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { ChildGuard } from './child-guard.js';
import type { Connection, OutgoingCall, SendOptions, Sent } from '../connection.js';
import type { StdioSettings } from './stdio-settings.js';
import { connectStdio, type StdioOptions } from './stdio-connection.js';
import { afterTest } from '../../../../test/support/after-test.ts';
import { silent } from '../../../../test/support/log.ts';

export const scriptedServer = fileURLToPath(
  new URL('../../../../test/servers/stdio-upstream.mjs', import.meta.url),
);

export function openGuard(): ChildGuard {
  const guard = new ChildGuard({ log: silent });
  afterTest(() => guard.close());
  return guard;
}

export function stdioSettings(change: Partial<StdioSettings> = {}): StdioSettings {
  return {
    kind: 'stdio',
    command: process.execPath,
    args: [scriptedServer],
    env: {},
    envPolicy: 'allow-list',
    ...change,
  };
}

/** A connection to the scripted server with these flags. */
export async function connect(
  flags: readonly string[] = [],
  change: Partial<StdioOptions> = {},
): Promise<Connection> {
  const connection = await connectStdio({
    server: 'files',
    settings: stdioSettings({ args: [scriptedServer, ...flags] }),
    secrets: [],
    environment: { PATH: '/usr/bin:/bin' },
    guard: openGuard(),
    clientVersion: '1',
    connectTimeoutMs: 20_000,
    signal: new AbortController().signal,
    log: silent,
    ...change,
  });
  afterTest(() => connection.close());
  return connection;
}

export function send(
  connection: Connection,
  tool: string,
  args: object | string = {},
  change: Partial<SendOptions> & { readonly meta?: OutgoingCall['meta'] } = {},
): Promise<Sent> {
  const { meta = {}, ...options } = change;
  return connection.send(
    { tool, arguments: typeof args === 'string' ? args : JSON.stringify(args), meta, paramHeaders: {} },
    {
      beforeSend: async () => {},
      signal: new AbortController().signal,
      timeoutMs: 20_000,
      onProgress: () => {},
      ...options,
    },
  );
}

/** What the scripted server answered as structured content. */
export function structured<T>(sent: Sent): T {
  if (sent.kind !== 'result') throw new Error(`no result: ${JSON.stringify(sent)}`);
  return (sent.result as { structuredContent: T }).structuredContent;
}

/** A process as the kernel shows it. */
export interface ProcessRow {
  readonly pid: number;
  readonly state: string;
  readonly parent: number;
  readonly group: number;
}

/** All processes; needs /proc. */
export function processes(): ProcessRow[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        // "pid (command) state parent group …": the command may hold spaces and parentheses.
        const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
        const [state = '', parent, group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
        return [{ pid: Number(name), state, parent: Number(parent), group: Number(group) }];
      } catch {
        return []; // exited meanwhile
      }
    });
}

/** The processes of a group that run; one that is dead and waits to be reaped by its parent does not. */
export function runningIn(group: number): ProcessRow[] {
  return processes().filter((row) => row.group === group && row.state !== 'Z');
}
