import { expect, test } from '@jest/globals';
import { endsOfCancel } from './cancel.js';

const upstream = { server: 'gh_00000001', tool: 'pay', fingerprint: 'm1_x' };
const outcomes = (run: Parameters<typeof endsOfCancel>[0]): string[] =>
  Object.values(endsOfCancel(run)).map(({ name, outcome }) => `${name} ${outcome}`);

test('a cancelled run says what may have happened, by how far it was', () => {
  expect(outcomes({ tool: 'refund', toolClass: 'write' }).slice(0, 2)).toEqual([
    'RunCancelled not_sent',
    'RunCancelled unknown',
  ]);
  expect(outcomes({ tool: 'lookup', toolClass: 'read' }).slice(0, 2)).toEqual([
    'RunCancelled not_sent',
    'RunCancelled ran',
  ]);
});

test('a write of an upstream was sent where its dispatch mark is, and nowhere else (X10)', () => {
  expect(outcomes({ tool: 'gh__pay', toolClass: 'write', upstream })).toEqual([
    'RunCancelled not_sent',
    'RunCancelled not_sent',
    'MCPCallOutcomeUnknown unknown',
  ]);
});
