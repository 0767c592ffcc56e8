import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { answering } from './postgres-server.ts';
import { program } from './program.ts';
import { Supervised, onFreePort, serverFolder, unprivileged } from './supervised.ts';

/** A PgBouncer in transaction mode. */
export interface PgBouncer {
  readonly port: number;
  /** The URL of the given database through this pooler. */
  readonly url: string;
  /** Stops the pooler, but not Postgres. Safe twice. */
  stop(): Promise<void>;
}

/**
 * Starts PgBouncer on a random loopback port in front of the server of `databaseUrl`; it also serves the other
 * databases of that server. Statements of one session run on any of at most `poolSize` server connections, and the
 * connection may change after each transaction. Session state therefore does not persist, and prepared statements do
 * not work (PgBouncer supports them since 1.21, but this is off here, as in many installations).
 *
 * @throws Error with the package to install
 */
export async function startPgBouncer(databaseUrl: string, { poolSize = 20 } = {}): Promise<PgBouncer> {
  const command = await program('pgbouncer');
  const preparedStatements = await hasPreparedStatements(command);
  const postgres = new URL(databaseUrl);
  const server = new Supervised(serverFolder('pgbouncer'), 'SIGKILL');
  try {
    const user = decodeURIComponent(postgres.username) || 'postgres';
    const password = decodeURIComponent(postgres.password);
    const users = join(server.folder, 'users.txt');
    await writeFile(users, `${quoted(user)} ${quoted(password)}\n`, { mode: 0o644 });

    const start = async (port: number): Promise<void> => {
      const settings = join(server.folder, `${port}.ini`);
      await writeFile(settings, configuration({ port, postgres, users, poolSize, preparedStatements }), {
        mode: 0o644,
      });
      await server.start({ command, args: ['-q', settings], ...unprivileged });
      await answering(through(port, databaseUrl), () => server.pid === undefined);
      if (server.pid === undefined) throw new Error(`pgbouncer did not start on port ${port}\n${server.log}`);
    };
    const port = await onFreePort(start);
    return { port, url: through(port, databaseUrl), stop: () => server.stop() };
  } catch (error) {
    await server.stop();
    throw error;
  }
}

interface Configuration {
  port: number;
  postgres: URL;
  users: string;
  poolSize: number;
  /** Whether this version knows the setting: PgBouncer does not start with an unknown setting. */
  preparedStatements: boolean;
}

/** `auth_type = any` logs in every client as the only user of `users`; the pooler listens only on loopback. */
function configuration({ port, postgres, users, poolSize, preparedStatements }: Configuration): string {
  return `
[databases]
* = host=${postgres.hostname} port=${postgres.port || 5432} user=${decodeURIComponent(postgres.username) || 'postgres'}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
auth_file = ${users}
pool_mode = transaction
default_pool_size = ${poolSize}
max_client_conn = 1000
ignore_startup_parameters = extra_float_digits
${preparedStatements ? 'max_prepared_statements = 0' : ''}
`;
}

async function hasPreparedStatements(command: string): Promise<boolean> {
  const { stdout } = await promisify(execFile)(command, ['--version']);
  const [, major, minor] = /PgBouncer (\d+)\.(\d+)/.exec(stdout) ?? [];
  return Number(major) > 1 || Number(minor) >= 21;
}

const quoted = (text: string) => `"${text.replaceAll('"', '""')}"`;

function through(port: number, databaseUrl: string): string {
  const url = new URL(databaseUrl);
  url.host = `127.0.0.1:${port}`;
  return url.href;
}
