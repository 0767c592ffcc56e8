import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  statfsSync,
} from 'node:fs';
import { Socket, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/** The user of servers if the tests run as root, because Postgres and PgBouncer reject root. Empty otherwise. */
export const unprivileged: { uid?: number; gid?: number } =
  process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};

const ROOM_BYTES = 2 * 1024 ** 3;

/**
 * Creates an empty folder that the user of the server owns; in memory (/dev/shm) if 2 GiB are free there.
 * It is removed with its `Supervised`.
 */
export function serverFolder(name: string): string {
  const folder = mkdtempSync(join(hasRoom('/dev/shm') ? '/dev/shm' : tmpdir(), `holdfast-${name}-`));
  chmodSync(folder, 0o700);
  if (unprivileged.uid !== undefined) chownSync(folder, unprivileged.uid, unprivileged.gid ?? -1);
  return folder;
}

function hasRoom(folder: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize >= ROOM_BYTES;
  } catch {
    return false;
  }
}

/** A loopback port that was free a moment ago: another process may bind it first. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port was assigned');
  return address.port;
}

/** Tries a few ports, because another process may bind a free one first. */
export async function onFreePort(start: (port: number) => Promise<void>, tries = 3): Promise<number> {
  const port = await freePort();
  try {
    await start(port);
    return port;
  } catch (error) {
    if (tries === 1) throw error;
    return onFreePort(start, tries - 1);
  }
}

/**
 * Polls every 20 ms until the answer is neither undefined nor an error.
 *
 * @throws Error with `what` and the last failure, after `withinMs`
 */
export async function eventually<T>(
  what: string,
  ask: () => Promise<T | undefined> | T | undefined,
  withinMs = 30_000,
): Promise<T> {
  const deadline = Date.now() + withinMs;
  let cause: unknown;
  do {
    try {
      const answer = await ask();
      if (answer !== undefined) return answer;
    } catch (error) {
      cause = error;
    }
    await delay(20);
  } while (Date.now() < deadline);
  throw new Error(`${what}: not within ${withinMs} ms`, { cause });
}

/** The command to run; `unprivileged` is added for servers that reject root. */
export interface ServerCommand {
  command: string;
  args: string[];
  uid?: number;
  gid?: number;
}

/**
 * One server process in its folder, run by `supervise.mjs`, so that neither remains if this process dies. It does not
 * keep the event loop alive: a test that forgets `stop` does not hang.
 */
export class Supervised {
  readonly folder: string;
  readonly #log: string;
  readonly #supervisor: ChildProcess;
  readonly #left: Promise<void>;
  #pid: number | undefined;
  #settle: { resolve: (pid: number) => void; reject: (reason: Error) => void } | undefined;

  /**
   * @param stopSignal  the signal that makes the server exit quickly, without regard to its data
   * @param cleanUp     a command to run after the server has exited for good
   */
  constructor(folder: string, stopSignal: NodeJS.Signals, cleanUp?: string[]) {
    this.folder = folder;
    this.#log = join(folder, 'server.log');
    this.#supervisor = spawn(
      process.execPath,
      [
        fileURLToPath(new URL('./supervise.mjs', import.meta.url)),
        JSON.stringify({ folder, stopSignal, cleanUp }),
      ],
      // Detached: Ctrl-C at the terminal must reach only the tests, which then end stdin.
      { stdio: ['pipe', 'pipe', 'inherit'], detached: true },
    );
    this.#left = new Promise((resolve) => this.#supervisor.once('exit', () => resolve()));
    this.#supervisor.stdin?.on('error', () => {}); // the supervisor has already exited
    createInterface({ input: this.#supervisor.stdout! }).on('line', (line) => this.#on(JSON.parse(line)));
    this.#supervisor.unref();
    this.#awaitEvents(false);
  }

  /** The server's process id; undefined before `start` and after the server has exited. */
  get pid(): number | undefined {
    return this.#pid;
  }

  /** The last lines that the server wrote, for error messages. */
  get log(): string {
    try {
      return readFileSync(this.#log, 'utf8').split('\n').slice(-15).join('\n').trim();
    } catch {
      return '';
    }
  }

  /** Starts the server, which must not be running; resolves once the process exists, before it answers. */
  async start(command: ServerCommand): Promise<number> {
    this.#awaitEvents(true);
    try {
      return await new Promise<number>((resolve, reject) => {
        this.#settle = { resolve, reject };
        this.#supervisor.stdin?.write(`${JSON.stringify({ ...command, log: this.#log })}\n`);
      });
    } finally {
      this.#awaitEvents(false);
    }
  }

  /** Sends a signal to the server and its child processes, the parent first so that it cannot fork more. */
  signalAll(signal: NodeJS.Signals): void {
    if (this.#pid === undefined) return;
    const parent = this.#pid;
    process.kill(parent, signal);
    for (const child of childrenOf(parent)) {
      try {
        process.kill(child, signal);
      } catch {
        // exited meanwhile
      }
    }
  }

  /** Resolves when the server has exited, on its own or by a signal to `pid`. */
  async exited(withinMs = 30_000): Promise<void> {
    await eventually('server exit', () => (this.#pid === undefined ? true : undefined), withinMs);
  }

  /** Stops the server and removes its folder. Safe twice. */
  async stop(): Promise<void> {
    this.#supervisor.ref();
    this.#supervisor.stdin?.end();
    await this.#left;
  }

  #on(event: { started?: number; exited?: number | string; failed?: string }): void {
    this.#pid = event.started;
    if (event.started !== undefined) this.#settle?.resolve(event.started);
    else this.#settle?.reject(new Error(event.failed ?? `exited with ${event.exited}`));
  }

  /** Whether this process stays alive for events of the supervisor. */
  #awaitEvents(on: boolean): void {
    for (const pipe of [this.#supervisor.stdin, this.#supervisor.stdout]) {
      if (pipe instanceof Socket) pipe[on ? 'ref' : 'unref']();
    }
  }
}

function childrenOf(parent: number): number[] {
  return processes()
    .filter(([, ppid]) => ppid === parent)
    .map(([pid]) => pid);
}

/** Pairs of process id and parent id. Reads /proc first, because slim images have no `ps`. */
function processes(): [pid: number, ppid: number][] {
  if (!existsSync('/proc/self/stat')) {
    const rows = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' }).trim().split('\n');
    return rows.map((row) => row.trim().split(/\s+/).map(Number) as [number, number]);
  }
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name): [number, number][] => {
      try {
        // "pid (command) state ppid ...": the command may hold spaces and parentheses.
        const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
        return [[Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])]];
      } catch {
        return []; // exited meanwhile
      }
    });
}
