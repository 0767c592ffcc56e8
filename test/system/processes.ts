import { readdirSync, readFileSync } from 'node:fs';

/** A process as the kernel tells it; needs /proc. */
export interface ProcessRow {
  readonly pid: number;
  /** `Z`: dead, and not reaped by its parent. */
  readonly state: string;
  readonly parent: number;
  /** Empty of a zombie. */
  readonly command: string;
}

export function processes(): ProcessRow[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        // "pid (command) state parent …": the command may hold spaces and parentheses.
        const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
        const [state = '', parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
        const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ');
        return [{ pid: Number(name), state, parent: Number(parent), command }];
      } catch {
        return []; // exited meanwhile
      }
    });
}

/** The processes that run and have `mark` on their command line, each by its id. */
export function marked(mark: string): number[] {
  return processes()
    .filter(({ command, state }) => command.includes(mark) && state !== 'Z')
    .map(({ pid }) => pid);
}
