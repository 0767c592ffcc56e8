import { expect, test } from '@jest/globals';
import { passedOnMeta, returnedMeta } from './meta.js';

const meta = {
  progressToken: 0,
  idempotency_key: 'k',
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'holdfast/run': {},
  'vendor/key': [1],
  traceparent: 't',
};

test('an upstream gets the keys of vendors, and nothing of this hop', () => {
  expect(passedOnMeta(meta)).toEqual({ 'vendor/key': [1] });
});

test('a host gets what an upstream says, but for the words that are reserved', () => {
  expect(returnedMeta(meta)).toEqual({
    progressToken: 0,
    idempotency_key: 'k',
    'vendor/key': [1],
    traceparent: 't',
  });
});
