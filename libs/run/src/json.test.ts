import { describe, expect, test } from '@jest/globals';
import { formatPath, isInexactNumber, parseJson, writeJson } from './json.js';

describe('numbers that a double cannot hold, or would be written with other digits', () => {
  test.each([
    '9007199254740993',
    '-9007199254740993',
    '1915883588174806058',
    '1e400',
    '123456789012345678901234567890',
    `1${'0'.repeat(40)}`,
    '-9223372036854775808',
    '1152921504606846976',
    '7960607143101464576',
    '0.1234567890123456789',
    '0.1000000000000000055',
    '12345678.123456789012',
    '1e-400',
    '-0',
    '-0.0',
    '-0e5',
  ])('G69: %s is kept digit for digit', (literal) => {
    const value = parseJson(`{"id":${literal}}`) as { id: unknown };
    expect(isInexactNumber(value.id)).toBe(true);
    expect(writeJson(value)).toBe(`{"id":${literal}}`);
  });

  test.each([
    '9007199254740991',
    '9007199254740992',
    '10000000000000000',
    '1.7976931348623157e308',
    '5e-324',
    '0.30000000000000004',
    '1234567890.12345670',
    '1e21',
    '1E2',
    '1000.000000000000000000',
    '0.000000000000000000000',
    '0e5',
    '-0.5',
    '-0.05',
    '1.0',
  ])('%s is an ordinary number', (literal) => {
    expect((parseJson(`[${literal}]`) as unknown[])[0]).toBe(Number(literal));
  });

  test('a long run of digits inside a string is text', () => {
    expect(parseJson('"9007199254740993"')).toBe('9007199254740993');
  });
});

test('G69: a negative zero keeps its sign everywhere, and a date stays text', () => {
  for (const text of ['-0', '[-0]', '[1,-0,-0.50]', '{"a":-0,"b": -0.0}', '{"at":"2026-01-02"}'])
    expect(writeJson(parseJson(text))).toBe(text.replace('0.50', '0.5').replace(': ', ':'));
});

test('G69: an integer that a double holds is written with every digit', () => {
  const written = '[7960607143101464576,-9223372036854775808,9007199254740992,1e+21]';
  expect(writeJson([7960607143101464576, -(2 ** 63), 2 ** 53, 1e21])).toBe(written);
});

test('a literal of a million zeros is read at once', () => {
  const literal = `0.${'0'.repeat(500_000)}1${'0'.repeat(500_000)}`;
  expect(writeJson(parseJson(`[${literal}]`))).toBe(`[${literal}]`);
});

test('a BigInt is written with every digit', () => {
  expect(writeJson({ n: 1915883588174806058n })).toBe('{"n":1915883588174806058}');
});

test('a path is written in the usual notation', () => {
  expect(formatPath(['items', 3, 'unit price', 'net'])).toBe('items[3]["unit price"].net');
});
