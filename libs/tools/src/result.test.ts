import { describe, expect, test } from '@jest/globals';
import { recordResult } from './result.js';

describe('what a body returns becomes a tool result (BEHAVIOURS 30)', () => {
  test.each<[string, unknown, string]>([
    ['a string', 'refunded', '{"content":[{"type":"text","text":"refunded"}]}'],
    ['undefined', undefined, '{"content":[{"type":"text","text":""}]}'],
    ['an object', { a: 1 }, '{"content":[{"type":"text","text":"{\\"a\\":1}"}],"structuredContent":{"a":1}}'],
    ['a number', 4, '{"content":[{"type":"text","text":"4"}]}'],
    ['null', null, '{"content":[{"type":"text","text":"null"}]}'],
    ['an array', [1, 'x'], '{"content":[{"type":"text","text":"[1,\\"x\\"]"}]}'],
    [
      'blocks',
      { content: [{ type: 'text', text: '' }], _meta: { k: 1 } },
      '{"content":[{"type":"text","text":""}],"_meta":{"k":1}}',
    ],
    [
      'fields that no result has',
      { content: [], resultType: 'input_required', requestState: 'x' },
      '{"content":[]}',
    ],
    [
      'blocks beside a big integer',
      { content: [], structuredContent: { id: 1915883588174806058n } },
      '{"content":[],"structuredContent":{"id":1915883588174806058}}',
    ],
    ['a date', new Date(0), '{"content":[{"type":"text","text":"\\"1970-01-01T00:00:00.000Z\\""}]}'],
    [
      'a big integer',
      { id: 1915883588174806058n },
      '{"content":[{"type":"text","text":"{\\"id\\":1915883588174806058}"}],"structuredContent":{"id":1915883588174806058}}',
    ],
    [
      'U+0000 and a lone surrogate',
      '\0 \ud83d 😀',
      '{"content":[{"type":"text","text":"\\u0000 \\ud83d 😀"}]}',
    ],
  ])('%s', (_title, returned, result) => {
    expect(recordResult(returned)).toEqual({ result });
  });
});

describe('what cannot be a result is an error that says why', () => {
  const circular: Record<string, unknown> = {};
  circular['self'] = circular;
  test.each<[string, unknown, RegExp]>([
    ['a function', () => 1, /returned a function/],
    ['a circular object', circular, /cannot be written as JSON: .*circular/i],
    ['a block of no known type', { content: [{ type: 'video' }] }, /malformed content: content\[0\]\.type: /],
    [
      'a block without its text',
      { content: [{ type: 'text', text: 'a' }, { type: 'text' }] },
      /malformed content: content\[1\]\.text: /,
    ],
    ['a block that is no object', { content: ['a'] }, /malformed content: content\[0\]: /],
    [
      'annotations that no host takes',
      { content: [{ type: 'text', text: 'a', annotations: 'nope' }] },
      /content\[0\]\.annotations: /,
    ],
    [
      'an image that is no base64',
      { content: [{ type: 'image', data: '\u0000', mimeType: 'image/png' }] },
      /content\[0\]\.data: must be base64/,
    ],
    ['isError that is no boolean', { content: [], isError: 'yes' }, /isError: /],
    ['_meta that is no object', { content: [], _meta: 'abc' }, /_meta: /],
    [
      'a toJSON that throws nothing',
      {
        toJSON: () => {
          throw null;
        },
      },
      /cannot be written as JSON/,
    ],
    [
      'isError',
      {
        content: [
          { type: 'text', text: 'no' },
          { type: 'text', text: 'way' },
        ],
        isError: true,
      },
      /^no\nway$/,
    ],
  ])('%s', (_title, returned, message) => {
    expect((recordResult(returned) as { error: string }).error).toMatch(message);
  });
});
