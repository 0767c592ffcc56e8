import { describe, expect, test } from '@jest/globals';
import { readArguments, readToken } from './idempotency.js';
import { parseJson } from './json.js';

describe('a token (BEHAVIOURS 37, R4)', () => {
  test.each([['a'], ['a'.repeat(256)], ['😀'.repeat(256)], [' padded '], ['\0'], ['constructor']])(
    '%j is taken as it is',
    (token) => {
      expect(readToken(token)).toEqual({ kind: 'token', token });
    },
  );

  test.each([
    [null],
    [''],
    ['a'.repeat(257)],
    ['😀'.repeat(257)],
    [7],
    [['x']],
    [{}],
    [true],
    ['\ud83d'],
    ['x'.repeat(1e6)],
  ])('%j is rejected and nothing is sent', (value) => {
    expect(readToken(value)).toMatchObject({
      kind: 'refused',
      error: { name: 'InvalidIdempotencyToken', outcome: 'not_sent' },
    });
  });

  test('an absent key means no token', () => {
    expect(readToken(undefined)).toEqual({ kind: 'none' });
  });
});

const digestOf = (raw: string) => {
  const read = readArguments(parseJson(raw));
  return read.kind === 'arguments' ? read.digest : read.error.message;
};

describe('the digest of arguments (BEHAVIOURS R6)', () => {
  test.each([
    ['{}', 'a1_44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a'],
    ['{"order_id":"o-17"}', 'a1_7c9c5842af9980e9e39aab1422cdd1c78200ea0c90495983e49bbfa7d06fa032'],
    ['{"b":1.0,"a":[1e2,-0]}', 'a1_a2697c4e40f06b6428dbd6b5ef11c3a05799700e9e3c66a649788a2cbfe2c14f'],
  ])('%s', (raw, digest) => {
    expect(digestOf(raw)).toBe(digest);
  });

  test.each([
    ['{"a":1,"b":2}', '{ "b": 2.0, "a": 1e0 }'],
    ['{"a":"A"}', '{"a":"\\u0041"}'],
    ['{"a":1}', '{"a":2,"a":1}'],
    ['{"\\ud83d\\ude00":1,"\\uffff":2}', '{"\\uffff":2,"\\ud83d\\ude00":1}'],
  ])('%s is the same as %s', (one, other) => {
    expect(digestOf(one)).toBe(digestOf(other));
  });

  test.each([
    ['{}', '{"a":null}'],
    ['{"a":[1,2]}', '{"a":[2,1]}'],
    ['{"a":"\\u00e9"}', '{"a":"e\\u0301"}'],
    ['{"a":1}', '{"a":"1"}'],
  ])('%s is not the same as %s', (one, other) => {
    expect(digestOf(one)).not.toBe(digestOf(other));
  });

  test('an integer that a double holds keeps its value, whatever digits it is written with later', () => {
    expect(digestOf('{"n":[1152921504606846976]}')).toBe(digestOf('{"n":[1152921504606846976.0]}'));
    expect(readArguments(parseJson('{"n":-9223372036854775808}'))).toMatchObject({
      value: { n: -(2 ** 63) },
    });
  });

  test.each([
    ['[7960607143101464576,[{"x":-9223372036854775808}]]', undefined],
    ['0.1000000000000000055', 'n: the number 0.1000000000000000055'],
    ['{"a":1e-400}', 'n.a: the number 1e-400'],
    ['[-0,{"b":-0.0}]', undefined],
    ['[1.5,0.1,1e21,9007199254740991]', undefined],
  ])('G69: %s keeps its digits, and says where a double is another', (n, rounded) => {
    const read = readArguments(parseJson(`{"n":${n}}`));
    const problem = rounded && `${rounded} cannot be held exactly; send it as a string`;
    expect(read).toMatchObject({
      kind: 'arguments',
      value: { n: JSON.parse(n) as unknown },
      json: `{"n":${n.replace('1e21', '1e+21')}}`,
      rounded: problem,
    });
    expect(digestOf(`{"n":${n}}`)).toBe(digestOf(JSON.stringify({ n: JSON.parse(n) as unknown })));
  });

  test('absent arguments are the empty object', () => {
    expect(readArguments(undefined)).toMatchObject({ digest: digestOf('{}') });
  });
});

describe('arguments that cannot be distinguished or stored are rejected with their path', () => {
  test.each([
    [
      '{"a":{"n":[1,9007199254740993]}}',
      'a.n[1]: the number 9007199254740993 cannot be held exactly; send it as a string',
    ],
    ['{"n":-1E400}', 'n: the number -1E400 cannot be held exactly; send it as a string'],
    [
      '{"n":9007199254740993.0}',
      'n: the number 9007199254740993.0 cannot be held exactly; send it as a string',
    ],
    ['{"n":1e400}', 'n: the number 1e400 cannot be held exactly; send it as a string'],
    ['{"s":"\\ud83d"}', 's: holds a lone surrogate, which is not valid Unicode text'],
    ['{"\\ud83d":1}', 'arguments: a key holds a lone surrogate'],
    ['[1]', 'arguments: must be an object'],
    ['"x"', 'arguments: must be an object'],
  ])('%s', (raw, message) => {
    expect(readArguments(parseJson(raw))).toMatchObject({
      kind: 'refused',
      error: { name: 'InvalidArguments', message },
    });
  });

  test('nesting that would exhaust the stack', () => {
    expect(digestOf(`{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`)).toMatch(
      /nested deeper than 200 levels/,
    );
  });

  test('U+0000 and a proper emoji are kept', () => {
    expect(readArguments(parseJson('{"s":"\\u0000😀"}'))).toMatchObject({
      kind: 'arguments',
      value: { s: '\0😀' },
    });
  });
});
