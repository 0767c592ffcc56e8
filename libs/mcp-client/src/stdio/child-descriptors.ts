import { openSync, readdirSync, readFileSync } from 'node:fs';

const closeOnExec = 0o2000000;
const maxDescriptors = 1024;

let closed: readonly (number | 'ignore')[] | undefined;

/**
 * What a child gets in place of the descriptors from 3 on that this process was started with: a shell, a
 * supervisor or a socket activation may have left them open, and a child would inherit them. Node itself opens
 * nothing that a child inherits, so they are looked up once. Without /proc nothing is known of them.
 */
export function closedDescriptors(): readonly (number | 'ignore')[] {
  return (closed ??= findInherited());
}

function findInherited(): readonly (number | 'ignore')[] {
  try {
    const inherited = readdirSync('/proc/self/fdinfo')
      .map(Number)
      .filter((descriptor) => descriptor >= 3 && descriptor < maxDescriptors && isInherited(descriptor));
    if (inherited.length === 0) return [];
    const nothing = openSync('/dev/null', 'r');
    // Only those: libuv reports a command that cannot be started through a descriptor of its own among the others.
    return Array.from({ length: Math.max(...inherited) - 2 }, (_, i) =>
      inherited.includes(i + 3) ? nothing : 'ignore',
    );
  } catch {
    return [];
  }
}

function isInherited(descriptor: number): boolean {
  try {
    const flags = /^flags:\s*(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8'))?.[1];
    return flags !== undefined && (parseInt(flags, 8) & closeOnExec) === 0;
  } catch {
    return false; // that of the listing itself, closed again
  }
}
