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
 * Installs Debian packages without starting their services. Refreshes the package lists if there are none, or if
 * the install fails with the current ones (an old list names versions that no longer exist).
 */
export async function aptInstall(...packages: string[]): Promise<void> {
  if (!canAptInstall()) throw new Error('not root on Debian or Ubuntu');
  const apt = (...args: string[]) =>
    run('/usr/bin/apt-get', ['-o', 'DPkg::Lock::Timeout=120', '-q', ...args], {
      // With RUNLEVEL=1, invoke-rc.d does not start the service of the package.
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
      // retried with fresh lists, below
    }
  }
  await apt('update');
  await install();
}

/**
 * Unpacks a package of Debian's next release and its dependencies into `folder`. It installs nothing, and does not
 * change the package lists of the machine.
 *
 * @param name     the package
 * @param program  its path in the package: `usr/sbin/nginx`
 * @param folder   an empty folder
 * @returns the command that runs it, with its own libraries
 * @throws Error if the packages of the machine do not come from Debian
 */
export async function aptUnpack(
  name: string,
  program: string,
  folder: string,
): Promise<[string, ...string[]]> {
  const targets = ['indextargets', '--format', '$(REPO_URI)', 'Created-By: Packages', 'Label: Debian'];
  const archive = (await run('/usr/bin/apt-get', targets)).stdout.split('\n')[0]!;
  if (archive === '') throw new Error('the packages of this machine do not come from Debian');
  const own = join(folder, 'apt');
  const packages = join(own, 'archives');
  for (const made of ['lists/partial', 'archives/partial']) mkdirSync(join(own, made), { recursive: true });
  const keys = '/usr/share/keyrings/debian-archive-keyring.gpg';
  writeFileSync(join(own, 'sources.list'), `deb [signed-by=${keys}] ${archive} testing main\n`);
  // This apt sees no package as installed, so it fetches each.
  writeFileSync(join(own, 'status'), '');
  const options = Object.entries({
    'Dir::Etc::sourcelist': join(own, 'sources.list'),
    'Dir::Etc::sourceparts': '-',
    'Dir::State::lists': join(own, 'lists'),
    'Dir::State::status': join(own, 'status'),
    'Dir::Cache': own,
    // The user of apt may not write to the folder.
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
