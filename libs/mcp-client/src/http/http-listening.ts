import type { Log } from '@holdfast/run';
import { setTimeout as delay } from 'node:timers/promises';
import { modernMeta, type Era } from '../era.js';
import { discard, readEvents } from './http-body.js';
import { mediaType, type HttpPeer } from './http-peer.js';
import type { WireAnswer } from './http-wire.js';
import { writeMessage } from '../json-rpc.js';

export interface ListenOptions {
  readonly era: Era;
  readonly clientVersion: string;
  /** Before the first new try; doubles with each. */
  readonly backoffMs: number;
  readonly signal: AbortSignal;
  readonly log: Log;
}

/** Tries in a row that give no stream before one believes that there is none. */
const maxFailures = 3;
const maxBackoffMs = 60_000;
/** A stream that lived this long was a good one. */
const goodLifeMs = 60_000;
const maxEvent = 1024 * 1024;

/**
 * Listens for what the server says by itself until `signal`: a GET stream in the legacy era,
 * `subscriptions/listen` in the modern one. A server may offer neither: after 405, or a few answers that
 * are no stream, it is left in peace. A stream that ends is opened again with rising delay, and
 * then the tools may have changed unheard.
 */
export async function listen(peer: HttpPeer, options: ListenOptions): Promise<void> {
  const { signal, backoffMs } = options;
  let failures = 0;
  let pauseMs = backoffMs;
  let lastId: string | undefined;
  let wasListening = false;
  while (!signal.aborted) {
    const stream = await open(peer, lastId, options).catch(() => undefined);
    const isStream = stream?.status === 200 && mediaType(stream) === 'text/event-stream';
    if (isStream) {
      const since = performance.now();
      failures = 0;
      if (wasListening && lastId === undefined) peer.toolsChanged();
      wasListening = true;
      lastId = await read(peer, stream, lastId);
      if (performance.now() - since > goodLifeMs) pauseMs = backoffMs;
    } else {
      const { status } = stream ?? {};
      if (stream !== undefined) discard(stream.body);
      failures += 1;
      lastId = undefined;
      if (status === 405 || status === 401 || status === 403 || failures >= maxFailures) {
        options.log.debug({ status }, 'upstream server offers no stream of changes');
        return;
      }
    }
    await delay(pauseMs, undefined, { signal, ref: false });
    pauseMs = Math.min(pauseMs * 2, maxBackoffMs);
  }
}

function open(
  peer: HttpPeer,
  lastId: string | undefined,
  { era, clientVersion, signal }: ListenOptions,
): Promise<WireAnswer> {
  if (era === 'legacy') return peer.openStream(lastId, signal);
  const method = 'subscriptions/listen';
  const params = { _meta: modernMeta(clientVersion), notifications: { toolsListChanged: true } };
  return peer.openQuestion(method, writeMessage(method, params, peer.nextId()), signal);
}

/** Reads to the end of the stream, however it ends; returns the last event id. */
async function read(
  peer: HttpPeer,
  { body }: WireAnswer,
  before: string | undefined,
): Promise<string | undefined> {
  let lastId = before;
  try {
    // As long as it likes in all: only one event is bounded.
    for await (const event of readEvents(body, { left: Infinity }, maxEvent)) {
      lastId = event.lastId ?? lastId;
      for (const message of peer.readEvent(event)) peer.receive(message);
    }
  } catch {
    // Broken off, or not fit to be read on: it is opened again.
  } finally {
    body.destroy();
  }
  return lastId;
}
