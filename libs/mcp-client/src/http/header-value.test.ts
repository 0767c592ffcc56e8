import { expect, test } from '@jest/globals';
import { headerValue } from './header-value.js';

test.each(['echo', 'a b', 'a-b_9.c', '', '!~'])('%j goes as it is', (text) => {
  expect(headerValue(text)).toBe(text);
});

test.each([
  ['größe', '=?base64?Z3LDtsOfZQ==?='],
  [' a', '=?base64?IGE=?='],
  ['a ', '=?base64?YSA=?='],
  ['a\r\nx: y', '=?base64?YQ0KeDogeQ==?='],
  ['=?base64?YQ==?=', '=?base64?PT9iYXNlNjQ/WVE9PT89?='],
])('%j is encoded', (text, header) => {
  expect(headerValue(text)).toBe(header);
});
