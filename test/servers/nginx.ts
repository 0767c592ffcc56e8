import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { aptUnpack } from './apt.ts';
import { installed } from './program.ts';

/**
 * The command of an nginx with `sticky learn`, 1.29.6 or newer: the nginx of the machine if it is new enough, else that
 * of Debian's next release, unpacked into `folder` with its libraries.
 *
 * @throws Error with the package to install
 */
export async function nginxThatLearns(folder: string): Promise<[string, ...string[]]> {
  const found = installed('nginx');
  if (found !== undefined && (await learns(found))) return [found];
  try {
    return await aptUnpack('nginx', 'usr/sbin/nginx', folder);
  } catch (cause) {
    throw new Error('these tests need nginx 1.29.6 or newer on the PATH', { cause });
  }
}

async function learns(nginx: string): Promise<boolean> {
  const { stderr } = await promisify(execFile)(nginx, ['-v']);
  const [major = 0, minor = 0, patch = 0] = (/nginx\/([\d.]+)/.exec(stderr)?.[1] ?? '')
    .split('.')
    .map(Number);
  return major * 1e6 + minor * 1e3 + patch >= 1_029_006;
}
