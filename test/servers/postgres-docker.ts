import { execFile } from 'node:child_process';
import { basename } from 'node:path';
import { promisify } from 'node:util';
import {
  type PrivatePostgres,
  SETTINGS,
  adminUrl,
  answering,
  createDatabase,
  settingArguments,
} from './postgres-server.ts';
import { Supervised, onFreePort, serverFolder } from './supervised.ts';

const IMAGE = 'postgres:17-alpine';
const PULL_MS = 300_000;

const docker = (...args: string[]) => promisify(execFile)('docker', args, { timeout: PULL_MS });

/**
 * Starts Postgres in a container. The test supervises the attached client; when the client ends, the container and
 * its volume are removed.
 *
 * @throws Error if no engine answers (the client alone is not enough), or the image is unavailable
 */
export async function startDockerPostgres(): Promise<PrivatePostgres> {
  await promisify(execFile)('docker', ['version', '--format', '{{.Server.Version}}'], { timeout: 10_000 });
  const folder = serverFolder('postgres');
  const name = basename(folder);
  const server = new Supervised(folder, 'SIGTERM', ['docker', 'rm', '--force', '--volumes', name]);
  try {
    const start = async (port: number): Promise<void> => {
      await server.start({ command: 'docker', args: ['start', '--attach', name] });
      const answered = await answering(adminUrl(port), () => server.pid === undefined);
      if (answered === '') throw new Error(`postgres did not start in ${IMAGE}\n${server.log}`);
    };
    const port = await onFreePort(async (candidate) => {
      await docker('rm', '--force', '--volumes', name).catch(() => {}); // left by a try at another port
      const publish = ['--publish', `127.0.0.1:${candidate}:5432`];
      const trust = ['--env', 'POSTGRES_HOST_AUTH_METHOD=trust'];
      await docker('create', '--name', name, ...publish, ...trust, IMAGE, ...settingArguments(SETTINGS));
      await start(candidate);
    });
    const url = adminUrl(port);
    return {
      url,
      port,
      source: 'docker',
      createDatabase: (database) => createDatabase(url, database),
      stop: () => server.stop(),
      async restart() {
        await docker('stop', name);
        await server.exited();
        await start(port);
      },
      async kill() {
        await docker('kill', name);
        await server.exited();
      },
      async pause() {
        await docker('pause', name);
      },
      async resume() {
        await docker('unpause', name);
      },
    };
  } catch (error) {
    await server.stop();
    throw error;
  }
}
