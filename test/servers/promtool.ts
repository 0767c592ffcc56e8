import { aptUnpack } from './apt.ts';
import { installed } from './program.ts';

/**
 * The command that tests Prometheus rules: that of the machine, else that of Debian's next release, unpacked into `folder`.
 *
 * @throws Error with the package to install
 */
export async function promtool(folder: string): Promise<[string, ...string[]]> {
  const found = installed('promtool');
  if (found !== undefined) return [found];
  try {
    return await aptUnpack('promtool', 'usr/bin/promtool', folder);
  } catch (cause) {
    throw new Error('these tests need promtool on the PATH; it comes with Prometheus', { cause });
  }
}
