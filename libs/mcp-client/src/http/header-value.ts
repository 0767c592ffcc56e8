/**
 * A text as a header of the 2026-07-28 revision carries it: as it is when it is printable ASCII without a
 * space at either end, else `=?base64?…?=` of its UTF-8. What looks like the latter is encoded too.
 */
export function headerValue(text: string): string {
  const isPlain = /^(?:[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?$/.test(text);
  if (isPlain && !text.startsWith('=?base64?')) return text;
  return `=?base64?${Buffer.from(text).toString('base64')}?=`;
}
