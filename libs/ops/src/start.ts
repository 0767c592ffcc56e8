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
    if (code === undefined) process.stderr.write(`${describe(error)}\n`);
    process.exit(code ?? 1);
  }
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code, port, address } = error as NodeJS.ErrnoException & { port?: number; address?: string };
  if (code === 'EADDRINUSE') {
    return `${address}:${port} is taken: another process listens there; set HOLDFAST_PORT, or HOLDFAST_OPS_PORT, to another port`;
  }
  return `${error.name}: ${error.message}`;
}
