import { expect, test } from '@jest/globals';
import { endsOfCancel } from './cancel.js';

const upstream = { server: 'gh_00000001', tool: 'pay', fingerprint: 'm1_x' };
const outcomes = (run: Parameters<typeof endsOfCancel>[0]): string[] =>
  Object.values(endsOfCancel(run)).map(({ name, outcome }) => `${name} ${outcome}`);

test('the error of a cancelled run depends on its progress', () => {
  expect(outcomes({ tool: 'refund', toolClass: 'write' }).slice(0, 2)).toEqual([
    'RunCancelled not_sent',
    'RunCancelled unknown',
  ]);
  expect(outcomes({ tool: 'lookup', toolClass: 'read' }).slice(0, 2)).toEqual([
    'RunCancelled not_sent',
    'RunCancelled ran',
  ]);
});

test('a write to an upstream was sent exactly if its dispatch mark exists (X10)', () => {
  expect(outcomes({ tool: 'gh__pay', toolClass: 'write', upstream })).toEqual([
    'RunCancelled not_sent',
    'RunCancelled not_sent',
    'MCPCallOutcomeUnknown unknown',
  ]);
});
