import { setTimeout as sleep } from 'node:timers/promises';

export interface ListenerLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

export interface ListeningOptions {
  /**
   * Opens a connection and stays with it. Calls `heard` once what is sent comes back over it, with a signal
   * that aborts when it is lost. Throws what ended it, and ends it when `closing` aborts.
   */
  readonly hearUntilLost: (heard: (lost: AbortSignal) => void, closing: AbortSignal) => Promise<never>;
  /** What is now heard again; what came before may have been missed. */
  readonly onHearing: () => void;
  readonly log: ListenerLog;
  /** What is heard, for the log. */
  readonly name: string;
  /** Of a fault what may be logged: no password. */
  readonly toLogged: (thrown: unknown) => Error;
  readonly maxPauseMs: number;
}

const deafPauseMs = 60_000;

/** Thrown for a connection that works and yet will hear nothing, for a reason that an operator has to know: said once. */
export class Deaf extends Error {}

/** The connection for signals of one store object. Restored for ever, with growing pauses, whatever ended it. */
export class Listening {
  readonly #options: ListeningOptions;
  readonly #closing = new AbortController();
  /** Of the connection that is heard; aborted when it is not any more. */
  #lost = AbortSignal.abort();
  #running: Promise<void> | undefined;

  constructor(options: ListeningOptions) {
    this.#options = options;
  }

  get hearing(): boolean {
    return !this.#lost.aborted;
  }

  /** Resolves when the first connection hears, or has failed. */
  start(): Promise<void> {
    return new Promise((resolve) => {
      this.#running = this.#run(resolve);
    });
  }

  /** Safe twice. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running;
  }

  async #run(settled: () => void): Promise<void> {
    const { hearUntilLost, onHearing, log, name, toLogged, maxPauseMs } = this.#options;
    const { signal } = this.#closing;
    let failures = 0;
    let isOut = false;
    let saidDeaf = false;
    const heard = (lost: AbortSignal): void => {
      this.#lost = lost;
      if (isOut) log.info({}, `${name} are heard again`);
      isOut = false;
      failures = 0;
      settled();
      onHearing();
    };
    while (!signal.aborted) {
      let pause = deafPauseMs;
      try {
        await hearUntilLost(heard, signal);
      } catch (error) {
        if (signal.aborted) break;
        if (error instanceof Deaf) {
          if (!saidDeaf) log.warn({}, error.message);
          saidDeaf = true;
        } else {
          if (!isOut) log.warn({ err: toLogged(error) }, `${name} are not heard; polling until they are`);
          isOut = true;
          pause = Math.min(maxPauseMs, 100 * 2 ** failures++);
        }
      }
      settled();
      // Half of it at random, so that many processes do not come back in one instant.
      await sleep(pause * (0.5 + Math.random() / 2), undefined, { signal, ref: false }).catch(() => {});
    }
    settled();
  }
}
