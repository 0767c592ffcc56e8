import type { ServiceLog } from '@holdfast/run';
import { pino } from 'pino';
import { isError, loggable } from './loggable.js';
import { maskSecrets } from './mask.js';

/** Levels from the least to the most important; `silent` writes nothing. */
export const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const;
export type LogLevel = (typeof logLevels)[number];

export interface LogOptions {
  readonly level: LogLevel;
  /** Written as `service`. */
  readonly name: string;
  /** Where lines go; stdout when omitted. A server on stdio keeps stdout for the protocol and logs to stderr. */
  readonly destination?: 'stdout' | 'stderr' | { write(line: string): void };
}

/**
 * A log of JSON lines: `{"level":"info","time":"2026-…Z","service":…,"pid":…,…fields,"msg":…}`.
 *
 * Lines are written before the call returns, so the last one before an exit is not lost. Credentials are
 * kept out by name and by shape, see `loggable`.
 */
export function createLogger({ level, name, destination = 'stdout' }: LogOptions): ServiceLog {
  const logger = pino(
    {
      level,
      base: { service: name, pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      // Errors are reduced before pino sees them; its own serialiser would take the copy apart again.
      serializers: { err: (value: unknown) => value },
    },
    typeof destination === 'object'
      ? destination
      : pino.destination({ fd: destination === 'stdout' ? 1 : 2, sync: true }),
  );
  return over(logger);
}

function over(logger: pino.Logger): ServiceLog {
  const write =
    (level: Exclude<LogLevel, 'silent'>) =>
    (fields: object, message: string): void => {
      if (logger.isLevelEnabled(level)) logger[level](clean(fields), maskSecrets(message));
    };
  return {
    debug: write('debug'),
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
    child: (fields) => over(logger.child(clean(fields))),
  };
}

function clean(fields: object): object {
  const copied = loggable(isError(fields) ? { err: fields } : fields);
  return typeof copied === 'object' && copied !== null ? copied : { fields: copied };
}
