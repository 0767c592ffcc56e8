import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { RunError } from '@holdfast/run';
import type { ListenerLog } from './postgres-listen.js';
import { connectionOptions, toRunError, type Address } from './valkey-connection.js';

const healthMs = 10_000;
/** A message that does not come back in this time will not come. */
const echoMs = 3_000;
const maxPauseMs = 4_000;

export interface SubscriberOptions {
  readonly address: Address;
  readonly commandMs: number;
  /** Publishes on the channel of signals from the connection that the store writes with. */
  readonly publish: (payload: string) => Promise<void>;
  readonly onPayload: (payload: string) => void;
  /** What is now heard again; what came before may have been missed. */
  readonly onHearing: () => void;
  readonly log: ListenerLog;
}

/**
 * The connection for signals. Restored for ever, with growing pauses, whatever ended it.
 *
 * It counts as hearing while what the writing connection publishes comes back: after a fail-over
 * the two may have ended on different servers, and each would look healthy by itself.
 */
export class Subscriber {
  readonly #options: SubscriberOptions;
  readonly #closing = new AbortController();
  #hearing = false;
  #running: Promise<void> | undefined;

  constructor(options: SubscriberOptions) {
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
    const { log, address } = this.#options;
    const { signal } = this.#closing;
    let failures = 0;
    let isOut = false;
    while (!signal.aborted) {
      try {
        await this.#hearUntilLost(() => {
          if (isOut) log.info({}, 'store signals are heard again');
          isOut = false;
          failures = 0;
          settled();
        });
      } catch (error) {
        if (signal.aborted) break;
        if (!isOut)
          log.warn(
            { err: toRunError(error, address.name) },
            'store signals are not heard; polling until they are',
          );
        isOut = true;
      }
      settled();
      const pause = Math.min(maxPauseMs, 100 * 2 ** failures++);
      // Half of it at random, so that many processes do not come back in one instant.
      await sleep(pause * (0.5 + Math.random() / 2), undefined, { signal, ref: false }).catch(() => {});
    }
    settled();
  }

  async #hearUntilLost(heard: () => void): Promise<void> {
    const { address, commandMs, onPayload, onHearing } = this.#options;
    const redis = new Redis({ ...connectionOptions(address, commandMs), retryStrategy: null });
    const lost = new AbortController();
    const onLost = (reason?: unknown): void => {
      this.#hearing = false;
      lost.abort(reason ?? new RunError('store-unavailable', 'the connection ended'));
    };
    redis.on('error', onLost);
    redis.on('end', () => onLost());
    const onClose = (): void => onLost();
    this.#closing.signal.addEventListener('abort', onClose, { once: true });
    let echo = new AbortController();
    let probe = '';
    redis.on('message', (_channel, payload) => {
      if (payload === probe) echo.abort();
      else if (!payload.startsWith('probe ')) onPayload(payload);
    });
    const checkEcho = async (): Promise<void> => {
      echo = new AbortController();
      probe = `probe ${Math.random().toString(36).slice(2)}`;
      await this.#options.publish(probe);
      await pauseUntil(echoMs, lost.signal, echo.signal);
      if (lost.signal.aborted) throw lost.signal.reason;
      if (!echo.signal.aborted) throw new RunError('store-unavailable', 'what is published is not heard');
    };
    try {
      await Promise.race([
        redis.connect().then(() => redis.subscribe(address.channel)),
        aborted(lost.signal),
      ]);
      await checkEcho();
      this.#hearing = true;
      heard();
      onHearing();
      for (;;) {
        await pauseUntil(healthMs, lost.signal);
        if (lost.signal.aborted) throw lost.signal.reason;
        await checkEcho();
      }
    } finally {
      this.#hearing = false;
      this.#closing.signal.removeEventListener('abort', onClose);
      redis.disconnect();
    }
  }
}

async function pauseUntil(ms: number, ...signals: AbortSignal[]): Promise<void> {
  await sleep(ms, undefined, { signal: AbortSignal.any(signals), ref: false }).catch(() => {});
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
}
