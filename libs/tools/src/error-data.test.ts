import { expect, test } from '@jest/globals';
import { readErrorData } from './error-data.js';

const elicitation = {
  mode: 'url',
  url: 'https://up.example/sign-in?x=1',
  message: 'Sign in',
  elicitationId: 'e',
};

test.each<[unknown, unknown, string]>([
  [undefined, undefined, ''],
  [null, undefined, ''],
  ['try later', 'try later', 'try later'],
  [{ field: 'date', code: 7 }, { field: 'date', code: 7 }, '{"field":"date","code":7}'],
  [[1], [1], '[1]'],
  [0, 0, '0'],
  [{ elicitations: [elicitation] }, { elicitations: [elicitation] }, 'open https://up.example/sign-in?x=1'],
  [
    { elicitations: [{ url: 7 }, null] },
    { elicitations: [{ url: 7 }, null] },
    '{"elicitations":[{"url":7},null]}',
  ],
])('G08: the data %j of an error is kept, and is short in its text', (raw, data, text) => {
  expect(readErrorData(raw)).toEqual({ ...(data !== undefined && { data }), text });
});

test('G08: data without end is cut, and a URL to open stays whole', () => {
  const long = { x: 'é'.repeat(100_000), elicitations: Array.from({ length: 9 }, () => elicitation) };
  const { data, text } = readErrorData(long);
  expect(Buffer.byteLength(JSON.stringify(data))).toBeLessThanOrEqual(8 * 1024);
  expect(data).toMatch(/cut here/);
  expect(text).toBe(`open ${[elicitation.url, elicitation.url, elicitation.url].join(' and ')}`);
  expect(readErrorData('x'.repeat(1_000)).text).toHaveLength(500);
  const deep = JSON.parse('['.repeat(5_000) + ']'.repeat(5_000)) as unknown;
  expect(readErrorData(deep)).toEqual({ text: 'its data is nested deeper than 32 levels' });
});
