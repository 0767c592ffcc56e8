import { expect, test } from '@jest/globals';
import { RunError } from '@holdfast/run';
import { faultOf, ProtocolRefusal, toRefusal } from './wire-errors.js';

test.each([
  [new Error('secret'), 500],
  ['secret', 500],
  [new RunError('internal', 'secret'), 500],
  [new RunError('store-unavailable', 'secret'), 503],
  [new RunError('store-closed', 'secret'), 503],
])('of our fault %p a host learns "internal error" and %d', (thrown, status) => {
  expect(toRefusal(thrown)).toMatchObject({
    code: -32603,
    message: 'internal error',
    status,
    data: undefined,
  });
  expect(faultOf(thrown)).toBeInstanceOf(Error);
});

test('a refusal is the fault of the host, and is told as it is', () => {
  const refusal = new ProtocolRefusal(-32602, 'unknown tool: x');
  expect(toRefusal(refusal)).toBe(refusal);
  expect(faultOf(refusal)).toBeUndefined();
});
