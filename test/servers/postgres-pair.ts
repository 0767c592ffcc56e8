import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { aptInstall } from './apt.ts';
import { embeddedPostgres, installedPostgres, runnable } from './postgres-binaries.ts';
import { SETTINGS, adminUrl, answering, createDatabase, settingArguments } from './postgres-server.ts';
import { Supervised, eventually, onFreePort, serverFolder, unprivileged } from './supervised.ts';

const run = promisify(execFile);

/** A primary and a standby with synchronous streaming replication. */
export interface PostgresPair {
  /** The two ports, with the initial primary first. */
  readonly ports: readonly [number, number];
  /** Creates an empty database and resolves to a URL that names both servers. */
  createDatabase(): Promise<string>;
  /** Shuts down the initial primary as an operator does and starts it again; resolves when it answers. */
  restartPrimary(): Promise<void>;
  /** Kills every process of the initial primary at once, as if its host died. The standby has every confirmed write. */
  killPrimary(): Promise<void>;
  /** Freezes the initial primary: connections stay open, new ones are accepted, nothing answers. */
  pausePrimary(): Promise<void>;
  /** Promotes the standby; resolves when it accepts writes. */
  promote(): Promise<void>;
  /** Stops both and removes their data. Safe twice. */
  stop(): Promise<void>;
}

/**
 * Starts both on random loopback ports, with the server binaries of this machine or downloaded ones.
 *
 * @throws Error if no server binaries are available
 */
export async function startPostgresPair(): Promise<PostgresPair> {
  const servers = [0, 1].map((i) => new Supervised(serverFolder(`postgres-${i}`), 'SIGQUIT'));
  const [primary, standby] = servers as [Supervised, Supervised];
  const stop = async (): Promise<void> => {
    await Promise.all(servers.map((server) => server.stop()));
  };
  try {
    const bin = await runnable(await serverBinaries(), primary.folder);
    const startOn = async (port: number, server: Supervised, own: Record<string, string>): Promise<void> => {
      const data = join(server.folder, 'data');
      const settings = {
        ...SETTINGS,
        ...own,
        listen_addresses: '127.0.0.1',
        unix_socket_directories: '',
        wal_keep_size: '64MB',
      };
      await server.start({
        command: join(bin, 'postgres'),
        args: ['-D', data, '-p', String(port), ...settingArguments(settings)],
        ...unprivileged,
      });
      const answered = await answering(adminUrl(port), () => server.pid === undefined);
      if (answered !== data) throw new Error(`postgres did not start on port ${port}\n${server.log}`);
    };
    const isPrimary = { synchronous_standby_names: '*' };

    const data = join(primary.folder, 'data');
    const options = ['--no-sync', '--auth=trust', '--username=postgres', '--encoding=UTF8', '--locale=C'];
    await run(join(bin, 'initdb'), [...options, '-D', data], { ...unprivileged, cwd: primary.folder });
    // A copy of the files of a stopped server is a base backup; not every package contains pg_basebackup.
    const copy = join(standby.folder, 'data');
    await run('cp', ['-a', data, copy]);
    await run('touch', [join(copy, 'standby.signal')], { ...unprivileged });

    const primaryPort = await onFreePort((port) => startOn(port, primary, isPrimary));
    const follows = {
      primary_conninfo: `host=127.0.0.1 port=${primaryPort} user=postgres`,
      // Shortens the wait after a restart of the primary: it confirms nothing without a standby, by default for five seconds.
      wal_retrieve_retry_interval: '200ms',
    };
    const standbyPort = await onFreePort((port) => startOn(port, standby, follows));
    await eventually('the standby follows', async () => {
      const rows = await ask(primaryPort, `SELECT FROM pg_stat_replication WHERE sync_state = 'sync'`);
      return rows.length > 0 ? true : undefined;
    });

    return {
      ports: [primaryPort, standbyPort],
      async createDatabase() {
        const { pathname } = new URL(await createDatabase(adminUrl(primaryPort)));
        // The standby has written every confirmed commit, and applies it a moment later.
        await eventually('the standby has the database', async () => {
          const name = `'${pathname.slice(1)}'`;
          const rows = await ask(standbyPort, `SELECT FROM pg_database WHERE datname = ${name}`);
          return rows.length > 0 ? true : undefined;
        });
        return `postgres://postgres@127.0.0.1:${primaryPort},127.0.0.1:${standbyPort}${pathname}?target_session_attrs=read-write`;
      },
      async restartPrimary() {
        if (primary.pid !== undefined) process.kill(primary.pid, 'SIGINT');
        await primary.exited();
        await startOn(primaryPort, primary, isPrimary);
      },
      async killPrimary() {
        primary.signalAll('SIGKILL');
        await primary.exited();
      },
      pausePrimary: async () => primary.signalAll('SIGSTOP'),
      async promote() {
        await ask(standbyPort, 'SELECT pg_promote()');
        await eventually('the standby takes writes', async () => {
          const rows = await ask(standbyPort, 'SELECT WHERE NOT pg_is_in_recovery()');
          return rows.length > 0 ? true : undefined;
        });
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function serverBinaries(): Promise<string> {
  try {
    return await installedPostgres();
  } catch {
    // Not installed: downloaded below.
  }
  try {
    return await embeddedPostgres();
  } catch {
    await aptInstall('postgresql');
    return installedPostgres();
  }
}

async function ask(port: number, sql: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: adminUrl(port), connectionTimeoutMillis: 2_000 });
  client.on('error', () => {});
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}
