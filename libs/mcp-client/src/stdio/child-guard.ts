import type { Log } from '@holdfast/run';
import { spawn, type ChildProcess } from 'node:child_process';
import type { Socket } from 'node:net';

/**
 * Reads `+ id` and `- id`, one a line; at the end of its input every group that is still on its list
 * is killed. The list are its positional parameters, so that it needs no other program than the shell.
 */
const script = `
trap '' HUP INT TERM
set --
while read -r sign id; do
  case $sign in
    +) set -- "$@" "$id" ;;
    -) left=$#
       while [ "$left" -gt 0 ]; do
         [ "$1" = "$id" ] || set -- "$@" "$1"
         shift
         left=$((left - 1))
       done ;;
  esac
done
for id; do kill -s KILL -- "-$id"; done
`;

/** A watchdog that lived shorter than this is not replaced at once, so that one that cannot live costs little. */
const restartPauseMs = 1000;

/**
 * Sees to it that no process group of a child outlives this process, however it ends: SIGKILL of us
 * closes a pipe, and a small watchdog process at its other end kills the groups (F135). It is started
 * with the first child, and again when it dies.
 *
 * A child that leaves its group (`setsid`) is not seen. On Windows nothing is guarded.
 */
export class ChildGuard {
  readonly #log: Log;
  readonly #groups = new Set<number>();
  #watchdog: ChildProcess | undefined;
  #startedAt = 0;
  #isClosed = false;

  constructor({ log }: { readonly log: Log }) {
    this.#log = log;
  }

  /** The watchdog's process id; undefined while none runs. */
  get pid(): number | undefined {
    return this.#watchdog?.pid;
  }

  /** Starts the watchdog where none runs. Called before a child starts, so that its group is recorded at once. */
  start(): void {
    if (this.#watchdog !== undefined || this.#isClosed || process.platform === 'win32') return;
    this.#startedAt = performance.now();
    const watchdog = spawn('/bin/sh', ['-c', script], {
      stdio: ['pipe', 'ignore', 'ignore'],
      // A group of its own: what ends ours must not reach it.
      detached: true,
      cwd: '/',
      env: {},
    });
    this.#watchdog = watchdog;
    const input = watchdog.stdin as Socket;
    // It is gone; its exit tells.
    input.on('error', () => {});
    watchdog.once('error', (error) => {
      this.#log.error({ err: error }, 'children are not guarded: the watchdog cannot start');
      this.#replace(watchdog);
    });
    watchdog.once('exit', () => this.#replace(watchdog));
    watchdog.unref();
    input.unref();
    for (const group of this.#groups) this.#tell('+', group);
  }

  /** Has `group` killed when this process ends. */
  add(group: number): void {
    this.#groups.add(group);
    if (this.#watchdog === undefined) this.start();
    else this.#tell('+', group);
  }

  /** `group` is gone. To be called before its id can be given to another. */
  remove(group: number): void {
    if (this.#groups.delete(group)) this.#tell('-', group);
  }

  /** Ends the watchdog, which kills the groups that are still recorded. Safe twice. */
  close(): void {
    this.#isClosed = true;
    this.#watchdog?.stdin?.end();
  }

  #tell(sign: '+' | '-', group: number): void {
    this.#watchdog?.stdin?.write(`${sign} ${group}\n`);
  }

  #replace(gone: ChildProcess): void {
    if (this.#watchdog !== gone) return;
    this.#watchdog = undefined;
    if (this.#isClosed || this.#groups.size === 0) return;
    const pauseMs = Math.max(0, restartPauseMs - (performance.now() - this.#startedAt));
    setTimeout(() => this.start(), pauseMs).unref();
  }
}
