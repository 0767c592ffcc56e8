import { setTimeout as sleep } from 'node:timers/promises';
import { ensureError } from '@holdfast/run';
import { Deaf, Listening, type ListenerLog } from './listening.js';
import { connect } from './postgres-connection.js';
import { defaultSchema, type PostgresHosts } from './postgres-hosts.js';

/** One channel for everything, named as the schema: LISTEN costs a server process for each, and a payload says what it is. */
export const channel = defaultSchema;

const answerMs = 5_000;
const healthMs = 15_000;
/** A server that went silent has a successor here, which nobody hears until this is noticed. */
const healthOfSeveralMs = 5_000;
/** A notification that does not come back in this time will not come. */
const echoMs = 3_000;
const maxPauseMs = 8_000;

export interface ListenerOptions {
  readonly hosts: PostgresHosts;
  /** Sends a payload from some other connection. */
  readonly notify: (payload: string) => Promise<void>;
  readonly onPayload: (payload: string) => void;
  /** See `ListeningOptions`. */
  readonly onHearing: () => void;
  readonly log: ListenerLog;
}

/**
 * The LISTEN connection.
 *
 * A pooler in transaction mode accepts LISTEN and then delivers nothing. So each new connection
 * has to hear a notification sent over another one before it counts as hearing; sent over the
 * same one it could come back even through such a pooler, with the answer of its own statement.
 */
export function listenToPostgres(options: ListenerOptions): Listening {
  return new Listening({
    hearUntilLost: (heard, closing) => hearUntilLost(options, heard, closing),
    onHearing: options.onHearing,
    log: options.log,
    name: 'store notifications',
    toLogged: safe,
    maxPauseMs,
  });
}

async function hearUntilLost(
  { hosts, notify, onPayload }: ListenerOptions,
  heard: (lost: AbortSignal) => void,
  closing: AbortSignal,
): Promise<never> {
  const client = await connect(hosts, answerMs, closing);
  const lost = new AbortController();
  const end = (reason?: unknown): void => {
    lost.abort(reason);
    // Statements under way are rejected by it.
    client.connection.stream.destroy();
  };
  client.on('error', end);
  client.on('end', end);
  const onClose = (): void => end();
  closing.addEventListener('abort', onClose, { once: true });
  if (closing.aborted) end();
  const probe = `probe ${Math.random().toString(36).slice(2)}`;
  const echo = new AbortController();
  client.on('notification', ({ payload = '' }) => {
    if (payload === probe) echo.abort();
    else if (!payload.startsWith('probe ')) onPayload(payload);
  });
  try {
    await client.query(`LISTEN ${hosts.schema}`);
    await notify(probe);
    await sleep(echoMs, undefined, { signal: AbortSignal.any([lost.signal, echo.signal]) }).catch(() => {});
    if (lost.signal.aborted) throw lost.signal.reason;
    if (!echo.signal.aborted) throw new Deaf(deafness);
    heard(lost.signal);
    const everyMs = hosts.urls.length > 1 ? healthOfSeveralMs : healthMs;
    for (;;) {
      await sleep(everyMs, undefined, { signal: lost.signal, ref: false }).catch(() => {});
      if (lost.signal.aborted) throw lost.signal.reason;
      await client.query('SELECT 1');
    }
  } finally {
    closing.removeEventListener('abort', onClose);
    end();
  }
}

const deafness =
  'the store accepts LISTEN but delivers no notification, as PgBouncer in transaction mode does; polling instead: set HOLDFAST_STORE_LISTEN_URL to a URL that leads to Postgres directly, or to off to poll without this warning';

/** What Postgres says of a connection holds no password; the rest of its error object might. */
function safe(thrown: unknown): Error {
  const { message, code } = ensureError(thrown) as NodeJS.ErrnoException;
  return new Error(message || code || 'no reason given');
}
