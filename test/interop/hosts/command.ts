import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Finished {
  readonly code: number | null;
  /** Both streams, in order of arrival. */
  readonly output: string;
  readonly stdout: string;
}

/** A third-party program with its own home folder: it sees no settings and no credentials of this machine. */
export class Sandbox {
  readonly home: string;

  private constructor(home: string) {
    this.home = home;
  }

  static async create(): Promise<Sandbox> {
    return new Sandbox(await mkdtemp(join(tmpdir(), 'holdfast-host-')));
  }

  environment(extra: Record<string, string> = {}): Record<string, string> {
    return { HOME: this.home, PATH: process.env['PATH'] ?? '', TMPDIR: tmpdir(), ...extra };
  }

  /** Runs a script under the Node of the repository, for at most a minute. */
  async run(script: string, args: readonly string[], env: Record<string, string> = {}): Promise<Finished> {
    const child = spawn(process.execPath, [script, ...args], {
      cwd: this.home,
      env: this.environment(env),
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: 60_000,
    });
    let output = '';
    let stdout = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => ((output += text), (stdout += text)));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (output += text));
    const code = await new Promise<number | null>((resolve, reject) => {
      child.on('error', reject);
      child.on('close', resolve);
    });
    return { code, output, stdout };
  }

  async remove(): Promise<void> {
    await rm(this.home, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Path of a program in node_modules of this folder. */
export function installed(path: string): string {
  return join(import.meta.dirname, '../node_modules', path);
}
