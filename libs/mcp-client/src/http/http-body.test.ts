import { Readable } from 'node:stream';
import { describe, expect, test } from '@jest/globals';
import { BodyFault, bytesUpTo, readEvents, readText, type ServerEvent } from './http-body.js';

const bodyOf = (...chunks: (string | Buffer)[]): Readable =>
  Readable.from(chunks.map((chunk) => Buffer.from(chunk)));

async function eventsOf(
  chunks: (string | Buffer)[],
  left = 10_000,
  maxEvent?: number,
): Promise<ServerEvent[]> {
  const events = [];
  for await (const event of readEvents(bodyOf(...chunks), bytesUpTo(left), maxEvent)) events.push(event);
  return events;
}

const dataOf = async (...chunks: (string | Buffer)[]): Promise<string[]> =>
  (await eventsOf(chunks)).map(({ data }) => data);

describe('F92: an event is read', () => {
  test.each([
    ['with data alone', 'data: {"a":1}\n\n'],
    ['without a space after the colon', 'data:{"a":1}\n\n'],
    ['with an id and no event name', 'id: 7\ndata: {"a":1}\n\n'],
    ['with the name message', 'event: message\ndata: {"a":1}\n\n'],
    ['with comments in between', ': hello\nevent: message\n: still here\ndata: {"a":1}\n:\n\n'],
    ['with CRLF', 'event: message\r\ndata: {"a":1}\r\n\r\n'],
    ['with CR', 'event: message\rdata: {"a":1}\r\r'],
    ['with a byte order mark', '\uFEFFdata: {"a":1}\n\n'],
    ['after empty lines', '\n\n\ndata: {"a":1}\n\n'],
    ['with fields that nobody knows', 'what: ever\nodd\ndata: {"a":1}\n\n'],
  ])('%s', async (_what, text) => {
    expect(await eventsOf([text])).toEqual([expect.objectContaining({ type: 'message', data: '{"a":1}' })]);
    // The same, a byte at a time: no chunk ends where a line does.
    const bytes = [...Buffer.from(text)].map((byte) => Buffer.from([byte]));
    expect(await dataOf(...bytes)).toEqual(['{"a":1}']);
  });
});

test('lines of data are joined, and one space after the colon is no data', async () => {
  expect(await dataOf('data: a\ndata:  b\ndata\ndata:c\n\n')).toEqual(['a\n b\n\nc']);
});

test('a line separator of Unicode ends no line', async () => {
  const text = 'a\u2028b\u2029c\u0085d\u000be\u000cf';
  expect(await dataOf(`data: ${text}\n\n`)).toEqual([text]);
});

test('half an event at the end is none', async () => {
  expect(await dataOf('data: a\n\ndata: b\n')).toEqual(['a']);
  expect(await dataOf('data: a\n\ndata: b')).toEqual(['a']);
});

test('ids and delays are remembered; an id without data is told', async () => {
  expect(await eventsOf(['id: 1\nretry: 250\ndata:\n\n', 'data: x\n\n', 'id: 2\n\n'])).toEqual([
    { lastId: '1', type: 'message', data: '', retryMs: 250 },
    { lastId: '1', type: 'message', data: 'x', retryMs: 250 },
    { lastId: '2', type: 'message', data: '', retryMs: 250 },
  ]);
});

test('an id with a NUL and a delay that is no number are ignored', async () => {
  expect(await eventsOf(['id: a\0b\nretry: soon\ndata: x\n\n'])).toEqual([
    { lastId: undefined, type: 'message', data: 'x', retryMs: undefined },
  ]);
});

describe('a body is no answer', () => {
  const bad = Buffer.from([0x64, 0x61, 0x74, 0x61, 0x3a, 0xff, 0xfe, 0x0a, 0x0a]);

  test('when it is no UTF-8', async () => {
    await expect(eventsOf([bad])).rejects.toThrow(BodyFault);
    await expect(readText(bodyOf(bad), bytesUpTo(100))).rejects.toThrow(BodyFault);
    await expect(readText(bodyOf(Buffer.from('é').subarray(0, 1)), bytesUpTo(100))).rejects.toThrow(
      BodyFault,
    );
  });

  test('when it is larger than the budget', async () => {
    expect(await readText(bodyOf('12345', '67890'), bytesUpTo(10))).toBe('1234567890');
    await expect(readText(bodyOf('12345', '678901'), bytesUpTo(10))).rejects.toThrow('size limit');
  });

  test('when a stream says nothing without an end', async () => {
    const endless = Readable.from(
      (function* () {
        for (;;) yield Buffer.from(': still here\n');
      })(),
    );
    const read = async (): Promise<void> => {
      for await (const event of readEvents(endless, bytesUpTo(100_000))) expect(event).toBeUndefined();
    };
    await expect(read()).rejects.toThrow('size limit');
  });

  test('when one line or one event of a stream is too long', async () => {
    await expect(eventsOf(['data: ', 'x'.repeat(200)], 10_000, 100)).rejects.toThrow('a line');
    await expect(eventsOf(['data: 1234567890\n'.repeat(20)], 10_000, 100)).rejects.toThrow('an event');
    expect(await eventsOf(['data: 1234567890\n\n'.repeat(20)], 10_000, 100)).toHaveLength(20);
  });
});

test('a long line in many chunks costs no more than its length', async () => {
  const chunk = 'x'.repeat(1_000);
  const [data] = (await eventsOf(['data: ', ...Array<string>(5_000).fill(chunk), '\n\n'], 6_000_000)).map(
    (event) => event.data,
  );
  expect(data).toHaveLength(5_000_000);
});
