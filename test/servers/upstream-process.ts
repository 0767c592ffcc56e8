import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { askUpstream } from './upstream-control.ts';
import { readExecutions, type KeptExecution } from './upstream-executions.ts';
import type { UpstreamScript } from './upstream-script.ts';
import { eventually, freePort, serverFolder, Supervised } from './supervised.ts';

/** A scriptable upstream in a separate process, always on the same ports. Its executions outlive it. */
export interface UpstreamProcess {
  readonly url: string;
  /** For `askUpstream`. */
  readonly controlUrl: string;
  /** Its executions so far, whether it runs or not. */
  executions(): KeptExecution[];
  /** Kills it (`kill -9`), like a crash. */
  kill(): Promise<void>;
  /** Starts it again, with its first script and without sessions. */
  restart(): Promise<void>;
  /** Ends it for good and removes its files. */
  stop(): Promise<void>;
}

export async function startUpstreamProcess(script: Partial<UpstreamScript> = {}): Promise<UpstreamProcess> {
  const server = new Supervised(serverFolder('upstream'), 'SIGKILL');
  const [port, controlPort] = [await freePort(), await freePort()];
  const file = join(server.folder, 'executions');
  const controlUrl = `http://127.0.0.1:${controlPort}`;
  const start = async (): Promise<void> => {
    await server.start({
      command: process.execPath,
      args: [
        '--disable-warning=ExperimentalWarning',
        fileURLToPath(new URL('./scriptable-upstream.ts', import.meta.url)),
        ...['--port', String(port), '--control-port', String(controlPort)],
        ...['--file', file, '--script', JSON.stringify(script)],
      ],
    });
    await eventually('the upstream', () => askUpstream(controlUrl, 'state'));
  };
  await start();
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    controlUrl,
    executions: () => readExecutions(file),
    async kill() {
      server.signalAll('SIGKILL');
      await server.exited();
    },
    restart: start,
    stop: () => server.stop(),
  };
}
