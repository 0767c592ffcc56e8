import { describe, expect, test } from '@jest/globals';
import { ByteLines } from './byte-lines.js';

/** What comes of these chunks with lines of up to `maxBytes`. */
function split(maxBytes: number, chunks: readonly Buffer[]) {
  const told: string[] = [];
  const lines = new ByteLines(maxBytes, {
    line: (line) => told.push(line.toString()),
    tooLong: (head, tail) => told.push(`too long: ${head.toString()}…${tail.toString()}`),
  });
  for (const chunk of chunks) lines.push(chunk);
  lines.end();
  return told;
}

const bytewise = (text: string) => [...Buffer.from(text)].map((byte) => Buffer.of(byte));

describe('lines of bytes', () => {
  test('are the same however they are cut into chunks', () => {
    const text = 'a\n\n€\u2028\u0085é\r\nlast';
    const expected = ['a', '', '€\u2028\u0085é\r', 'last'];
    expect(split(100, [Buffer.from(text)])).toEqual(expected);
    expect(split(100, bytewise(text))).toEqual(expected);
  });

  test('of the limit are kept, and of one byte more only both ends', () => {
    const text = `${'x'.repeat(10)}\n${'y'.repeat(11)}\nz\n`;
    const expected = ['xxxxxxxxxx', 'too long: yyyyyyyyyy…yyyyyyyyyyy', 'z'];
    expect(split(10, [Buffer.from(text)])).toEqual(expected);
    expect(split(10, bytewise(text))).toEqual(expected);
  });

  test('that never end hold no more than the limit', () => {
    const chunks = Array.from({ length: 40 }, () => Buffer.alloc(50_000, 'x'));
    const [told] = split(100_000, [Buffer.from('head '), ...chunks, Buffer.from(' tail')]);
    expect(told).toMatch(/^too long: head x{507}…x{507} tail$/);
  });

  test('may be long, between short ones', () => {
    const long = 'x'.repeat(1_000_000);
    expect(split(2_000_000, [Buffer.from(`a\n${long.slice(0, 70_000)}`), Buffer.from(`${long.slice(70_000)}\nb\n`)])).toEqual(['a', long, 'b']); // prettier-ignore
  });
});
