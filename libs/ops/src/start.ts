import { reportConfigError } from './config-error.js';

/**
 * Starts a service. What stops it from starting is told on stderr, one problem a line, and ends
 * the process: with 78 when the configuration is wrong, else with 1.
 */
export async function startOrExit(start: () => Promise<void>): Promise<void> {
  try {
    await start();
  } catch (error) {
    const code = reportConfigError(error, process.stderr);
    if (code === undefined)
      process.stderr.write(`${error instanceof Error ? `${error.name}: ${error.message}` : String(error)}\n`);
    process.exit(code ?? 1);
  }
}
