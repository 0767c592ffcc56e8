import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';

/**
 * Takes our variables out of `/proc/<our id>/environ`, which every process of our user may read. They stay in
 * `process.env`: the kernel shows the memory that a process was started with, and not what was set since. So
 * that memory is overwritten, and the variables are set anew.
 *
 * Tried instead: deleting from `process.env` leaves `environ` as it was; a process started with a clean
 * environment leaves its parent, which has the variables, beside it.
 *
 * @param env `process.env` itself
 * @returns whether it worked; not elsewhere than on Linux, and where /proc does not let us
 */
export function hideEnvironment(env: Record<string, string | undefined>): boolean {
  try {
    // "pid (command) state …": the command may hold spaces and parentheses.
    const stat = readFileSync('/proc/self/stat', 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // env_start and env_end, fields 50 and 51 of proc_pid_stat(5).
    const [start, end] = [Number(fields[47]), Number(fields[48])];
    if (!(start > 0 && end > start)) return false;
    const memory = openSync('/proc/self/mem', 'r+');
    try {
      const variables = { ...env };
      writeSync(memory, Buffer.alloc(end - start), 0, end - start, start);
      Object.assign(env, variables);
    } finally {
      closeSync(memory);
    }
    return readFileSync('/proc/self/environ').every((byte) => byte === 0);
  } catch {
    return false;
  }
}
