import { expect, test } from '@jest/globals';
import type { RunId } from '@holdfast/run';
import { refusalOf } from './fault.js';
import { ProtocolRefusal } from './wire-errors.js';

interface Line {
  readonly fields: Record<string, unknown>;
  readonly message: string;
}

function logOf(lines: Line[]) {
  const error = (fields: object, message: string): void =>
    void lines.push({ fields: fields as Line['fields'], message });
  return { debug() {}, info() {}, warn() {}, error };
}

test('G40: the line of a fault names request, tool and run, and shares its reference with the answer', () => {
  const lines: Line[] = [];
  const params = { name: 'refund_order', arguments: { card: '4111' } };
  const refusal = refusalOf(new Error('broken'), logOf(lines), {
    request: { id: 7, method: 'tools/call', params },
    runId: 'r0_x' as RunId,
  });
  const { reference } = refusal;
  expect(refusal).toMatchObject({ code: -32603, message: 'internal error', status: 500, data: undefined });
  expect(lines).toEqual([
    {
      message: 'request failed',
      fields: {
        reference,
        requestId: '7',
        method: 'tools/call',
        tool: 'refund_order',
        runId: 'r0_x',
        err: expect.any(Error),
      },
    },
  ]);
  expect(JSON.stringify(lines)).not.toContain('4111');
});

test('G40: words of a host are cut in the line', () => {
  const lines: Line[] = [];
  const long = 'x'.repeat(100_000);
  const request = { id: long, method: 'tools/call', params: { name: long } };
  refusalOf('thrown text', logOf(lines), { request });
  expect(JSON.stringify(lines).length).toBeLessThan(2_000);
});

test('a refusal is returned as it is, without a line', () => {
  const lines: Line[] = [];
  const refusal = new ProtocolRefusal(-32602, 'unknown tool');
  expect(refusalOf(refusal, logOf(lines))).toBe(refusal);
  expect(lines).toEqual([]);
});
