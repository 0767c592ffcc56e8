/**
 * Installs the packages for the other commands of this folder: once, and again when the lock file changes.
 * It imports none of these packages.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const folder = import.meta.dirname;
const stamp = join(folder, 'node_modules', '.installed');
const wanted = createHash('sha256')
  .update(readFileSync(join(folder, 'package-lock.json')))
  .digest('hex');

if (readIfThere(stamp) !== wanted) {
  process.stdout.write('installing the foreign hosts and the conformance suite (once, about 550 MB)\n');
  const { status, error } = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: folder,
    stdio: 'inherit',
  });
  if (status !== 0) throw new Error(`npm ci in ${folder} failed`, { cause: error });
  writeFileSync(stamp, wanted);
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
