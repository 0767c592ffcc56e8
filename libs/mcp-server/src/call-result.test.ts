import { describe, expect, test } from '@jest/globals';
import { publish } from '../../../test/support/publish.ts';
import { legacyResult, modernResult } from './call-result.js';
import { ask, memoryStore, openGateway, serverOf, ways, type ToolResult } from './test-gateway.js';

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

const textBlock = (text: string) => ({ type: 'text', text });

describe.each(ways)('%s: a recorded result', (way) => {
  test.each([
    ['a block of a type that nobody knows', { content: [{ type: 'hologram', shape: { sides: [1, 2] } }] }],
    ['a date without a time', { content: [{ ...textBlock('x'), annotations: { lastModified: '2026-01-01' } }] }],
    ['odd annotations', { content: [{ ...textBlock('x'), annotations: { audience: ['robot'], priority: 7, tone: 'warm' } }] }],
    ['a link with icons of its own kind', { content: [{ type: 'resource_link', uri: 'x:y', name: 'n', icons: { small: 1 } }] }],
    ['icons without a source', { content: [{ type: 'resource_link', uri: 'not a URI', name: '', icons: [{ sizes: '1x1' }, 7] }] }],
    ['unknown fields in a block', { content: [{ ...textBlock('x'), lang: 'de', parts: [{ at: null }] }] }],
    ['a resource with unknown fields', { content: [{ type: 'resource', resource: { uri: 'a:b', text: 't', etag: 'W/"1"' } }] }],
    ['an image whose data is no base64', { content: [{ type: 'image', data: '%', mimeType: '' }] }],
    ['unknown fields of its own', { content: [], usage: { tokens: 7 }, next: ['page', null], 'x-vendor': false }],
    ['structured content of any shape', { content: [], structuredContent: { type: 'hologram', _: [null, [], {}] } }],
  ])('G56: with %s reaches the host byte for byte', async (_what, recorded) => {
    const gateway = await openGateway();
    const result = JSON.stringify(recorded);
    gateway.finishAll('', result);
    const answer = await ask(gateway, way, 'tools/call', '{"name":"work"}');
    expect(answer).toContain(`"result":${result.slice(0, -1)},"_meta":{"holdfast/run":`);
    expect(JSON.parse(answer)).not.toHaveProperty('error');
  }); // prettier-ignore

  test('G56: with a _meta keeps all of it but what is ours to say, and all around it', async () => {
    const gateway = await openGateway();
    const block = { ...textBlock('x'), _meta: { 'vendor.example/a': [1] } };
    const meta = { 'vendor.example/b': { c: null }, plain: 'd', 'holdfast/run': 'forged' };
    const recorded = { content: [block], more: 1, _meta: meta };
    gateway.finishAll('', JSON.stringify(recorded));
    const answer = await ask(gateway, way, 'tools/call', '{"name":"work"}');
    const { result } = JSON.parse(answer) as { result: ToolResult };
    expect(result).toMatchObject({
      ...recorded,
      _meta: { ...meta, 'holdfast/run': { attempt: 1, reattached: false } },
    });
  });
});

test.each(ways)(
  '%s: G56: icons, a title among the annotations and unknown fields of a tool are listed',
  async (way) => {
    const store = await memoryStore();
    const otherFields = {
      icons: [{ src: 'data:image/png;base64,AAAA', sizes: ['any'] }],
      _meta: { 'vendor.example/rank': 7 },
      'x-owner': { team: null },
    };
    const annotations = { title: 'Look', tone: 'warm', readOnlyHint: true };
    const look = { name: 'look', description: 'Looks.', annotations };
    await publish(store, serverOf([{ ...otherFields, ...look }]));
    const gateway = await openGateway({ store });
    const { result } = JSON.parse(await ask(gateway, way, 'tools/list')) as {
      result: { tools: { name: string }[] };
    };
    expect(result.tools.find(({ name }) => name === 'docs__look')).toEqual({
      ...otherFields,
      name: 'docs__look',
      description: '[MCP Docs] Looks.',
      inputSchema: { type: 'object' },
      annotations,
    });
  },
);

describe('G06: structured content that is no object', () => {
  const answer = (content: object[], structuredContent: unknown) =>
    ({ kind: 'recorded', result: JSON.stringify({ content, structuredContent }), mark }) as const;

  test.each([
    ['an array', [1, { b: 'x' }]],
    ['an empty array', []],
    ['a text', 'x'],
    ['an empty text', ''],
    ['a number', 0],
    ['a boolean', false],
  ])('%s goes to a host of 2026-07-28 as it is, and to an older one as one more text', (_what, value) => {
    for (const content of [[], [textBlock('other words')], [{ type: 'image', data: '', mimeType: 'a/b' }]]) {
      const modern = JSON.parse(modernResult(answer(content, value), {})) as ToolResult;
      expect(modern).toMatchObject({ content, structuredContent: value });
      const legacy = JSON.parse(legacyResult(answer(content, value))) as ToolResult;
      expect(legacy.content).toEqual([...content, textBlock(JSON.stringify(value))]);
      expect(legacy).not.toHaveProperty('structuredContent');
      expect(legacy._meta).toEqual({ 'holdfast/run': mark });
    }
  });

  test.each([
    [[textBlock('[1, {"b": "x", "a": 2}]')], [1, { a: 2, b: 'x' }]],
    [[textBlock('see below'), textBlock('7.0')], 7],
    [[textBlock('plain')], 'plain'],
    [[textBlock('"plain"')], 'plain'],
  ])('is not said twice: %j', (content, value) => {
    const legacy = JSON.parse(legacyResult(answer(content, value))) as ToolResult;
    expect(legacy.content).toEqual(content);
    expect(legacy).not.toHaveProperty('structuredContent');
  });

  test('keeps every digit as text', () => {
    const result = '{"content":[],"structuredContent":[9007199254740993,1e400]}';
    expect(legacyResult({ kind: 'recorded', result, mark })).toContain('"text":"[9007199254740993,1e400]"');
  });

  test('an object, and what only looks like the field, stay as they are', () => {
    for (const inner of [{ structuredContent: [1] }, { s: '"structuredContent":[1]' }]) {
      const { content, structuredContent } = JSON.parse(legacyResult(answer([], inner))) as ToolResult;
      expect([content, structuredContent]).toEqual([[], inner]);
    }
  });

  test.each(ways)(
    '%s: output schemas of other values are listed to hosts of 2026-07-28 alone',
    async (way) => {
      const store = await memoryStore();
      const rows = { type: 'array', items: { type: 'integer' } };
      const one = { type: 'object', properties: { n: { type: 'integer' } } };
      await publish(
        store,
        serverOf([
          { name: 'rows', outputSchema: rows },
          { name: 'one', outputSchema: one },
        ]),
      );
      const gateway = await openGateway({ store });
      const { result } = JSON.parse(await ask(gateway, way, 'tools/list')) as { result: { tools: object[] } };
      const schemas = result.tools.flatMap((tool) => ('outputSchema' in tool ? [tool.outputSchema] : []));
      expect(schemas).toEqual(way.startsWith('modern') ? [one, rows] : [one]);
    },
  );
});

describe('G87: the text of an error', () => {
  const facts = { name: 'MCPCallOutcomeUnknown', message: 'it may have run', retryable: false } as const;
  const textOf = (answer: Parameters<typeof legacyResult>[0]): string =>
    (JSON.parse(legacyResult(answer)) as ToolResult).content![0]!.text!;

  test.each(['unknown', 'pending'] as const)(
    'with the outcome %s names the run and where to look',
    (outcome) => {
      const error = { ...facts, outcome };
      expect(textOf({ kind: 'failed', error, mark, listsOutput: true })).toBe(
        'MCPCallOutcomeUnknown: it may have run (run r0_x; its state is at /api/runs/r0_x)',
      );
      const named = { ...error, message: 'its result is only at /api/runs/r0_x' };
      expect(textOf({ kind: 'failed', error: named, mark, listsOutput: true })).toBe(
        'MCPCallOutcomeUnknown: its result is only at /api/runs/r0_x',
      );
      expect(textOf({ kind: 'failed', error, listsOutput: true })).toBe(
        'MCPCallOutcomeUnknown: it may have run',
      );
    },
  );

  test.each(['ran', 'refused', 'not_sent'] as const)(
    'with the outcome %s says no more than that',
    (outcome) => {
      const error = { ...facts, outcome };
      expect(textOf({ kind: 'failed', error, mark, listsOutput: true })).toBe(
        'MCPCallOutcomeUnknown: it may have run',
      );
    },
  );

  test.each(ways)('%s: reaches the host with it', async (way) => {
    const gateway = await openGateway();
    const asked = ask(gateway, way, 'tools/call', '{"name":"work"}');
    const claim = await gateway.claim();
    await gateway.finish(claim, { ...facts, outcome: 'unknown' });
    const { result } = JSON.parse(await asked) as { result: ToolResult };
    expect(result.content![0]!.text).toContain(`/api/runs/${claim.run.id}`);
  });
});

test.each(ways)('G08: %s: what an upstream said beside its error is in holdfast/error', async (way) => {
  const gateway = await openGateway();
  const asked = ask(gateway, way, 'tools/call', '{"name":"work"}');
  const claim = await gateway.claim();
  const data = { elicitations: [{ url: 'https://x/' }] };
  await gateway.finish(claim, {
    name: 'MCPToolError',
    message: 'no',
    retryable: false,
    outcome: 'refused',
    data,
  });
  const { result } = JSON.parse(await asked) as { result: ToolResult };
  expect(result._meta?.['holdfast/error']).toMatchObject({ outcome: 'refused', data });
});
