import { expect, test } from '@jest/globals';
import { measureJson } from './json-size.js';

const wide = { values: 1_000, depth: 1_000 };

test.each([
  ['1', 1],
  ['[]', 1],
  ['{ }', 1],
  ['[{},{}]', 3],
  ['[1, "a,b[{", null]', 4],
  ['{"a":{"b":[1,2]},"c\\"{,":"\\\\"}', 6],
  ['[[[]]]', 3],
])('G23: %s holds %i values', (text, values) => {
  expect(measureJson(text, wide)).toEqual({ values });
});

test('G23: values beyond the bound are found before the text ends', () => {
  expect(measureJson(`[${'{},'.repeat(100_000)}`, { values: 10, depth: 5 })).toEqual({
    values: 11,
    exceeds: 'values',
  });
});

test.each([
  ['[', ']'],
  ['{"a":', '}'],
  [' [ {"b": ', '}]'],
])('G30: %s inside itself is too deep beyond the bound, and at it is not', (open, close) => {
  const levels = open.split(/[[{]/).length - 1;
  const nested = (times: number): string => `${open.repeat(times)}1${close.repeat(times)}`;
  expect(measureJson(nested(6 / levels), { values: 100, depth: 6 }).exceeds).toBeUndefined();
  expect(measureJson(nested(8 / levels), { values: 100, depth: 6 }).exceeds).toBe('depth');
});

test('a text that is no JSON is measured without an error', () => {
  for (const text of ['"open', '"\\', '}}}}', ']', '', '[,,,,', '{"a'])
    expect(measureJson(text, wide).exceeds).toBeUndefined();
});
