import { describe, expect, test } from '@jest/globals';
import { readHint } from './signals.js';

describe('a payload on the channel of the store', () => {
  test.each([
    ['o1 queued', { origin: 'o1', signal: { kind: 'queued' }, lowest: 0 }],
    ['o1 queued 17', { origin: 'o1', signal: { kind: 'queued' }, lowest: 17 }],
    ['o1 runs 1,2,3', { origin: 'o1', signal: { kind: 'runs', seqs: [1, 2, 3] }, lowest: 0 }],
    ['o1 cancelled 4', { origin: 'o1', signal: { kind: 'cancelled', seqs: [4] }, lowest: 0 }],
    ['o1 tools', { origin: 'o1', signal: { kind: 'tools' }, lowest: 0 }],
    ['o1 session s-1', { origin: 'o1', signal: { kind: 'session', id: 's-1' }, lowest: 0 }],
    [
      'o1 told {"id":"s-1","message":"two words, {} and 😀"}',
      { origin: 'o1', signal: { kind: 'told', id: 's-1', message: 'two words, {} and 😀' }, lowest: 0 },
    ],
  ])('that a store sends is read: %s', (payload, hint) => {
    expect(readHint(payload)).toEqual(hint);
  });

  test.each([
    '',
    ' ',
    'a told b',
    'a told',
    'a told {',
    'a told []',
    'a told null',
    'a told {"id":1,"message":"x"}',
    'a told {"id":"x"}',
    `a told {"id":"x","message":"${'m'.repeat(5_000)}"}`,
    `a told ${'['.repeat(10_000)}`,
    'a runs',
    'a runs x',
    'a runs 1,,2',
    'a runs 1e3',
    'a runs -1',
    `a runs ${'9'.repeat(30)}`,
    `a runs ${'1,'.repeat(2_000)}1`,
    'a queued x',
    'a cancelled NaN',
    'a session',
    `a session ${'s'.repeat(300)}`,
    'a launch 1',
    `${'o'.repeat(100)} tools`,
    `a session ${'x'.repeat(1_000_000)}`,
  ])('G68: that no store sends is nothing (%#)', (payload) => {
    expect(readHint(payload)).toBeUndefined();
  });
});
