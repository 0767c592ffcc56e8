import { describe, expect, test } from '@jest/globals';
import { readLine, readTooLong } from './stdio-message.js';

const read = (text: string) => readLine(Buffer.from(text));
/** As `ByteLines` gives a long line. */
const tooLong = (text: string) =>
  readTooLong(Buffer.from(text.slice(0, 512)), Buffer.from(text.slice(-512)), 64);
const long = `{"id":99,"text":"${'x'.repeat(2000)}"}`;
const broken = {
  kind: 'answer',
  id: 7,
  answer: { kind: 'broken', reason: 'its answer is longer than 64 bytes' },
};

describe('a line of an upstream', () => {
  test.each(['Listening on 3000', '{', '7', '{"id":1,"result":{}}'])('is noise where it is no message: %s', (text) => {
    expect(read(text)).toEqual([{ kind: 'noise' }]);
  }); // prettier-ignore

  test('that is blank is nothing', () => {
    for (const text of ['', ' \t\r', '\ufeff']) expect(read(text)).toEqual([]);
  });

  test('may begin with a BOM and end with a carriage return', () => {
    expect(read('\ufeff{"jsonrpc":"2.0","id":1,"result":{}}\r')).toEqual([
      { kind: 'answer', id: 1, answer: { kind: 'result', result: {} } },
    ]);
  });

  test('that is nested deeper than any reader goes does not harm', () => {
    const deep = '['.repeat(200_000) + ']'.repeat(200_000);
    expect(read(`{"jsonrpc":"2.0","id":9007199254740993,"result":${deep}}`)).toHaveLength(1);
  });

  test.each([
    `{"jsonrpc":"2.0","id":7,"result":${long}}`,
    `{"id":7,"jsonrpc":"2.0","result":${long}}`,
    `{"jsonrpc":"2.0","id":"7","result":${long}}`,
    `{"result":${long},"jsonrpc":"2.0","id":7}`,
    `{"jsonrpc":"2.0","result":${long},"id":"7"}\r`,
  ])('that is too long to be read tells by its ends whose answer it is: %.40s', (text) => {
    expect(tooLong(text)).toEqual(broken);
  });

  test.each([
    `{"result":${long},"jsonrpc":"2.0"}`,
    `{"jsonrpc":"2.0","result":{"a":${long},"id":7}}`,
    `[{"result":${long},"jsonrpc":"2.0","id":7}]`,
    'x'.repeat(3000),
  ])('that is too long tells nothing by an id that is not its own: %.40s', (text) => {
    expect(tooLong(text)).toEqual({ kind: 'noise' });
  });
});
