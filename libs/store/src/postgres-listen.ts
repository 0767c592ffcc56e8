import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { ensureError } from '@holdfast/run';
import { clientConfig } from './postgres-connection.js';

/** One channel for everything: LISTEN costs a server process for each, and a payload says what it is. */
export const channel = 'holdfast';

const answerMs = 5_000;
const healthMs = 15_000;
/** A notification that does not come back in this time will not come. */
const echoMs = 3_000;
const deafPauseMs = 60_000;
const maxPauseMs = 8_000;

export interface ListenerOptions {
  readonly url: string;
  /** Sends a payload from some other connection. */
  readonly notify: (payload: string) => Promise<void>;
  readonly onPayload: (payload: string) => void;
  /** What is now heard again; what came before may have been missed. */
  readonly onHearing: () => void;
  readonly log: ListenerLog;
}

export interface ListenerLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

/**
 * The LISTEN connection. Restored for ever, with growing pauses, whatever ended it.
 *
 * A pooler in transaction mode accepts LISTEN and then delivers nothing. So each new connection
 * has to hear a notification sent over another one before it counts as hearing; sent over the
 * same one it could come back even through such a pooler, with the answer of its own statement.
 */
export class Listener {
  readonly #options: ListenerOptions;
  readonly #closing = new AbortController();
  #hearing = false;
  #saidDeaf = false;
  #running: Promise<void> | undefined;

  constructor(options: ListenerOptions) {
    this.#options = options;
  }

  get hearing(): boolean {
    return this.#hearing;
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
    const { log } = this.#options;
    const { signal } = this.#closing;
    let failures = 0;
    let isOut = false;
    while (!signal.aborted) {
      let pause = 0;
      try {
        await this.#hearUntilLost(() => {
          if (isOut) log.info({}, 'store notifications are heard again');
          isOut = false;
          failures = 0;
          settled();
        });
      } catch (error) {
        if (signal.aborted) break;
        if (error instanceof Deaf) {
          if (!this.#saidDeaf) log.warn({}, error.message);
          this.#saidDeaf = true;
          pause = deafPauseMs;
        } else {
          if (!isOut)
            log.warn({ err: safe(error) }, 'store notifications are not heard; polling until they are');
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

  async #hearUntilLost(heard: () => void): Promise<void> {
    const { url, notify, onPayload, onHearing } = this.#options;
    const client = new pg.Client({ ...clientConfig(url), query_timeout: answerMs });
    const lost = new AbortController();
    const end = (reason?: unknown): void => {
      lost.abort(reason);
      // Statements under way are rejected by it.
      client.connection.stream.destroy();
    };
    client.on('error', end);
    client.on('end', end);
    const onClose = (): void => end();
    this.#closing.signal.addEventListener('abort', onClose, { once: true });
    const probe = `probe ${Math.random().toString(36).slice(2)}`;
    const echo = new AbortController();
    client.on('notification', ({ payload = '' }) => {
      if (payload === probe) echo.abort();
      else if (!payload.startsWith('probe ')) onPayload(payload);
    });
    try {
      await client.connect();
      await client.query(`LISTEN ${channel}`);
      await notify(probe);
      await sleep(echoMs, undefined, { signal: AbortSignal.any([lost.signal, echo.signal]) }).catch(() => {});
      if (lost.signal.aborted) throw lost.signal.reason;
      if (!echo.signal.aborted) throw new Deaf();
      this.#hearing = true;
      heard();
      onHearing();
      for (;;) {
        await sleep(healthMs, undefined, { signal: lost.signal, ref: false }).catch(() => {});
        if (lost.signal.aborted) throw lost.signal.reason;
        await client.query('SELECT 1');
      }
    } finally {
      this.#hearing = false;
      this.#closing.signal.removeEventListener('abort', onClose);
      end();
    }
  }
}

class Deaf extends Error {
  constructor() {
    super(
      'the store accepts LISTEN but delivers no notification, as PgBouncer in transaction mode does; polling instead: set HOLDFAST_STORE_LISTEN_URL to a URL that leads to Postgres directly, or to off to poll without this warning',
    );
  }
}

/** What Postgres says of a connection holds no password; the rest of its error object might. */
function safe(thrown: unknown): Error {
  const { message, code } = ensureError(thrown) as NodeJS.ErrnoException;
  return new Error(message || code || 'no reason given');
}
