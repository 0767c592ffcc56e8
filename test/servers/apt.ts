import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

const LISTS = '/var/lib/apt/lists';

/** Whether `aptInstall` may be tried: root on a machine of the Debian family. */
export function canAptInstall(): boolean {
  return process.getuid?.() === 0 && existsSync('/usr/bin/apt-get');
}

/**
 * Installs Debian packages without starting the services they bring. Refreshes the package lists when there
 * are none, or when the install fails with the ones there are (an old list names versions that are gone).
 */
export async function aptInstall(...packages: string[]): Promise<void> {
  if (!canAptInstall()) throw new Error('not root on Debian or Ubuntu');
  const apt = (...args: string[]) =>
    run('/usr/bin/apt-get', ['-o', 'DPkg::Lock::Timeout=120', '-q', ...args], {
      // RUNLEVEL=1: invoke-rc.d then leaves the package's own service alone.
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' },
      maxBuffer: 64 * 1024 ** 2,
    });
  const install = () => apt('install', '-y', '--no-install-recommends', ...packages);
  const listed = existsSync(LISTS) && readdirSync(LISTS).some((name) => name.includes('Packages'));
  if (listed) {
    try {
      await install();
      return;
    } catch {
      // with fresh lists, below
    }
  }
  await apt('update');
  await install();
}

/**
 * Unpacks a package of Debian's next release, with all that it depends on, into `folder`: nothing of it is
 * installed, and the machine's own package lists stay as they are.
 *
 * @param name     the package
 * @param program  where it is in the package: `usr/sbin/nginx`
 * @param folder   an empty one
 * @returns the command that runs it, with its own libraries
 * @throws Error where the machine does not have its packages from Debian
 */
export async function aptUnpack(
  name: string,
  program: string,
  folder: string,
): Promise<[string, ...string[]]> {
  const targets = ['indextargets', '--format', '$(REPO_URI)', 'Created-By: Packages', 'Label: Debian'];
  const archive = (await run('/usr/bin/apt-get', targets)).stdout.split('\n')[0]!;
  if (archive === '') throw new Error('this machine does not have its packages from Debian');
  const own = join(folder, 'apt');
  const packages = join(own, 'archives');
  for (const made of ['lists/partial', 'archives/partial']) mkdirSync(join(own, made), { recursive: true });
  const keys = '/usr/share/keyrings/debian-archive-keyring.gpg';
  writeFileSync(join(own, 'sources.list'), `deb [signed-by=${keys}] ${archive} testing main\n`);
  // No package is installed in the eyes of this apt, so that each is fetched.
  writeFileSync(join(own, 'status'), '');
  const options = Object.entries({
    'Dir::Etc::sourcelist': join(own, 'sources.list'),
    'Dir::Etc::sourceparts': '-',
    'Dir::State::lists': join(own, 'lists'),
    'Dir::State::status': join(own, 'status'),
    'Dir::Cache': own,
    // Its own user may not write into the folder.
    'APT::Sandbox::User': 'root',
    'Acquire::Languages': 'none',
  }).flatMap(([option, value]) => ['-o', `${option}=${value}`]);
  await run('/usr/bin/apt-get', [...options, '-q', 'update']);
  const download = ['install', '-q', '-y', '--download-only', '--no-install-recommends', name];
  await run('/usr/bin/apt-get', [...options, ...download]);
  for (const file of readdirSync(packages).filter((found) => found.endsWith('.deb')))
    await run('/usr/bin/dpkg-deb', ['--extract', join(packages, file), folder]);
  const triplet = readdirSync(join(folder, 'usr/lib')).find((found) => found.endsWith('-linux-gnu'))!;
  const libraries = join(folder, 'usr/lib', triplet);
  const loader = readdirSync(libraries).find((found) => found.startsWith('ld-linux'))!;
  return [join(libraries, loader), '--library-path', libraries, join(folder, program)];
}
