declare global {
  // In the runtime since Node 22, not yet in the compiler's library.
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
 * JSON from outside, read without losing a digit of a number (BEHAVIOURS R6).
 *
 * A double cannot hold every number that JSON can write: 9007199254740993 would be read as
 * …992 and 1e400 as Infinity. And one that it holds may be written with other digits:
 * -9223372036854775808 becomes …776000. Such a literal is kept as a `JSON.rawJSON` object, so
 * that it is written back digit for digit wherever it is only passed on (a JSON-RPC id, a
 * progress token, a recorded result); where it must be understood, `exactNumber` tells its value.
 */
export function parseJson(text: string): unknown {
  // Only a long run of digits or an exponent can be inexact; everything else takes the fast path.
  return /\d{16}|\d[eE]/.test(text) ? JSON.parse(text, keepInexact) : JSON.parse(text);
}

/** Whether `value` is a number literal that this runtime would not write as it was read. */
export function isInexactNumber(value: unknown): value is { readonly rawJSON: string } {
  return JSON.isRawJSON(value);
}

/** The value of a kept literal, where a double holds it exactly. */
export function exactNumber({ rawJSON }: { readonly rawJSON: string }): number | undefined {
  const value = Number(rawJSON);
  return Number.isFinite(value) && BigInt(rawJSON) === BigInt(value) ? value : undefined;
}

/**
 * Writes JSON. BigInts are written as integers with every digit; undefined, functions and
 * symbols at the top give undefined, as `JSON.stringify` does.
 */
export function writeJson(value: unknown): string | undefined {
  return JSON.stringify(value, (_key, member: unknown) =>
    typeof member === 'bigint' ? JSON.rawJSON(member.toString()) : member,
  );
}

function keepInexact(_key: string, value: unknown, context: { source?: string }): unknown {
  if (typeof value !== 'number' || context.source === undefined) return value;
  const isInteger = /^-?\d+$/.test(context.source);
  const isKept = isInteger
    ? Number.isSafeInteger(value) || String(value) === context.source
    : Number.isFinite(value);
  return isKept ? value : JSON.rawJSON(context.source);
}

/** A place inside a JSON value, as people write it: `items[3].price`. */
export function formatPath(path: readonly (string | number)[]): string {
  return path
    .map((part, i) => {
      if (typeof part === 'number') return `[${part}]`;
      if (/^[A-Za-z_$][\w$]*$/.test(part)) return i === 0 ? part : `.${part}`;
      return `[${JSON.stringify(part)}]`;
    })
    .join('');
}
