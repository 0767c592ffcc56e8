import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chown, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Environment } from '../environment.js';
import { childEnvironment } from './child-environment.js';
import { closedDescriptors } from './child-descriptors.js';
import { secretArguments } from './credential-like.js';
import type { ChildGuard } from './child-guard.js';
import { ConnectionFault } from '../connection.js';
import type { StdioSettings } from './stdio-settings.js';
import { maskerOf, StderrTail } from './stderr-tail.js';

/** How long a child is waited for. */
export const childTimings = {
  /** To leave by itself once its stdin is closed; then it gets SIGTERM. */
  eofMs: 2000,
  /** To clean up after SIGTERM; then it gets SIGKILL. */
  termMs: 3000,
  /** For its last bytes after it exited, or for its exit after it closed a pipe. */
  lingerMs: 500,
  /** SIGKILL takes effect at once, but for a process that hangs in the kernel. */
  killedMs: 2000,
};

const brokenOff = 'closed its end of a pipe';

export interface ChildOptions {
  /** Names the server in messages. */
  readonly server: string;
  /** Placeholders filled. */
  readonly settings: StdioSettings;
  /** Values that may not be shown, beside those of the child's own `env`. */
  readonly secrets: readonly string[];
  /** Our own environment, of which a part passes on. */
  readonly environment: Environment;
  readonly guard: ChildGuard;
  readonly timings?: typeof childTimings;
  /** A user and group of its own; needs root. */
  readonly userId?: number;
}

/**
 * A process of an upstream server, in a process group of its own.
 *
 * It is *alive* until it exits or closes its end of a pipe. Then what is left of its group is killed,
 * its last bytes are read, and it has *ended*: nothing more comes. `stop` brings that about.
 */
export class UpstreamChild {
  readonly stdin: ChildProcessWithoutNullStreams['stdin'];
  readonly stdout: ChildProcessWithoutNullStreams['stdout'];
  /** Resolves once nothing more can come. */
  readonly ended: Promise<void>;
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #stderr: StderrTail;
  readonly #exited: Promise<void>;
  readonly #timings: typeof childTimings;
  #isAlive = true;
  #isKilled = false;
  /** Why it was killed; undefined when it ended by itself. */
  #reason: string | undefined;
  #stopping: Promise<void> | undefined;

  constructor(
    child: ChildProcessWithoutNullStreams,
    stderr: StderrTail,
    { guard, timings = childTimings }: ChildOptions,
  ) {
    this.#timings = timings;
    this.stdin = child.stdin;
    this.stdout = child.stdout;
    this.#child = child;
    this.#stderr = stderr;
    child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk));
    const streams = [child.stdin, child.stdout, child.stderr];
    // Each error is followed by a 'close' or an 'exit'.
    for (const source of [child, ...streams]) source.on('error', () => {});
    this.ended = new Promise((resolve) => child.once('close', () => resolve()));
    this.#exited = new Promise((resolve) => {
      child.once('exit', () => {
        this.#isAlive = false;
        // Grandchildren hold the pipes open, and outlive a wrapper that died (F130).
        this.#killGroup();
        guard.remove(this.pid);
        resolve();
      });
    });
    void this.#exited
      .then(() => within(timings.lingerMs, this.ended))
      // A process that left the group may hold a pipe still.
      .then(() => streams.forEach((stream) => stream.destroy()));
    for (const stream of [child.stdin, child.stdout]) stream.once('close', () => void this.#breakOff());
  }

  /** Whether it runs, reads and may answer. */
  get isAlive(): boolean {
    return this.#isAlive;
  }

  /** The process id, which is that of its group too. */
  get pid(): number {
    return this.#child.pid!;
  }

  /** How it ended and what it said last, for an error message; secrets masked. */
  describe(): string {
    const said = this.#stderr.text();
    return said === '' ? this.#how() : `${this.#how()}; its last lines on stderr:\n${said}`;
  }

  /**
   * Closes its stdin, then sends SIGTERM, then SIGKILL to its group, with time to leave between them.
   * Resolves when nothing of it runs. Never rejects; safe twice.
   */
  stop(): Promise<void> {
    return (this.#stopping ??= this.#stop());
  }

  async #stop(): Promise<void> {
    this.#isAlive = false;
    this.#reason ??= 'was stopped';
    this.stdin.end();
    await within(this.#timings.eofMs, this.#exited);
    await this.#end();
  }

  /** Has it leave. Its exit has what is left of its group killed. */
  async #end(): Promise<void> {
    if (!this.#hasExited()) {
      this.#signalGroup('SIGTERM');
      await within(this.#timings.termMs, this.#exited);
    }
    this.#killGroup();
    await within(this.#timings.killedMs, this.ended);
  }

  /** It closed a pipe: no call can go to it, or no answer can come. One that does not leave now is made to. */
  async #breakOff(): Promise<void> {
    this.#isAlive = false;
    await within(this.#timings.lingerMs, this.#exited);
    if (this.#hasExited() || this.#stopping !== undefined) return;
    this.#reason ??= brokenOff;
    await this.#end();
  }

  #how(): string {
    if (this.#reason !== undefined) return this.#reason;
    const { exitCode, signalCode } = this.#child;
    if (exitCode !== null) return `exited with code ${exitCode}`;
    if (signalCode !== null) return `was ended by ${signalCode}`;
    return this.#isAlive ? 'is running' : brokenOff;
  }

  #hasExited(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Once: later the id may be that of another group. */
  #killGroup(): void {
    if (this.#isKilled) return;
    this.#isKilled = true;
    this.#signalGroup('SIGKILL');
  }

  #signalGroup(signal: 'SIGTERM' | 'SIGKILL'): void {
    try {
      if (process.platform === 'win32') this.#child.kill(signal);
      else process.kill(-this.pid, signal);
    } catch {
      // Nothing is left of it.
    }
  }
}

/**
 * Starts a server's process, without a shell: its arguments arrive as they are (F138).
 * @throws ConnectionFault naming the command when it cannot be started
 */
export async function startChild(options: ChildOptions): Promise<UpstreamChild> {
  const { server, settings, secrets, environment, guard, userId } = options;
  const mask = maskerOf([...Object.values(settings.env), ...secretArguments(settings.args), ...secrets]);
  guard.start();
  const folder = settings.cwd === undefined ? await makeFolder(userId) : undefined;
  try {
    const child = spawn(settings.command, settings.args, {
      cwd: settings.cwd ?? folder,
      ...(userId !== undefined && { uid: userId, gid: userId }),
      env: childEnvironment(settings, environment),
      stdio: ['pipe', 'pipe', 'pipe', ...closedDescriptors()],
      shell: false,
      // A session of its own, so that its whole group can be killed, and Ctrl-C at our terminal stays ours.
      detached: process.platform !== 'win32',
      windowsHide: true,
    }) as ChildProcessWithoutNullStreams;
    if (child.pid !== undefined) {
      guard.add(child.pid);
      const started = new UpstreamChild(child, new StderrTail(mask), options);
      if (folder !== undefined) void started.ended.then(() => removeFolder(folder));
      return started;
    }
    throw await new Promise<Error>((resolve) => child.once('error', resolve));
  } catch (error) {
    if (folder !== undefined) await removeFolder(folder);
    throw new ConnectionFault('unreachable', `${server}: ${mask(whyNotStarted(settings, error))}`);
  }
}

/** An empty folder for a child that has no `cwd`: ours may be that of the store. It lives as long as the child. */
async function makeFolder(userId: number | undefined): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-child-')).catch(() => '/');
  if (userId !== undefined && folder !== '/') await chown(folder, userId, userId);
  return folder;
}

async function removeFolder(folder: string): Promise<void> {
  // What a process that left the group still writes may keep it.
  if (folder !== '/') await rm(folder, { recursive: true, force: true }).catch(() => {});
}

function whyNotStarted({ command, cwd }: StdioSettings, error: unknown): string {
  const { code = 'unknown error' } = error as NodeJS.ErrnoException;
  if (cwd !== undefined && !existsSync(cwd)) return `the folder ${cwd} (cwd) does not exist`;
  if (code === 'ENOENT') return `the command ${command} was not found; give its full path, or put it on PATH`;
  if (code === 'EACCES') return `the command ${command} may not be executed (${code})`;
  return `the command ${command} cannot be started (${code})`;
}

/** Waits for `event`, but no longer than `ms`. */
async function within(ms: number, event: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await Promise.race([event, new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)))]);
  clearTimeout(timer);
}
