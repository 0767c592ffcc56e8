import { StringDecoder } from 'node:string_decoder';
import { stripVTControlCharacters } from 'node:util';

const maxLines = 20;
/** Of one line, in UTF-16 units, as it is shown. */
const maxShown = 500;
/** Of one line, while it comes: what a secret needs to be seen whole, and no more. */
const maxHeld = 16_384;
/** Shorter values are everywhere: masking them would hide the message, not a secret. */
const minSecret = 4;

/** Replaces each of `secrets` in texts that people see. */
export function maskerOf(secrets: Iterable<string>): (text: string) => string {
  const values = [...secrets].flatMap((secret) => [secret, ...secret.split(/[\r\n]+/)]);
  const longestFirst = [...new Set(values)]
    .filter((value) => value.length >= minSecret)
    .sort((a, b) => b.length - a.length);
  return (text) => longestFirst.reduce((masked, value) => masked.replaceAll(value, '***'), text);
}

/** The last lines that a child wrote to stderr, for error messages only (BEHAVIOURS 93, F97). */
export class StderrTail {
  readonly #mask: (text: string) => string;
  readonly #decoder = new StringDecoder('utf8');
  readonly #lines: string[] = [];
  #line = '';

  constructor(mask: (text: string) => string) {
    this.#mask = mask;
  }

  push(chunk: Buffer): void {
    const [first = '', ...more] = this.#decoder.write(chunk).split(/\r?\n|\r/);
    this.#append(first);
    for (const next of more) {
      this.#keep();
      this.#append(next);
    }
  }

  /** At most 20 lines, each cut to 500 characters, secrets masked. */
  text(): string {
    return [...this.#lines, this.#shown(this.#line)]
      .filter((line) => line !== '')
      .slice(-maxLines)
      .join('\n');
  }

  #append(text: string): void {
    this.#line += text.slice(0, maxHeld - this.#line.length);
  }

  #keep(): void {
    const line = this.#shown(this.#line);
    this.#line = '';
    if (line === '') return;
    this.#lines.push(line);
    if (this.#lines.length > maxLines) this.#lines.shift();
  }

  #shown(line: string): string {
    // Control characters first: they might stand inside a secret. Then the mask, so that a cut hides none.
    const plain = stripVTControlCharacters(line).replace(/[\p{Cc}\p{Cf}]/gu, '');
    return this.#mask(plain).trim().slice(0, maxShown);
  }
}
