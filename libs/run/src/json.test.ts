import { describe, expect, test } from '@jest/globals';
import { formatPath, isInexactNumber, parseJson, writeJson } from './json.js';

describe('numbers that a double cannot hold, or would be written with other digits', () => {
  test.each([
    '9007199254740993',
    '-9007199254740993',
    '1915883588174806058',
    '1e400',
    '123456789012345678901234567890',
    '-9223372036854775808',
    '1152921504606846976',
  ])('%s is kept digit for digit', (literal) => {
    const value = parseJson(`{"id":${literal}}`) as { id: unknown };
    expect(isInexactNumber(value.id)).toBe(true);
    expect(writeJson(value)).toBe(`{"id":${literal}}`);
  });

  test.each([
    '9007199254740991',
    '9007199254740992',
    '10000000000000000',
    '0.1234567890123456789',
    '1e21',
    '-0',
    '1.0',
  ])('%s is an ordinary number', (literal) => {
    expect((parseJson(`[${literal}]`) as unknown[])[0]).toBe(Number(literal));
  });

  test('a long run of digits inside a string is text', () => {
    expect(parseJson('"9007199254740993"')).toBe('9007199254740993');
  });
});

test('a BigInt is written with every digit', () => {
  expect(writeJson({ n: 1915883588174806058n })).toBe('{"n":1915883588174806058}');
});

test('a path reads as people write it', () => {
  expect(formatPath(['items', 3, 'unit price', 'net'])).toBe('items[3]["unit price"].net');
});
