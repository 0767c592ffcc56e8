import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const main = join(import.meta.dirname, '../../apps/standalone/dist/main.js');

export interface Standalone {
  readonly port: number;
  readonly url: string;
  /** Its output so far, both streams in order of arrival. */
  printed(): string;
  stop(): Promise<void>;
}

/**
 * Starts the standalone app as `npm start` does, in its own empty folder and on a free loopback port, and
 * resolves when it is ready.
 *
 * @param settings variables besides the port; variables of the shell that begin with HOLDFAST_ or OTEL_
 *                 are not passed on
 * @throws Error with its output, if it ended or was not ready within 30 s
 */
export async function startStandalone(settings: Record<string, string> = {}): Promise<Standalone> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-interop-'));
  const port = await freePort();
  const child = spawn(process.execPath, [main], {
    cwd: folder,
    env: { ...ownEnvironment(), HOLDFAST_PORT: String(port), HOLDFAST_DRAIN_MS: '1000', ...settings },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  }
  const ended = once(child, 'exit');
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  const stop = async () => {
    if (!hasEnded()) {
      child.kill('SIGTERM');
      const forced = setTimeout(() => child.kill('SIGKILL'), 10_000);
      await ended;
      clearTimeout(forced);
    }
    await rm(folder, { recursive: true, force: true });
  };
  const origin = `http://127.0.0.1:${port}`;
  const deadline = Date.now() + 30_000;
  while (!(await isReady(origin))) {
    if (hasEnded() || Date.now() > deadline) {
      await stop();
      throw new Error(`the standalone app did not become ready; it printed:\n${output}`);
    }
    await sleep(100);
  }
  return { port, url: `${origin}/mcp`, printed: () => output, stop };
}

async function isReady(origin: string): Promise<boolean> {
  try {
    return (await fetch(`${origin}/readyz`)).ok;
  } catch {
    return false;
  }
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}

function ownEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(HOLDFAST|OTEL)_/.test(name)));
}
