/** Bounds of a JSON text. Memory and time of a parser follow the values: three bytes may become an object of fifty. */
export interface JsonBounds {
  readonly values: number;
  /** Containers inside one another. */
  readonly depth: number;
}

export interface JsonSize {
  /** Every scalar, array and object, as far as the text was read. */
  readonly values: number;
  /** The bound that the text exceeds; nothing behind that point was read. */
  readonly exceeds?: keyof JsonBounds;
}

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;

/** Measures a JSON text before it is parsed, in one pass that allocates nothing. A text that is no JSON is measured too. */
export function measureJson(text: string, bounds: JsonBounds): JsonSize {
  let values = 1;
  let depth = 0;
  let isOpened = false;
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at);
    if (char <= 0x20) continue;
    const closes = char === 0x5d || char === 0x7d;
    // The first member of a container has no comma before it.
    if (char === comma || (isOpened && !closes)) values++;
    isOpened = char === 0x5b || char === 0x7b;
    if (isOpened) depth++;
    else if (closes) depth--;
    else if (char === quote) at = endOfString(text, at);
    if (values > bounds.values) return { values, exceeds: 'values' };
    if (depth > bounds.depth) return { values, exceeds: 'depth' };
  }
  return { values };
}

/** The position of the quote that ends the string which begins at `start`; the end of the text where none does. */
function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    const char = text.charCodeAt(at);
    if (char === quote) return at;
    if (char === backslash) at++;
  }
  return text.length;
}
