import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { aptInstall } from './apt.ts';

/**
 * The path of a program: on the PATH or in /usr/sbin, where Debian installs servers. If it is in neither, installs the
 * package of the same name.
 *
 * @throws Error with the package to install
 */
export async function program(name: string): Promise<string> {
  const found = installed(name);
  if (found !== undefined) return found;
  try {
    await aptInstall(name);
  } catch (cause) {
    throw new Error(
      `these tests need ${name} on the PATH (Debian: apt-get install ${name}; macOS: brew install ${name})`,
      { cause },
    );
  }
  return installed(name) ?? name;
}

/** Debian installs servers in /usr/sbin, which is not on every PATH. */
export function installed(name: string): string | undefined {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin'];
  return folders.map((folder) => join(folder, name)).find(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
