import { getHeapStatistics } from 'node:v8';
import { BodyFault, type ByteBudget } from './http-body.js';

/**
 * Bytes of answers that a process reads at the same time. Each byte is held several times while an answer is read,
 * parsed and recorded, so that an eighth of the heap is what it can take.
 */
const maxUnderWay = Math.min(getHeapStatistics().heap_size_limit / 8, 128 * 1024 * 1024);
let underWay = 0;

/** Values of one answer, which cost memory and time whatever their size. */
const maxValues = 200_000;

/** The bytes of one answer, counted against its own limit and that of the process until `release`. */
export class AnswerBudget implements ByteBudget {
  readonly #maxBytes: number;
  #taken = 0;
  #held = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get left(): number {
    return this.#maxBytes - this.#taken;
  }

  /** @throws BodyFault over either limit */
  take(bytes: number): void {
    this.#taken += bytes;
    this.#held += bytes;
    underWay += bytes;
    if (this.#taken > this.#maxBytes)
      throw new BodyFault(`the answer is over the size limit (${this.#maxBytes} bytes)`);
    if (underWay > maxUnderWay)
      throw new BodyFault(`the answers under way are over the limit of the connector (${Math.floor(maxUnderWay)} bytes)`); // prettier-ignore
  }

  /** Nothing that was read is held any more. */
  release(): void {
    underWay -= this.#held;
    this.#held = 0;
  }
}

/**
 * Counts the values of a JSON text before it is parsed.
 * @throws BodyFault when there are too many
 */
export function checkValues(text: string): void {
  let values = 1;
  let isInString = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (isInString) {
      if (code === 0x5c) i++;
      else if (code === 0x22) isInString = false;
    } else if (code === 0x22) isInString = true;
    else if ((code === 0x2c || code === 0x7b || code === 0x5b) && ++values > maxValues)
      throw new BodyFault(`the answer has more than ${maxValues} values`);
  }
}
