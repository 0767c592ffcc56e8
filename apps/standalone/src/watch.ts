import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, watch } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readStandaloneSettings } from './settings.js';

/** Editors write a file in several steps; they are one change. */
const settleMs = 150;

/**
 * Serves, and starts again when a file changes in the folder of a tool module. The old process
 * drains first, so a call that runs then ends or goes on in the new one.
 */
export async function serveAndWatch(): Promise<void> {
  const settings = readStandaloneSettings(process.env);
  const folders = new Set(
    settings.tools.filter((module) => existsSync(module)).map((module) => dirname(resolve(module))),
  );
  let child = start();
  let settling: NodeJS.Timeout | undefined;
  let restarting = false;
  let stopping = false;

  const restart = async (): Promise<void> => {
    if (restarting || stopping) return;
    restarting = true;
    process.stderr.write('a tool module changed; starting again\n');
    await stop(child, 'SIGTERM');
    if (stopping) return; // what was started now would outlive us
    child = start();
    restarting = false;
  };
  for (const folder of folders) {
    watch(folder, { recursive: true }, (_event, file) => {
      if (
        file === null ||
        /(^|[\\/])(node_modules|\.git|data)([\\/]|$)/.test(file) ||
        !/\.[cm]?[jt]s$|\.json$/.test(file)
      )
        return;
      clearTimeout(settling);
      settling = setTimeout(() => void restart(), settleMs);
    });
  }
  if (folders.size === 0)
    process.stderr.write('--watch: HOLDFAST_TOOLS names no file, so there is nothing to watch\n');
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.once(signal, () => {
      stopping = true;
      void stop(child, signal).then((code) => process.exit(code));
    });
  }
}

function start(): ChildProcess {
  const main = fileURLToPath(new URL('./main.js', import.meta.url));
  return spawn(process.execPath, [main], { stdio: 'inherit' });
}

/** @returns the exit code; a child that has ended already is fine, it waits for the next change */
function stop(child: ChildProcess, signal: NodeJS.Signals): Promise<number> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode ?? 1);
  return new Promise((resolve) => {
    child.once('exit', (code) => resolve(code ?? 1));
    child.kill(signal);
  });
}
