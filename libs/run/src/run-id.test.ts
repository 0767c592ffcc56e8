import { describe, expect, test } from '@jest/globals';
import { freshRunId, isRunId, tokenRunId } from './run-id.js';

const key = Uint8Array.from({ length: 32 }, (_, i) => i);

describe('a run id from a token (BEHAVIOURS R5)', () => {
  test.each([
    [{ realm: 'apikey', id: 'desk' }, 'r1_28bb7892c7c0730207d30138047bf871867eb8c18503a4860e2fcafb9092f46f'],
    [{ realm: 'apikey', id: 'ci' }, 'r1_1bdc63ef41ce7f2fe60c68c2c0aa6bfeeeceaf9ffb853427e0d8e2c9a23b6a4f'],
    [
      { realm: 'jwt:https://idp.example', id: 'desk' },
      'r1_2ec9c146a88d80cac3044ceb5ae5e479c0b7ea03adc6808fc109803a7c3bfdfb',
    ],
    [null, 'r1_300b019236857c05625b822187bfd311161d93b925ce04fc6694ac7d7d529c60'],
  ])('%j', (principal, id) => {
    expect(tokenRunId(key, principal, 'mcp:tool:refund_order', 'refund-o-17')).toBe(id);
  });

  test('another key, tool or token produces another run', () => {
    const desk = { realm: 'apikey', id: 'desk' };
    const ids = [
      tokenRunId(key, desk, 'mcp:tool:a', 't'),
      tokenRunId(
        key.map((byte) => byte + 1),
        desk,
        'mcp:tool:a',
        't',
      ),
      tokenRunId(key, desk, 'mcp:tool:b', 't'),
      tokenRunId(key, desk, 'mcp:tool:a', 'u'),
      tokenRunId(key, desk, 'mcp:tool:at', ''),
    ];
    expect(new Set(ids).size).toBe(ids.length);
  });
});

test('a run without a token has a unique id that sorts by time', () => {
  const ids = [freshRunId(1_000), freshRunId(1_000), freshRunId(2_000)];
  expect(new Set(ids).size).toBe(3);
  expect(ids.every(isRunId)).toBe(true);
  expect(ids[2]! > ids[0]! && ids[2]! > ids[1]!).toBe(true);
  expect(freshRunId(0x0123456789ab, new Uint8Array(10).fill(255))).toBe(
    'r0_01234567-89ab-7fff-bfff-ffffffffffff',
  );
});
