import type { Log } from '@holdfast/run';

/** What of `process` is used here. */
export interface ProcessLike {
  on(event: string, listener: (...values: unknown[]) => void): unknown;
  exit(code: number): unknown;
}

export interface RunOptions {
  /** Finishes what there is and closes everything. Called once. */
  readonly stop: () => Promise<void>;
  readonly log: Pick<Log, 'info' | 'error'>;
  /** How long `stop` may take; a little more than the drain it contains. */
  readonly graceMs: number;
  readonly signals?: readonly NodeJS.Signals[];
  readonly process?: ProcessLike;
}

export interface Running {
  /** Stops as a signal would; for a reason from inside, such as a host that closed stdin. */
  requestStop(reason: string): void;
  /** The exit code, just before the process exits with it. */
  readonly stopped: Promise<0 | 1>;
}

/**
 * Owns the signals: the first one calls `stop`, later ones change nothing (an orchestrator and a terminal may
 * both send one). The process exits with 0 after a clean stop and with 1, after a log line, when `stop` fails
 * or takes longer than the grace.
 *
 * Nest's own shutdown hooks must be off: they re-raise the signal, and the exit code would be 143.
 */
export function runUntilSignal({
  stop,
  log,
  graceMs,
  signals = ['SIGTERM', 'SIGINT'],
  process: owner = process,
}: RunOptions): Running {
  const { promise: stopped, resolve } = Promise.withResolvers<0 | 1>();
  let isStopping = false;

  async function end(): Promise<0 | 1> {
    const { promise: late, resolve: giveUp } = Promise.withResolvers<'late'>();
    const timer = setTimeout(() => giveUp('late'), graceMs);
    try {
      if ((await Promise.race([stop(), late])) !== 'late') return 0;
      log.error({ graceMs }, 'stop took longer than its grace');
    } catch (err) {
      log.error({ err }, 'stop failed');
    } finally {
      clearTimeout(timer);
    }
    return 1;
  }

  function requestStop(reason: string): void {
    if (isStopping) {
      log.info({ reason }, 'already stopping');
      return;
    }
    isStopping = true;
    log.info({ reason }, 'stopping');
    void end().then((code) => {
      try {
        log.info({ code }, 'stopped');
      } finally {
        resolve(code);
        owner.exit(code);
      }
    });
  }

  for (const signal of signals) owner.on(signal, () => requestStop(signal));
  return { requestStop, stopped };
}

/**
 * Ends the process with 1, after a log line, when a rejection or an exception reaches nobody: its state is
 * unknown from there on, and the runs it holds are safe in the store.
 */
export function crashOnUnhandled({
  log,
  process: owner = process,
}: {
  readonly log: Pick<Log, 'error'>;
  readonly process?: ProcessLike;
}): void {
  const crash = (message: string) => (err: unknown) => {
    try {
      log.error({ err }, message);
    } finally {
      owner.exit(1);
    }
  };
  owner.on('uncaughtException', crash('uncaught exception'));
  owner.on('unhandledRejection', crash('unhandled rejection'));
}
