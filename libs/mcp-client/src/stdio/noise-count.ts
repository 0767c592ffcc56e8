import type { Clock, Log } from '@holdfast/run';

const pauseMs = 10_000;

/** Counts what an upstream says that is no message, and tells at most once in 10 s, without its text (F89). */
export class NoiseCount {
  readonly #server: string;
  readonly #log: Log;
  readonly #clock: Clock;
  #ignored = 0;
  #toldAt = -Infinity;

  constructor(server: string, log: Log, clock: Clock) {
    this.#server = server;
    this.#log = log;
    this.#clock = clock;
  }

  add(): void {
    this.#ignored += 1;
    const now = this.#clock().getTime();
    if (now - this.#toldAt < pauseMs) return;
    this.#toldAt = now;
    this.#log.warn(
      { server: this.#server, ignored: this.#ignored },
      'ignored output of an upstream that is no message of the protocol',
    );
  }
}
