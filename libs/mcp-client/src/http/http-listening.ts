import type { Log } from '@holdfast/run';
import { setTimeout as delay } from 'node:timers/promises';
import { modernMeta, type Era } from '../era.js';
import { bytesUpTo, discard, readEvents } from './http-body.js';
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

/** Answers in a row that are no stream before a server that never gave one is taken to offer none. */
const maxRefusals = 3;
/** Statuses of a server that is away for a while, or of what stands in front of it. */
const temporary: ReadonlySet<number> = new Set([408, 425, 429, 502, 503, 504]);
const maxBackoffMs = 60_000;
/** A stream that lived this long was a good one. */
const goodLifeMs = 60_000;
const maxEvent = 1024 * 1024;

/**
 * Listens for what the server says by itself until `signal`: a GET stream in the legacy era,
 * `subscriptions/listen` in the modern one. A server may offer neither: it is not asked again after 405, 401 or
 * 403, or after a few answers that are no stream. A server that cannot be reached, or that gave a stream
 * before, is asked for ever, with rising delay. When a stream is there again the tools may have changed unheard.
 */
export async function listen(peer: HttpPeer, options: ListenOptions): Promise<void> {
  const { signal, backoffMs, log } = options;
  let refusals = 0;
  let pauseMs = backoffMs;
  let lastId: string | undefined;
  let wasListening = false;
  while (!signal.aborted) {
    const stream = await open(peer, lastId, options).catch(() => undefined);
    if (stream?.status === 200 && mediaType(stream) === 'text/event-stream') {
      const since = performance.now();
      refusals = 0;
      if (wasListening && lastId === undefined) peer.toolsChanged();
      wasListening = true;
      lastId = await read(peer, stream, lastId);
      if (performance.now() - since > goodLifeMs) pauseMs = backoffMs;
    } else {
      lastId = undefined;
      if (stream !== undefined) {
        const { status } = stream;
        discard(stream.body);
        // The server was started again, and does not know the session: a new connection listens anew.
        if (wasListening && peer.hasSession && (status === 404 || status === 400)) return peer.lose();
        if (!temporary.has(status)) refusals += 1;
        if ([401, 403, 405].includes(status) || (!wasListening && refusals >= maxRefusals)) {
          log.debug({ status }, 'upstream server offers no stream of changes');
          return;
        }
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
    for await (const event of readEvents(body, bytesUpTo(Infinity), maxEvent)) {
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
