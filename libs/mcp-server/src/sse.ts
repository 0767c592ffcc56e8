import type { ServerResponse } from 'node:http';
import { onClose } from './http.js';
import { Outbox } from './outbox.js';

/**
 * Headers that keep proxies from holding a stream back, and hosts from using
 * its connection again: a gateway that hands a call over ends its stream and goes, and what a host
 * sent by the same connection at that moment would be lost.
 */
export const streamHeaders = {
  Connection: 'close',
  'Content-Type': 'text/event-stream',
  'Cache-Control': 'no-cache, no-transform',
  'X-Accel-Buffering': 'no',
} as const;

/** A stream of one message. */
export function sendOnStream(
  res: ServerResponse,
  message: string,
  headers: Record<string, string> = {},
): void {
  if (res.headersSent || res.destroyed) return;
  const outbox = Outbox.of(res);
  const text = frame(message);
  outbox.reserve(Buffer.byteLength(text));
  res.writeHead(200, { ...headers, ...streamHeaders });
  outbox.end(Buffer.from(text));
}

function frame(message: string, id?: string): string {
  return `event: message\n${id === undefined ? '' : `id: ${id}\n`}data: ${message}\n\n`;
}

/** One server-sent event stream. Silent streams carry a comment every `keepAliveMs`, so that nobody on the way cuts them. */
export class EventStream {
  readonly #outbox: Outbox;
  readonly #keepAlive: NodeJS.Timeout;

  constructor(res: ServerResponse, keepAliveMs: number) {
    this.#outbox = Outbox.of(res);
    res.writeHead(200, streamHeaders);
    // An early first byte: nobody on the way takes an idle stream for a dead one.
    this.#write(': open\n\n');
    this.#keepAlive = setInterval(() => this.#write(': keep-alive\n\n'), keepAliveMs);
    onClose(res, () => clearInterval(this.#keepAlive));
  }

  /** An id without a message, so that a host can take the stream up again before the first (2025-11-25 and later). */
  prime(id: string, retryMs: number): void {
    this.#write(`id: ${id}\nretry: ${retryMs}\ndata: \n\n`);
  }

  /**
   * @param message JSON text without line breaks
   * @throws ProtocolRefusal where there is no memory for what its host may not read
   */
  send(message: string, id?: string): void {
    this.#write(frame(message, id));
  }

  end(): void {
    clearInterval(this.#keepAlive);
    this.#outbox.end();
  }

  #write(text: string): void {
    this.#outbox.reserve(Buffer.byteLength(text));
    this.#outbox.write(Buffer.from(text));
  }
}

/** A listener that ends waits this long for the one before it. */
const turnMs = 20;

/** How long each of `count` waits for the one before it, so that all end within `withinMs`. */
export function turnOf(count: number, withinMs: number): number {
  return Math.min(turnMs, withinMs / Math.max(count, 1));
}

/** Ends streams one after another: their hosts come back at once, and not all in one moment. */
export function endInTurns(streams: Iterable<EventStream>, withinMs: number): void {
  const all = [...streams];
  const each = turnOf(all.length, withinMs);
  all.forEach((stream, turn) => {
    if (turn * each < 1) stream.end();
    else setTimeout(() => stream.end(), turn * each).unref();
  });
}
