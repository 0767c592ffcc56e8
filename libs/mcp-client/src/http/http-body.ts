import type { Readable } from 'node:stream';
import { TextDecoder } from 'node:util';

/** A body that cannot be taken for an answer. The message quotes nothing of it. */
export class BodyFault extends Error {
  override readonly name = 'BodyFault';
}

/** How many bytes may still be read; several bodies can share one. */
export interface ByteBudget {
  readonly left: number;
  /** @throws BodyFault over the limit */
  take(bytes: number): void;
}

/** A limit for one body alone. */
export function bytesUpTo(max: number): ByteBudget {
  let left = max;
  return {
    get left() {
      return left;
    },
    take(bytes) {
      left -= bytes;
      if (left < 0) throw new BodyFault('the answer is over the size limit');
    },
  };
}

/** Bytes of a body as they come, while the budget lasts. */
async function* bounded(body: Readable, budget: ByteBudget): AsyncGenerator<Buffer> {
  for await (const chunk of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    budget.take(chunk.length);
    yield chunk;
  }
}

/**
 * The whole body as text.
 * @throws BodyFault over the limit, or no UTF-8; the network's error when it breaks
 */
export async function readText(body: Readable, budget: ByteBudget): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of bounded(body, budget)) chunks.push(chunk);
  return decode(new TextDecoder('utf-8', { fatal: true }), Buffer.concat(chunks), false);
}

export interface ServerEvent {
  /** The last id of the stream, this event's own or an earlier one's. */
  readonly lastId: string | undefined;
  /** `message` where the stream names none. */
  readonly type: string;
  readonly data: string;
  /** The last wish for a reconnection delay. */
  readonly retryMs: number | undefined;
}

/**
 * The events of a `text/event-stream` body, as the HTML standard reads them, but for one thing: an
 * event that has an id and no data is given too, so that a stream can be taken up again after it.
 *
 * @param budget      for the whole stream, comments included
 * @param maxEvent    characters of one event
 * @throws BodyFault over a limit, or no UTF-8; the network's error when it breaks
 */
export async function* readEvents(
  body: Readable,
  budget: ByteBudget,
  maxEvent = budget.left,
): AsyncGenerator<ServerEvent> {
  let lastId: string | undefined;
  let retryMs: number | undefined;
  let type = '';
  let data: string[] = [];
  let size = 0;
  let isWorth = false;
  for await (const line of readLines(body, budget, maxEvent)) {
    if (line === '') {
      if (data.length > 0 || isWorth)
        yield { lastId, type: type === '' ? 'message' : type, data: data.join('\n'), retryMs };
      [type, data, size, isWorth] = ['', [], 0, false];
      continue;
    }
    const colon = line.indexOf(':');
    if (colon === 0) continue;
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (field === 'data') {
      size += value.length + 1;
      if (size > maxEvent) throw new BodyFault('an event of the stream is over the limit');
      data.push(value);
    } else if (field === 'event') type = value;
    else if (field === 'id' && !value.includes('\0')) [lastId, isWorth] = [value, true];
    else if (field === 'retry' && /^\d{1,9}$/.test(value)) retryMs = Number(value);
  }
}

/** Lines that end with CR, LF or CRLF. What follows the last line end is not given: it is half an event. */
async function* readLines(body: Readable, budget: ByteBudget, maxLine: number): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  // Pieces of the line so far: adding to one string for each chunk costs the square of its length.
  let pieces: string[] = [];
  let length = 0;
  let isAfterCr = false;
  for await (const chunk of bounded(body, budget)) {
    let text = decode(decoder, chunk, true);
    if (isAfterCr && text !== '') {
      if (text.startsWith('\n')) text = text.slice(1);
      isAfterCr = false;
    }
    isAfterCr ||= text.endsWith('\r');
    const lines = text.split(/\r\n|\r|\n/);
    const rest = lines.pop()!;
    for (const line of lines) {
      yield pieces.length === 0 ? line : pieces.join('') + line;
      [pieces, length] = [[], 0];
    }
    length += rest.length;
    if (length > maxLine) throw new BodyFault('a line of the stream is over the limit');
    if (rest !== '') pieces.push(rest);
  }
}

function decode(decoder: TextDecoder, bytes: Uint8Array, stream: boolean): string {
  try {
    return decoder.decode(bytes, { stream });
  } catch (cause) {
    throw new BodyFault('the answer is no UTF-8', { cause });
  }
}

/**
 * Lets the rest of a body go by unread, so that its connection serves again; one that has more to say than
 * a little is closed.
 */
export function discard(body: Readable): void {
  if (body.closed) return;
  let left = 64 * 1024;
  const patience = setTimeout(() => body.destroy(), 1_000).unref();
  body.once('close', () => clearTimeout(patience));
  body.on('data', (chunk: Buffer) => {
    left -= chunk.length;
    if (left < 0) body.destroy();
  });
}
