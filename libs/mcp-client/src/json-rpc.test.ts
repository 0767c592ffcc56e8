import { describe, expect, test } from '@jest/globals';
import { parseJson, writeJson } from '@holdfast/run';
import { isAnswerTo, readError, readMessages, writeCall, writeMessage, writeReply } from './json-rpc.js';

const call = { tool: 'pay', arguments: '{}', meta: {}, paramHeaders: {} };

test('arguments go into a call as the text they are', () => {
  const args = '{"big":1915883588174806058,"exp":1e400,"one":1.0}';
  expect(writeCall(7, { ...call, arguments: args }, { progressToken: 7 })).toBe(
    `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"pay","arguments":${args},"_meta":{"progressToken":7}}}`,
  );
});

test('a call is one line, whatever its arguments', () => {
  const text = writeCall(1, { ...call, arguments: '{\r\n  "a": "x\\ny"\n}' }, {});
  expect(text).not.toMatch(/[\r\n]/);
  expect(JSON.parse(text)).toMatchObject({ params: { arguments: { a: 'x\ny' } } });
});

test('a tool name and meta cannot leave their place', () => {
  const text = writeCall(
    1,
    { ...call, tool: 'a","arguments":{"x":1},"b":"' },
    { 'k"': parseJson('12345678901234567890') },
  );
  expect(text).toContain('"k\\"":12345678901234567890');
  expect(JSON.parse(text)).toMatchObject({ params: { name: 'a","arguments":{"x":1},"b":"', arguments: {} } });
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
  test.each([
    ['a result', '{"jsonrpc":"2.0","id":1,"result":{"a":1}}', { kind: 'answer', id: 1, answer: { kind: 'result', result: { a: 1 } } }],
    ['an error', '{"jsonrpc":"2.0","id":"1","error":{"code":-1,"message":"no"}}', { kind: 'answer', id: '1', answer: { kind: 'error', code: -1, message: 'no' } }],
    ['a request', '{"jsonrpc":"2.0","id":1,"method":"ping"}', { kind: 'request', id: 1, method: 'ping' }],
    ['a notification', '{"jsonrpc":"2.0","method":"x","params":{"a":1}}', { kind: 'notification', method: 'x', params: { a: 1 } }],
    ['a notification without params', '{"jsonrpc":"2.0","method":"x","params":[1]}', { kind: 'notification', method: 'x', params: {} }],
    ['noise: no version', '{"id":1,"result":{}}', { kind: 'noise' }],
    ['noise: no id', '{"jsonrpc":"2.0","id":null,"result":{}}', { kind: 'noise' }],
    ['noise: a result that is no object', '{"jsonrpc":"2.0","id":1,"result":5}', { kind: 'noise' }],
    ['noise: an error without a code', '{"jsonrpc":"2.0","id":1,"error":{"message":"x"}}', { kind: 'noise' }],
    ['noise: an error that is no object', '{"jsonrpc":"2.0","id":1,"error":"x","result":{}}', { kind: 'noise' }],
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

test('F144: a server may give our id back as a string, and no other', () => {
  expect([isAnswerTo(0, '0'), isAnswerTo(12, 12), isAnswerTo(12, '12')]).toEqual([true, true, true]);
  expect([isAnswerTo(1, '01'), isAnswerTo(1, 2), isAnswerTo(1, ''), isAnswerTo(0, '')]).toEqual(
    Array(4).fill(false),
  );
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
  expect(['', 'null', '[]', '{"error":1}', '{"error":{"code":"x"}}'].map(readError)).toEqual(
    Array(5).fill(undefined),
  );
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
