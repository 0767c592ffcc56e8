declare global {
  // Part of the runtime since Node 22, but not yet of the compiler's library.
  interface JSON {
    rawJSON(text: string): { readonly rawJSON: string };
    isRawJSON(value: unknown): value is { readonly rawJSON: string };
    parse(
      text: string,
      reviver: (key: string, value: unknown, context: { source?: string }) => unknown,
    ): unknown;
  }
}

/**
 * Reads JSON from outside without changing any number (BEHAVIOURS R6).
 *
 * A double cannot hold every JSON number: 9007199254740993 would be read as …992, 1e400 as Infinity and
 * 0.1000000000000000055 as 0.1. A number that a double holds may be written differently:
 * -9223372036854775808 becomes …776000 and -0 becomes 0. The parser keeps such a literal as a `JSON.rawJSON`
 * object, so that it is written back digit for digit wherever it is only passed on (a JSON-RPC id, a
 * progress token, arguments, a recorded result). 1.0 and 1e2 are written as 1 and 100, the same numbers.
 */
export function parseJson(text: string): unknown {
  return mayHoldInexact.test(text) ? JSON.parse(text, keepInexact) : JSON.parse(text);
}

/** Sixteen digits in a row, with or without a decimal point; an exponent; a negative zero. All other literals are exact. */
const mayHoldInexact = /[\d.]{16}|\d[eE]|(?:^|[:[,\s])-0(?![\d.]*[1-9])/;

/** Whether `value` is a number literal that this runtime would write differently. */
export function isInexactNumber(value: unknown): value is { readonly rawJSON: string } {
  return JSON.isRawJSON(value);
}

/** The value of a kept literal for a reader of doubles: the same number, an approximated fraction, or another number. */
export function asDouble({ rawJSON }: { readonly rawJSON: string }): 'same' | 'near' | 'other' {
  const value = Number(rawJSON);
  if (!Number.isFinite(value)) return 'other';
  const { digits, exponent } = decimalOf(rawJSON);
  if (exponent < 0) return 'near';
  return BigInt(digits + '0'.repeat(exponent)) === BigInt(Math.abs(value)) ? 'same' : 'other';
}

/**
 * Writes JSON. Integers keep every digit, including BigInts and those above 2^53, which JavaScript
 * rounds. Undefined, functions and symbols at the top return undefined, as with `JSON.stringify`.
 */
export function writeJson(value: unknown): string | undefined {
  return JSON.stringify(value, (_key, member: unknown) => {
    if (typeof member === 'bigint') return JSON.rawJSON(member.toString());
    return isRoundedWhenWritten(member) ? JSON.rawJSON(BigInt(member).toString()) : member;
  });
}

/** JavaScript writes an exponent from 1e21 on. */
function isRoundedWhenWritten(value: unknown): value is number {
  return Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value as number) < 1e21;
}

function keepInexact(_key: string, value: unknown, { source }: { source?: string }): unknown {
  if (typeof value !== 'number' || source === undefined) return value;
  const isInteger = /^-?\d+$/.test(source);
  const isKept = String(value) === source || (!isInteger && isSameNumber(value, source));
  return isKept ? value : JSON.rawJSON(source);
}

function isSameNumber(value: number, source: string): boolean {
  if (!Number.isFinite(value) || Object.is(value, -0)) return false;
  const [one, other] = [decimalOf(String(value)), decimalOf(source)];
  return one.digits === other.digits && one.exponent === other.exponent;
}

/** The number without its sign: its digits from the first to the last that is not 0, as an integer times 10^exponent. */
function decimalOf(literal: string): { readonly digits: string; readonly exponent: number } {
  const [, whole, fraction = '', power = '0'] = /^-?(\d+)(?:\.(\d+))?(?:[eE](.+))?$/.exec(literal)!;
  const all = whole! + fraction;
  // A pattern for trailing zeros would also try each earlier run of zeros.
  let end = all.length;
  while (end > 0 && all[end - 1] === '0') end--;
  return end === 0
    ? { digits: '0', exponent: 0 }
    : {
        digits: all.slice(0, end).replace(/^0+/, ''),
        exponent: Number(power) - fraction.length + (all.length - end),
      };
}

/** A position inside a JSON value, in the usual notation: `items[3].price`. */
export function formatPath(path: readonly (string | number)[]): string {
  return path
    .map((part, i) => {
      if (typeof part === 'number') return `[${part}]`;
      if (/^[A-Za-z_$][\w$]*$/.test(part)) return i === 0 ? part : `.${part}`;
      return `[${JSON.stringify(part)}]`;
    })
    .join('');
}
