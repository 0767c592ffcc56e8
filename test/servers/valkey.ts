import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { basename, delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { aptInstall } from './apt.ts';
import { Supervised, onFreePort, serverFolder, unprivileged } from './supervised.ts';
import {
  type PrivateValkey,
  SETTINGS,
  VALKEY_SOURCES,
  type ValkeyServer,
  type ValkeySettings,
  type ValkeySource,
  answering,
  removeKeys,
  serverUrl,
  settingArguments,
} from './valkey-server.ts';

const IMAGE = 'valkey/valkey:8-alpine';
const PULL_MS = 300_000;

/**
 * The server named by `TEST_VALKEY_URL`, else a server from `startValkey`. Stopping the former removes
 * the keys of this run.
 *
 * @throws Error with the failed attempts and the packages to install
 */
export async function acquireValkey(): Promise<ValkeyServer> {
  const given = process.env['TEST_VALKEY_URL'];
  if (given === undefined || given === '') return startValkey();
  return { url: given, stop: () => removeKeys(given) };
}

/**
 * Starts a server without a password on a random loopback port, with an append-only file unless
 * `settings` disable it.
 *
 * @param sources  the sources to try; all if omitted
 * @throws Error with the failed attempts and the packages to install
 */
export async function startValkey(
  settings: ValkeySettings = {},
  sources: readonly ValkeySource[] = VALKEY_SOURCES,
): Promise<PrivateValkey> {
  const failures: string[] = [];
  for (const source of sources) {
    try {
      return await START[source]({ ...SETTINGS, ...settings });
    } catch (error) {
      failures.push(`${source}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  throw new Error(
    'these tests need Valkey or Redis: set TEST_VALKEY_URL, or install Valkey 7.2 or Redis 7.0 or newer ' +
      `(Debian: apt-get install valkey-server or redis-server; macOS: brew install valkey)\n  ${failures.join('\n  ')}`,
  );
}

const START: Record<ValkeySource, (settings: ValkeySettings) => Promise<PrivateValkey>> = {
  binaries: (settings) => startBinary('binaries', installed(), settings),
  docker: startInDocker,
  apt: async (settings) => {
    // Debian 13 has Valkey; Debian 12 has it in backports, if they are configured.
    await aptInstall('valkey-server').catch(() => aptInstall('redis-server'));
    return startBinary('apt', installed(), settings);
  },
};

/** @throws Error if there is none */
function installed(): string {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/bin', '/usr/local/bin'];
  for (const name of ['valkey-server', 'redis-server']) {
    const folder = folders.find((candidate) => candidate !== '' && existsSync(join(candidate, name)));
    if (folder !== undefined) return join(folder, name);
  }
  throw new Error('no valkey-server or redis-server on the PATH');
}

async function startBinary(
  source: ValkeySource,
  command: string,
  settings: ValkeySettings,
): Promise<PrivateValkey> {
  const server = new Supervised(serverFolder('valkey'), 'SIGKILL');
  try {
    const start = async (port: number): Promise<void> => {
      const own = { bind: '127.0.0.1', port: String(port), dir: server.folder, 'protected-mode': 'no' };
      await server.start({ command, args: settingArguments({ ...settings, ...own }), ...unprivileged });
      try {
        // Another server may have bound the port first, and would answer instead of this one.
        const answered = await answering(serverUrl(port), () => server.pid === undefined);
        if (answered !== server.pid)
          throw new Error(`${command} did not start on port ${port}\n${server.log}`);
      } catch (error) {
        // Otherwise the next try would leave behind a server that runs and does not answer.
        server.signalAll('SIGKILL');
        await server.exited();
        throw error;
      }
    };
    const port = await onFreePort(start);
    return {
      url: serverUrl(port),
      port,
      source,
      stop: () => server.stop(),
      async restart() {
        if (server.pid !== undefined) process.kill(server.pid, 'SIGTERM');
        await server.exited();
        await start(port);
      },
      async kill() {
        server.signalAll('SIGKILL');
        await server.exited();
      },
      pause: async () => server.signalAll('SIGSTOP'),
      resume: async () => server.signalAll('SIGCONT'),
    };
  } catch (error) {
    await server.stop();
    throw error;
  }
}

/** Supervises the client attached to the container; when the client ends, the container and its volume are removed. */
async function startInDocker(settings: ValkeySettings): Promise<PrivateValkey> {
  const docker = (...args: string[]) => promisify(execFile)('docker', args, { timeout: PULL_MS });
  await promisify(execFile)('docker', ['version', '--format', '{{.Server.Version}}'], { timeout: 10_000 });
  const folder = serverFolder('valkey');
  const name = basename(folder);
  const server = new Supervised(folder, 'SIGTERM', ['docker', 'rm', '--force', '--volumes', name]);
  try {
    const start = async (port: number): Promise<void> => {
      await server.start({ command: 'docker', args: ['start', '--attach', name] });
      const answered = await answering(serverUrl(port), () => server.pid === undefined);
      if (answered === 0) throw new Error(`no server started in ${IMAGE}\n${server.log}`);
    };
    const port = await onFreePort(async (candidate) => {
      await docker('rm', '--force', '--volumes', name).catch(() => {}); // left by a try at another port
      const publish = ['--publish', `127.0.0.1:${candidate}:6379`];
      const command = ['valkey-server', ...settingArguments({ ...settings, 'protected-mode': 'no' })];
      await docker('create', '--name', name, ...publish, IMAGE, ...command);
      await start(candidate);
    });
    return {
      url: serverUrl(port),
      port,
      source: 'docker',
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
