import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { RunError } from '@holdfast/run';
import { Listening, type ListenerLog } from './listening.js';
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
  /** See `ListeningOptions`. */
  readonly onHearing: () => void;
  readonly log: ListenerLog;
}

/**
 * The subscribed connection. It counts as hearing while what the writing connection publishes comes
 * back: after a fail-over the two may have ended on different servers, and each would look healthy
 * by itself.
 */
export function listenToValkey(options: SubscriberOptions): Listening {
  return new Listening({
    hearUntilLost: (heard, closing) => hearUntilLost(options, heard, closing),
    onHearing: options.onHearing,
    log: options.log,
    name: 'store signals',
    toLogged: (thrown) => toRunError(thrown, options.address.name),
    maxPauseMs,
  });
}

async function hearUntilLost(
  { address, commandMs, publish, onPayload }: SubscriberOptions,
  heard: (lost: AbortSignal) => void,
  closing: AbortSignal,
): Promise<never> {
  const redis = new Redis({ ...connectionOptions(address, commandMs), retryStrategy: null });
  const lost = new AbortController();
  const onLost = (reason?: unknown): void =>
    lost.abort(reason ?? new RunError('store-unavailable', 'the connection ended'));
  redis.on('error', onLost);
  redis.on('end', () => onLost());
  const onClose = (): void => onLost();
  closing.addEventListener('abort', onClose, { once: true });
  let echo = new AbortController();
  let probe = '';
  redis.on('message', (_channel, payload) => {
    if (payload === probe) echo.abort();
    else if (!payload.startsWith('probe ')) onPayload(payload);
  });
  const checkEcho = async (): Promise<void> => {
    echo = new AbortController();
    probe = `probe ${Math.random().toString(36).slice(2)}`;
    await publish(probe);
    await pauseUntil(echoMs, lost.signal, echo.signal);
    if (lost.signal.aborted) throw lost.signal.reason;
    if (!echo.signal.aborted) throw new RunError('store-unavailable', 'what is published is not heard');
  };
  try {
    await Promise.race([redis.connect().then(() => redis.subscribe(address.channel)), aborted(lost.signal)]);
    await checkEcho();
    heard(lost.signal);
    for (;;) {
      await pauseUntil(healthMs, lost.signal);
      if (lost.signal.aborted) throw lost.signal.reason;
      await checkEcho();
    }
  } finally {
    closing.removeEventListener('abort', onClose);
    onLost();
    redis.disconnect();
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
