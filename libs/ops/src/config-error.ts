import { maskSecrets } from './mask.js';

/** One thing that is wrong with the configuration; the message is one line and echoes no secret. */
export interface ConfigProblem {
  readonly variable: string;
  readonly message: string;
}

/** The exit code of a configuration error (`EX_CONFIG` of sysexits.h). */
export const CONFIG_EXIT_CODE = 78;

/** The process cannot start as configured. Lists every problem found, not just the first. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly exitCode = CONFIG_EXIT_CODE;
  readonly problems: readonly ConfigProblem[];

  constructor(problems: readonly ConfigProblem[]) {
    super(problems.map(line).join('\n'));
    this.problems = problems;
  }
}

/**
 * Prints every problem on its own line and returns the exit code, or returns undefined for any other error,
 * which the caller then treats as the fault it is.
 */
export function reportConfigError(
  error: unknown,
  stderr: { write(text: string): unknown },
): typeof CONFIG_EXIT_CODE | undefined {
  if (!(error instanceof ConfigError)) return undefined;
  for (const problem of error.problems) stderr.write(`${line(problem)}\n`);
  return error.exitCode;
}

function line({ variable, message }: ConfigProblem): string {
  return maskSecrets(`${variable}: ${message}`).replace(/\s*[\r\n]+\s*/g, ' ');
}
