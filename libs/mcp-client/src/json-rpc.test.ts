import { describe, expect, test } from '@jest/globals';
import { parseJson, writeJson } from '@holdfast/run';
import {
  ourId,
  readError,
  readMessages,
  readProgress,
  writeCall,
  writeMessage,
  writeReply,
} from './json-rpc.js';

const call = { tool: 'pay', arguments: '{}', meta: {}, paramHeaders: {} };

test('arguments go into a call as the text they are', () => {
  const args = '{"big":1915883588174806058,"exp":1e400,"one":1.0}';
  expect(writeCall(7, { ...call, arguments: args }, {})).toBe(
    `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"pay","arguments":${args},"_meta":{"progressToken":7}}}`,
  );
});

test('a call is one line, whatever its arguments', () => {
  const text = writeCall(1, { ...call, arguments: '{\r\n  "a": "x\\ny"\n}' }, {});
  expect(text).not.toMatch(/[\r\n]/);
  expect(JSON.parse(text)).toMatchObject({ params: { arguments: { a: 'x\ny' } } });
});

test('a tool name and meta cannot leave their place', () => {
  const meta = { 'k"': parseJson('12345678901234567890') };
  const text = writeCall(1, { ...call, tool: 'a","arguments":{"x":1},"b":"', meta }, {});
  expect(text).toContain('"k\\"":12345678901234567890');
  expect(JSON.parse(text)).toMatchObject({ params: { name: 'a","arguments":{"x":1},"b":"', arguments: {} } });
});

test('its caller says nothing in _meta that is the protocol’s to say', () => {
  const text = writeCall(
    1,
    { ...call, meta: { vendor: 1, progressToken: 'x', era: 'x' } },
    { era: 'modern' },
  );
  expect(JSON.parse(text)).toMatchObject({
    params: { _meta: { vendor: 1, progressToken: 1, era: 'modern' } },
  });
});

test('a notification has no id, and no params where there are none', () => {
  expect(writeMessage('notifications/initialized', undefined)).toBe(
    '{"jsonrpc":"2.0","method":"notifications/initialized"}',
  );
  expect(writeMessage('tools/list', { cursor: 'x' }, 3)).toBe(
    '{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"cursor":"x"}}',
  );
});

describe('a message is', () => {
  const broken = { kind: 'broken', reason: 'its answer has no result and no error' };
  test.each([
    ['a result', '{"jsonrpc":"2.0","id":1,"result":{"a":1}}', { kind: 'answer', id: 1, answer: { kind: 'result', result: { a: 1 } } }],
    ['an error', '{"jsonrpc":"2.0","id":"1","error":{"code":-1,"message":"no"}}', { kind: 'answer', id: '1', answer: { kind: 'error', code: -1, message: 'no' } }],
    ['a request', '{"jsonrpc":"2.0","id":1,"method":"ping"}', { kind: 'request', id: 1, method: 'ping' }],
    ['a notification', '{"jsonrpc":"2.0","method":"x","params":{"a":1}}', { kind: 'notification', method: 'x', params: { a: 1 } }],
    ['a notification without params', '{"jsonrpc":"2.0","method":"x","params":[1]}', { kind: 'notification', method: 'x', params: {} }],
    ['a result that is no object', '{"jsonrpc":"2.0","id":1,"result":5}', { kind: 'answer', id: 1, answer: { kind: 'result', result: 5 } }],
    ['a result beside an error of null', '{"jsonrpc":"2.0","id":1,"result":{},"error":null}', { kind: 'answer', id: 1, answer: { kind: 'result', result: {} } }],
    ['an error beside a result of null', '{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":-1,"message":"no"}}', { kind: 'answer', id: 1, answer: { kind: 'error', code: -1, message: 'no' } }],
    ['an error without a usable code or message', '{"jsonrpc":"2.0","id":1,"error":{"code":"E","message":{}}}', { kind: 'answer', id: 1, answer: { kind: 'error', code: -32603, message: '' } }],
    ['a broken answer: nothing in it', '{"jsonrpc":"2.0","id":1}', { kind: 'answer', id: 1, answer: broken }],
    ['a broken answer: both', '{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}', { kind: 'answer', id: 1, answer: broken }],
    ['a broken answer: an error that is no object', '{"jsonrpc":"2.0","id":1,"error":"x"}', { kind: 'answer', id: 1, answer: broken }],
    ['noise: no version', '{"id":1,"result":{}}', { kind: 'noise' }],
    ['noise: another version', '{"jsonrpc":"1.0","id":1,"result":{}}', { kind: 'noise' }],
    ['noise: no id', '{"jsonrpc":"2.0","id":null,"result":{}}', { kind: 'noise' }],
    ['noise: a method that is no text', '{"jsonrpc":"2.0","method":7,"id":1}', { kind: 'noise' }],
    ['noise: no object', '17', { kind: 'noise' }],
  ])('%s', (_what, text, message) => {
    expect(readMessages(text)).toEqual([message]);
  }); // prettier-ignore

  test('one of a batch', () => {
    expect(readMessages('[{"jsonrpc":"2.0","method":"x"},5]')).toEqual([
      { kind: 'notification', method: 'x', params: {} },
      { kind: 'noise' },
    ]);
  });
});

test('numbers of a result keep their digits', () => {
  const text = '{"jsonrpc":"2.0","id":1,"result":{"n":[1915883588174806058,0.1,-0]}}';
  const [message] = readMessages(text);
  expect(writeJson((message as { answer: { result: unknown } }).answer.result)).toContain(
    '1915883588174806058',
  );
});

test('F144: a server may give our id back as a string, and no other string is one', () => {
  expect(['7', 7, '', 'a', '7.0', ' 7', '07', '1'.repeat(16), null, {}, true].map(ourId)).toEqual([
    7, 7, ...Array<undefined>(9).fill(undefined),
  ]); // prettier-ignore
});

test('progress tells its request, its numbers as far as they can be shown, and a text of bounded length', () => {
  expect(
    readProgress({ progressToken: '7', progress: parseJson('12345678901234567890'), total: 1, message: 'x' }),
  ).toEqual({ id: 7, progress: { value: Number('12345678901234567890'), total: 1, message: 'x' } });
  expect(readProgress({ progressToken: 7, progress: 1, total: 'two', message: 'x'.repeat(5_000) })).toEqual({
    id: 7,
    progress: { value: 1, message: 'x'.repeat(1_000) },
  });
  for (const progress of ['three', null, parseJson('1e400')])
    expect(readProgress({ progressToken: 7, progress })).toBeUndefined();
  expect(readProgress({ progressToken: 'host', progress: 1 })).toBeUndefined();
});

test('an error message of a server is cut', () => {
  const text = JSON.stringify({
    jsonrpc: '2.0',
    id: null,
    error: { code: -32601, message: '😀'.repeat(5_000) },
  });
  expect([...readError(text)!.message]).toHaveLength(2_000);
});

test('what is no error gives none', () => {
  expect(['', 'null', '[]', '{"error":1}'].map(readError)).toEqual(Array(4).fill(undefined));
});

test('a request of a server is answered: ping with nothing, the rest with method not found', () => {
  const [ping] = readMessages('{"jsonrpc":"2.0","id":12345678901234567890,"method":"ping"}');
  expect(writeReply(ping as { id: string; method: string })).toBe(
    '{"jsonrpc":"2.0","id":12345678901234567890,"result":{}}',
  );
  expect(JSON.parse(writeReply({ id: 'a', method: 'sampling/createMessage' }))).toMatchObject({
    id: 'a',
    error: { code: -32601 },
  });
});
