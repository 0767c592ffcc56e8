import { execFile } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
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
