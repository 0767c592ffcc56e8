import { expect, test } from '@jest/globals';
import { legacyResult } from './call-result.js';

const mark = { id: 'r0_x', attempt: 2, reattached: true };

test('a result is passed on as it was recorded, with the mark of its run', () => {
  const recorded = '{"content":[],"structuredContent":{"n":9007199254740993,"s":"\\"_meta\\""}}';
  expect(legacyResult({ kind: 'recorded', result: recorded, mark })).toBe(
    `${recorded.slice(0, -1)},"_meta":{"holdfast/run":{"id":"r0_x","attempt":2,"reattached":true}}}`,
  );
});

test('the meta of a tool is kept beside the mark, with every digit; the mark is ours alone', () => {
  const recorded = '{"content":[],"_meta":{"n":9007199254740993,"holdfast/run":"forged"}}';
  expect(legacyResult({ kind: 'recorded', result: recorded, mark })).toBe(
    '{"content":[],"_meta":{"n":9007199254740993,"holdfast/run":{"id":"r0_x","attempt":2,"reattached":true}}}',
  );
});

test('a failure is readable by a model and the same as data for a program', () => {
  const facts = { name: 'ToolError', message: 'no', retryable: true, outcome: 'ran' } as const;
  const told = { ...facts, run_id: 'r0_x' };
  expect(JSON.parse(legacyResult({ kind: 'failed', error: facts, mark, listsOutput: false }))).toEqual({
    content: [{ type: 'text', text: 'ToolError: no' }],
    structuredContent: { error: told },
    isError: true,
    _meta: { 'holdfast/run': mark, 'holdfast/error': told },
  });
  expect(JSON.parse(legacyResult({ kind: 'failed', error: facts, listsOutput: false }))._meta).toEqual({
    'holdfast/error': { ...told, run_id: null },
  });
});

test('the failure of a tool that lists an output schema has no structured content that would break it', () => {
  const facts = { name: 'MCPToolError', message: 'no', retryable: false, outcome: 'ran' } as const;
  const failure = JSON.parse(
    legacyResult({ kind: 'failed', error: facts, mark, listsOutput: true }),
  ) as object;
  expect(Object.keys(failure)).toEqual(['content', 'isError', '_meta']);
});
