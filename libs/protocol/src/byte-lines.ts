const lineFeed = 0x0a;
const smallBytes = 65_536;
/** What is kept of each end of a line that is too long, to tell whose answer it was. */
const keptBytes = 512;

/** What a line is given to. The buffers are valid until the call returns. */
export interface LineTaker {
  line(line: Buffer): void;
  /** A line longer than the limit: its first and last bytes. */
  tooLong(head: Buffer, tail: Buffer): void;
}

/**
 * Splits a stream of bytes at line feeds and at nothing else: U+2028, U+0085 and carriage returns are
 * text (F45). Never holds more than `maxBytes` of a line; the rest of a longer one is passed over.
 */
export class ByteLines {
  readonly #maxBytes: number;
  readonly #taker: LineTaker;
  // One buffer that doubles, not a list of chunks: a line that comes byte by byte would cost a hundredfold.
  #held = Buffer.allocUnsafe(smallBytes);
  #length = 0;
  /** Last bytes of a line that is too long; undefined while the line is not. */
  #tail: Buffer | undefined;

  constructor(maxBytes: number, taker: LineTaker) {
    this.#maxBytes = maxBytes;
    this.#taker = taker;
  }

  push(chunk: Buffer): void {
    let start = 0;
    for (let end; (end = chunk.indexOf(lineFeed, start)) !== -1; start = end + 1) {
      const part = chunk.subarray(start, end);
      if (this.#length === 0 && part.length <= this.#maxBytes) this.#taker.line(part);
      else {
        this.#hold(part);
        this.#release();
      }
    }
    this.#hold(chunk.subarray(start));
  }

  /** Gives what came after the last line feed. */
  end(): void {
    if (this.#length > 0) this.#release();
  }

  #hold(part: Buffer): void {
    const room = this.#maxBytes - this.#length;
    if (part.length > room) this.#tail = lastOf(this.#tail ?? this.#held.subarray(0, this.#length), part);
    const taken = part.subarray(0, room);
    if (this.#length + taken.length > this.#held.length) {
      const grown = Buffer.allocUnsafe(Math.max(2 * this.#held.length, this.#length + taken.length));
      this.#held.copy(grown, 0, 0, this.#length);
      this.#held = grown;
    }
    taken.copy(this.#held, this.#length);
    this.#length += taken.length;
  }

  #release(): void {
    const line = this.#held.subarray(0, this.#length);
    const tail = this.#tail;
    if (line.length > smallBytes) this.#held = Buffer.allocUnsafe(smallBytes);
    this.#length = 0;
    this.#tail = undefined;
    if (tail === undefined) this.#taker.line(line);
    else this.#taker.tooLong(line.subarray(0, keptBytes), tail);
  }
}

function lastOf(before: Buffer, part: Buffer): Buffer {
  return Buffer.concat([before.subarray(-keptBytes), part.subarray(-keptBytes)]).subarray(-keptBytes);
}
