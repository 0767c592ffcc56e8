import type { ServerResponse } from 'node:http';
import type { Log } from '@holdfast/run';
import { onClose } from './http.js';
import type { Holding } from './limits.js';

/** A piece is what a host must take within `unreadMs`. */
const pieceBytes = 64 * 1024;

const outboxes = new WeakMap<ServerResponse, Outbox>();

export interface OutboxParts {
  /** Memory for what is written and not taken; `reserve` throws where there is none. */
  readonly memory: Holding;
  /** A host that takes nothing for this long is cut off. */
  readonly unreadMs: number;
  readonly log: Log;
}

/**
 * What is written to one answer and not yet taken by its host. Node keeps all of it in memory, however
 * little a host reads.
 */
export class Outbox {
  readonly #res: ServerResponse;
  readonly #parts: OutboxParts | undefined;
  readonly #pieces: Buffer[] = [];
  #isEnding = false;
  #stalled: NodeJS.Timeout | undefined;

  /** The outbox of `res`; one that was not made with `parts` is not bounded. */
  static of(res: ServerResponse): Outbox {
    return outboxes.get(res) ?? new Outbox(res);
  }

  constructor(res: ServerResponse, parts?: OutboxParts) {
    this.#res = res;
    this.#parts = parts;
    outboxes.set(res, this);
    res.on('drain', () => this.#pump());
    onClose(res, () => {
      this.#pieces.length = 0;
      clearTimeout(this.#stalled);
      parts?.memory.release();
    });
  }

  /**
   * Takes memory for an answer that is about to be written. A single piece is always granted: refusals
   * and progress must get through.
   *
   * @throws ProtocolRefusal where there is no room
   */
  reserve(bytes: number): void {
    if (bytes > pieceBytes) this.#parts?.memory.reserve(bytes);
  }

  write(bytes: Buffer): void {
    if (this.#res.writableEnded || this.#res.destroyed || this.#isEnding) return;
    for (let at = 0; at < bytes.length; at += pieceBytes)
      this.#pieces.push(bytes.subarray(at, at + pieceBytes));
    if (!this.#res.writableNeedDrain) this.#pump();
  }

  /** @param bytes the last of the answer */
  end(bytes?: Buffer): void {
    // Most answers are one piece: with it in `end`, head and body are one packet.
    const isWhole = bytes !== undefined && bytes.length <= pieceBytes && this.#pieces.length === 0;
    if (isWhole && !this.#res.writableEnded) return void this.#res.end(bytes);
    if (bytes !== undefined) this.write(bytes);
    this.#isEnding = true;
    if (this.#pieces.length === 0 && !this.#res.writableEnded) this.#res.end();
  }

  #pump(): void {
    clearTimeout(this.#stalled);
    while (this.#pieces.length > 0 && !this.#res.writableNeedDrain) this.#res.write(this.#pieces.shift()!);
    const isTaken = !this.#res.writableNeedDrain;
    if (this.#pieces.length === 0 && this.#isEnding) this.#res.end();
    if (isTaken) this.#parts?.memory.release();
    else if (this.#parts !== undefined) this.#watch(this.#parts);
  }

  #watch({ unreadMs, log }: OutboxParts): void {
    this.#stalled = setTimeout(() => {
      log.debug({ unreadMs }, 'host takes nothing; connection ended');
      this.#res.destroy();
    }, unreadMs);
  }
}
