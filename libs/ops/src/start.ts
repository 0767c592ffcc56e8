import { RunError } from '@holdfast/run';
import { ConfigError, reportConfigError } from './config-error.js';

/**
 * Starts a service. What stops it from starting is told on stderr, one problem a line, and ends
 * the process: with 78 when the configuration is wrong, else with 1.
 */
export async function startOrExit(start: () => Promise<void>): Promise<void> {
  try {
    await start();
  } catch (thrown) {
    const error = toConfigError(thrown);
    const code = reportConfigError(error, process.stderr);
    if (code === undefined) process.stderr.write(`${describe(error)}\n`);
    process.exit(code ?? 1);
  }
}

/** The setting at fault, where only its use can tell. */
const settingOf: Readonly<Record<string, string>> = {
  'store-unfit': 'HOLDFAST_STORE',
  'tool-module': 'HOLDFAST_TOOLS',
  'tool-registration': 'HOLDFAST_TOOLS',
};

function toConfigError(thrown: unknown): unknown {
  const variable = thrown instanceof RunError ? settingOf[thrown.code] : undefined;
  if (variable === undefined) return thrown;
  const { name, message } = thrown as RunError;
  return new ConfigError([{ variable, message: name === 'RunError' ? message : `${name}: ${message}` }]);
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code, port, address } = error as NodeJS.ErrnoException & { port?: number; address?: string };
  if (code === 'EADDRINUSE') {
    return `${address}:${port} is taken: another process listens there; set HOLDFAST_PORT, or HOLDFAST_OPS_PORT, to another port`;
  }
  return `${error.name}: ${error.message}`;
}
