import { createHmac, timingSafeEqual } from 'node:crypto';
import { parseJson } from '@holdfast/run';

/**
 * Values that travel through a host and come back as we gave them. Each is signed for one purpose
 * and one holder: whoever presents it was given it. They are not secret.
 */
export class Seals {
  readonly #keys: readonly [Uint8Array, ...Uint8Array[]];

  /** @param keys the first signs; what was signed with the others is good too */
  constructor(keys: readonly [Uint8Array, ...Uint8Array[]]) {
    this.#keys = keys;
  }

  /** Text that is safe in a header and in JSON. */
  seal(purpose: string, holder: string, value: unknown): string {
    const text = Buffer.from(JSON.stringify(value)).toString('base64url');
    return `${text}.${sign(this.#keys[0], purpose, holder, text).toString('base64url')}`;
  }

  /** Undefined for what was never given to this holder. */
  open(purpose: string, holder: string, sealed: string): unknown {
    const [text = '', signature = ''] = sealed.split('.');
    const presented = Buffer.from(signature, 'base64url');
    const isOurs = this.#keys.some((key) => {
      const expected = sign(key, purpose, holder, text);
      return presented.length === expected.length && timingSafeEqual(presented, expected);
    });
    return isOurs ? parseJson(Buffer.from(text, 'base64url').toString()) : undefined;
  }
}

/** The prefix keeps these apart from the other uses of the key (BEHAVIOURS R5). */
function sign(key: Uint8Array, purpose: string, holder: string, text: string): Buffer {
  return createHmac('sha256', key)
    .update(JSON.stringify([purpose, holder, text]))
    .digest()
    .subarray(0, 16);
}
