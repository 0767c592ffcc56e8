/** What stands where the rest of a text was. */
function marker(text: string): string {
  return `\n[cut here; the whole text is ${codePoints(text)} characters long]`;
}

/** At most `max` code points of a text; of one that is cut, the words that say so are among them. */
export function cutToCodePoints(text: string, max: number): string {
  if (text.length <= max || codePoints(text) <= max) return text;
  const words = marker(text);
  let kept = 0;
  let end = 0;
  for (; kept < max - words.length; kept++) end += isPair(text, end) ? 2 : 1;
  return text.slice(0, end) + words;
}

/** A text that takes at most `budget` bytes inside a JSON string; undefined when not even the words that say so fit. */
export function cutToBytes(text: string, budget: number): string | undefined {
  const words = marker(text);
  let left = budget - Buffer.byteLength(JSON.stringify(words)) + 2;
  if (left < 0) return undefined;
  let end = 0;
  while (end < text.length) {
    const isTwo = isPair(text, end);
    left -= isTwo ? 4 : jsonBytes(text.charCodeAt(end));
    if (left < 0) return text.slice(0, end) + words;
    end += isTwo ? 2 : 1;
  }
  return text;
}

function codePoints(text: string): number {
  let count = 0;
  for (let i = 0; i < text.length; i += isPair(text, i) ? 2 : 1) count++;
  return count;
}

function isPair(text: string, at: number): boolean {
  const [high, low] = [text.charCodeAt(at), text.charCodeAt(at + 1)];
  return high >= 0xd800 && high < 0xdc00 && low >= 0xdc00 && low < 0xe000;
}

/** How many bytes one UTF-16 unit that is not of a pair takes as `JSON.stringify` writes it. */
function jsonBytes(unit: number): number {
  if (unit < 0x20) return [8, 9, 10, 12, 13].includes(unit) ? 2 : 6;
  if (unit === 0x22 || unit === 0x5c) return 2;
  if (unit < 0x80) return 1;
  if (unit < 0x800) return 2;
  return unit >= 0xd800 && unit < 0xe000 ? 6 : 3;
}
