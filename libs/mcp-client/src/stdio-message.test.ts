import { describe, expect, test } from '@jest/globals';
import { ourId, readLine, readTooLong } from './stdio-message.js';

const read = (text: string) => readLine(Buffer.from(text));
/** As `ByteLines` gives a long line. */
const tooLong = (text: string) =>
  readTooLong(Buffer.from(text.slice(0, 512)), Buffer.from(text.slice(-512)), 64);
const long = `{"id":99,"text":"${'x'.repeat(2000)}"}`;
const unreadable = { kind: 'unreadable', id: 7, problem: 'its answer is longer than 64 bytes' };

describe('a line of an upstream', () => {
  test.each(['Listening on 3000', '{', '{"id":1,"result":{}}', '{"jsonrpc":"1.0","id":1,"result":{}}', '7', 'null', '{"jsonrpc":"2.0","id":null,"result":{}}', '{"jsonrpc":"2.0","method":7,"id":1}', '{"jsonrpc":"2.0"}'])('is noise where it is no message: %s', (text) => {
    expect(read(text)).toEqual([{ kind: 'noise' }]);
  }); // prettier-ignore

  test('that is blank is nothing', () => {
    for (const text of ['', ' \t\r', '\ufeff']) expect(read(text)).toEqual([]);
  });

  test('may begin with a BOM and end with a carriage return', () => {
    expect(read('\ufeff{"jsonrpc":"2.0","id":1,"result":{}}\r')).toEqual([
      { kind: 'result', id: 1, result: {} },
    ]);
  });

  test('with an error without a usable code or message is an answer all the same', () => {
    expect(read('{"jsonrpc":"2.0","id":1,"error":{"code":"E","message":{}}}')).toEqual([
      { kind: 'error', id: 1, code: -32603, message: '' },
    ]);
    const [error] = read(`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"${'x'.repeat(5000)}"}}`);
    expect(error).toMatchObject({ message: 'x'.repeat(2000) });
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
    expect(tooLong(text)).toEqual(unreadable);
  });

  test.each([
    `{"result":${long},"jsonrpc":"2.0"}`,
    `{"jsonrpc":"2.0","result":{"a":${long},"id":7}}`,
    `[{"result":${long},"jsonrpc":"2.0","id":7}]`,
    'x'.repeat(3000),
  ])('that is too long tells nothing by an id that is not its own: %.40s', (text) => {
    expect(tooLong(text)).toEqual({ kind: 'noise' });
  });

  test('may carry an id of ours as a string, and no other string is one (F144)', () => {
    expect(['7', 7, '', 'a', '7.0', ' 7', '1'.repeat(16), null, {}, true].map(ourId)).toEqual([
      7, 7, ...Array<undefined>(8).fill(undefined),
    ]); // prettier-ignore
  });
});
