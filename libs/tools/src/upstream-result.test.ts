import { describe, expect, test } from '@jest/globals';
import { parseJson } from '@holdfast/run';
import { compileSchema } from './schema.js';
import { maxModelText, recordUpstreamResult, type UpstreamResultRules } from './upstream-result.js';

const recorded = (raw: unknown, change: Partial<UpstreamResultRules> = {}) => {
  const rules: UpstreamResultRules = {
    resultMode: 'passthrough',
    maxResultBytes: 4 * 1024 * 1024,
    ...change,
  };
  const given = recordUpstreamResult(raw, rules);
  if (given.kind === 'malformed') throw new Error(given.problem);
  expect(Buffer.byteLength(given.result)).toBeLessThanOrEqual(rules.maxResultBytes);
  return {
    text: given.result,
    error: given.error,
    flaws: given.flaws,
    ...(JSON.parse(given.result) as Result),
  };
};
interface Result {
  readonly content: readonly Record<string, unknown>[];
  readonly structuredContent?: unknown;
  readonly _meta?: unknown;
  readonly isError?: boolean;
}
/** The text of a result in `text` mode. */
const asText = (raw: unknown): unknown => {
  const { content, ...rest } = recorded(raw, { resultMode: 'text' });
  expect([content.length, rest.structuredContent, rest._meta]).toEqual([1, undefined, undefined]);
  return content[0]!['text'];
};
const text = (value: string): object => ({ type: 'text', text: value });
const every = Buffer.from(Uint8Array.from({ length: 256 }, (_, i) => i)).toString('base64');

const four = [
  text('a'),
  { type: 'image', data: every, mimeType: 'image/png', annotations: { priority: 1 } },
  text('b'),
  { type: 'resource_link', uri: 'file:///r.pdf', name: 'r' },
];

describe('passed on', () => {
  test('are the blocks, the structured content and the keys of vendors, as they are (BEHAVIOURS X12)', () => {
    const result = {
      content: four,
      structuredContent: { b: 1, a: 2 },
      _meta: { 'vendor/key': [1], plain: null, 'io.modelcontextprotocol/serverInfo': {}, 'holdfast/run': {} },
      resultType: 'complete',
      other: 1,
    };
    expect(recorded(result).text).toBe(
      JSON.stringify({
        content: four,
        structuredContent: { b: 1, a: 2 },
        _meta: { 'vendor/key': [1], plain: null },
        other: 1,
      }),
    );
    expect(recorded(result).error).toBeUndefined();
  });

  test('F39 F41 are images, audio and embedded resources byte by byte, an empty text too', () => {
    const content = [
      { type: 'audio', data: 'AAEC', mimeType: 'audio/wav' },
      { type: 'image', data: 'iVBOR\nw0K', mimeType: 'image/png' },
      { type: 'resource', resource: { uri: 'a:b', blob: every } },
      { type: 'resource', resource: { uri: 'a:c', text: 't', mimeType: 'text/plain' } },
      { type: 'resource', resource: { uri: 'a:d', text: '' } },
    ];
    expect(recorded({ content }).content).toEqual(content);
  });

  test('is a block of a kind that nobody here knows', () => {
    const content = [{ type: 'hologram', depth: 3, data: {} }, { type: 'constructor' }];
    expect(recorded({ content }).content).toEqual(content);
  });

  test.each(['1915883588174806058', '9007199254740993', '1e400', '0.1234567890123456789', '-0', '1.0'])(
    'F140 is the number %s, equal and as an integer digit by digit',
    (number) => {
      const given = `{"content":[{"type":"new","n":${number}}],"structuredContent":{"n":${number}}}`;
      const written = recorded(parseJson(given)).text;
      if (/^\d+$|e400/.test(number)) expect(written).toBe(given);
      else expect((JSON.parse(written) as { structuredContent: { n: number } }).structuredContent.n === Number(number)).toBe(true); // prettier-ignore
    },
  );

  test('F47 are U+0000, a lone surrogate and an emoji, as escapes where stores refuse them raw', () => {
    const raw = { content: [text('\0\ud83d😀')], structuredContent: { '\0\udc00': '\ud83d' } };
    const written = recorded(raw);
    expect(written.text).toMatch(/^[^\0]*$/);
    expect(written.text.isWellFormed()).toBe(true);
    expect({ content: written.content, structuredContent: written.structuredContent }).toEqual(raw);
  });

  test.each([
    [{}, []],
    [{ content: null, structuredContent: null, _meta: null, isError: null }, []],
  ])('is an empty result, of %j', (raw, content) => {
    const { text: json, error } = recorded(raw);
    expect([JSON.parse(json), error]).toEqual([{ content }, undefined]);
  });
});

test.each([[[2, 1]], [[]], [7], [0], ['x'], [''], [false]])(
  'G06: structured content %j is recorded as it came, beside whatever text',
  (structuredContent) => {
    for (const content of [[], [text('x')]]) {
      const { text: json, error, flaws } = recorded({ content, structuredContent });
      expect([JSON.parse(json), error, flaws]).toEqual([{ content, structuredContent }, undefined, []]);
    }
    const big = '{"content":[],"structuredContent":[9007199254740993]}';
    expect(recorded(parseJson(big)).text).toBe(big);
  },
);

test('G56: fields that nobody here knows are recorded as they came, but for those that ask a host for something', () => {
  const unknown = { vendor: { a: null, n: 1 }, ttlMs: 5, '': [] };
  const asking = { requestState: 'x', inputRequests: {}, task: {}, taskId: 't', resultType: 'complete' };
  const _meta = { 'vendor/a': [1], b: null };
  const block = { type: 'text', text: 'a', annotations: { x: 1 }, _meta, more: { y: null } };
  const given = recorded({ content: [block], _meta, ...unknown, ...asking });
  expect(JSON.parse(given.text)).toEqual({ content: [block], _meta, ...unknown });
  expect(recorded({ content: [], vendor: 1 }, { resultMode: 'text' })).not.toHaveProperty('vendor');
  const deep = JSON.parse('['.repeat(5_000) + ']'.repeat(5_000)) as unknown;
  const flat = recorded({
    content: [text('a')],
    structuredContent: { deep },
    _meta: { deep },
    deep,
    vendor: 1,
  });
  expect(JSON.parse(flat.text)).toEqual({
    content: [text('[structured content left out: nested deeper than 200 levels]'), text('a')],
    vendor: 1,
  });
});

describe('as text', () => {
  test('are placeholders for what is none, in order (BEHAVIOURS 97, 98)', () => {
    expect(asText({ content: four })).toBe('a\n[image: image/png]\nb\n[resource link: file:///r.pdf]');
    const more = [
      { type: 'audio', data: 'AAEC', mimeType: 'audio/wav' },
      { type: 'resource', resource: { uri: 'a:b', blob: every, mimeType: 'x/y' } },
      { type: 'resource', resource: { uri: 'a:c', blob: every } },
      { type: 'resource', resource: { uri: 'a:d', text: 'inside' } },
      { type: 'hologram' },
    ];
    expect(asText({ content: more })).toBe(
      '[audio: audio/wav]\n[resource: a:b (x/y)]\n[resource: a:c]\ninside\n[hologram]',
    );
  });

  test('is structured content, in order of keys, where there is no text (BEHAVIOURS 99)', () => {
    const structuredContent = parseJson('{"b":[{"z":9007199254740993,"10":1,"9":"é"}],"a":2}');
    const sorted = '{"a":2,"b":[{"10":1,"9":"é","z":9007199254740993}]}';
    expect(asText({ structuredContent })).toBe(sorted);
    expect(asText({ content: [four[1]], structuredContent })).toBe(`[image: image/png]\n${sorted}`);
    expect(asText({ content: [text('')], structuredContent })).toBe('');
    const embedded = { type: 'resource', resource: { uri: 'u', text: 'e' } };
    expect(asText({ content: [embedded], structuredContent })).toBe('e');
  });

  test('is cut to 12,000 code points, and says how long it was (BEHAVIOURS X13)', () => {
    expect(asText({ content: [text('😀'.repeat(maxModelText))] })).toBe('😀'.repeat(maxModelText));
    const cut = asText({ content: [text('😀'.repeat(maxModelText)), text('x')] }) as string;
    expect([...cut]).toHaveLength(maxModelText);
    expect(cut).toMatch(/😀\n\[cut here; the whole text is 12002 characters long\]$/u);
  });
});

describe('a failure', () => {
  const checkOutput = compileSchema({
    type: 'object',
    properties: { n: { type: 'integer' } },
    required: ['n'],
  });

  test.each<[string, object, string]>([
    [
      'its text',
      { content: [text('date must be'), four[1], text('in the future')] },
      'date must be\nin the future',
    ],
    [
      'all blocks where there is no text',
      { content: [four[1], four[3]] },
      '[image: image/png]\n[resource link: file:///r.pdf]',
    ],
    ['its structured content where there is nothing else', { structuredContent: { code: 7 } }, '{"code":7}'],
    [
      'a sentence of ours where there is nothing',
      { content: [text('')] },
      'the tool reported an error without text',
    ],
  ])('is told by %s (BEHAVIOURS 100)', (_title, result, error) => {
    // prettier-ignore
    const failure = recorded({ ...result, isError: true });
    expect([failure.error, failure.isError]).toEqual([error, true]);
  });

  test('F43 is not held against the output schema', () => {
    const result = { content: [text('auth failed')], structuredContent: { code: 'E' }, isError: true };
    expect(recorded(result, { checkOutput }).error).toBe('auth failed');
  });

  test('is structured content that breaks the output schema (BEHAVIOURS 101)', () => {
    expect(recorded({ structuredContent: { n: 'HIJACK' } }, { checkOutput }).error).toBe(
      'the structured content does not fit the output schema of the tool, at n',
    );
    expect(recorded({ content: [] }, { checkOutput }).error).toMatch(/^the result has no structured content/);
    expect(recorded({ structuredContent: { n: 1 } }, { checkOutput }).error).toBeUndefined();
    expect(recorded({ content: [text('x')] }, { checkOutput, resultMode: 'text' }).error).toBeUndefined();
    const big = parseJson('{"structuredContent":{"n":1915883588174806058}}');
    expect(recorded(big, { checkOutput }).error).toBeUndefined();
  });

  test('with a text without end is cut', () => {
    const { error } = recorded({ content: [text('x'.repeat(1e6))], isError: true });
    expect(error).toHaveLength(maxModelText);
    expect(error).toMatch(/1000000 characters long\]$/);
  });
});

describe('F35 what is larger than is kept', () => {
  const maxResultBytes = 64 * 1024;

  test('has its text cut', () => {
    const { content } = recorded({ content: [text('é'.repeat(1e6)), text('after')] }, { maxResultBytes });
    expect(content[0]!['text']).toMatch(
      /^é{30000,}\n\[cut here; the whole text is 1000000 characters long\]$/,
    );
    expect(content[1]).toEqual(text('[blocks left out: 1]'));
    const embedded = { type: 'resource', resource: { uri: 'u', text: '"'.repeat(1e6) }, annotations: {} };
    const [block] = recorded({ content: [embedded] }, { maxResultBytes }).content;
    expect(block).toMatchObject({ type: 'resource', resource: { uri: 'u' }, annotations: {} });
  });

  test('has a placeholder with the size for a block of bytes, and keeps what fits after it', () => {
    const data = Buffer.alloc(100_000).toString('base64');
    const content = [
      { type: 'image', data, mimeType: 'image/png' },
      { type: 'resource', resource: { uri: `u:${'x'.repeat(1000)}`, blob: data } },
      { type: 'hologram', data: { points: 'x'.repeat(100_000) } },
      text('kept'),
    ];
    const kept = recorded({ content }, { maxResultBytes }).content.map((block) => block['text']);
    expect(kept[0]).toBe('[image: image/png; 100000 bytes]');
    expect(kept[1]).toMatch(/^\[resource: u:x+.*; 100000 bytes\]$/s);
    expect(kept[2]).toMatch(/^\[hologram; 1000\d\d bytes\]$/);
    expect(kept[3]).toBe('kept');
  });

  test('keeps structured content before the text that repeats it', () => {
    const structuredContent = { rows: 'x'.repeat(50_000) };
    const given = { content: [text(JSON.stringify(structuredContent))], structuredContent, _meta: { a: 1 } };
    const result = recorded(given, { maxResultBytes });
    expect([result.structuredContent, result._meta]).toEqual([structuredContent, { a: 1 }]);
    expect(result.content[0]!['text']).toMatch(/cut here/);
  });

  test('says that structured content is left out; of a tool with an output schema that is a failure', () => {
    const given = { content: [text('short')], structuredContent: { rows: 'x'.repeat(100_000) } };
    const { content, structuredContent, error } = recorded(given, { maxResultBytes });
    expect([structuredContent, error]).toEqual([undefined, undefined]);
    expect(content).toEqual([text('[structured content left out: 100011 bytes]'), text('short')]);
    const checkOutput = compileSchema({ type: 'object' });
    expect(recorded(given, { maxResultBytes, checkOutput }).error).toMatch(
      /100011 bytes long, and 65536 are kept/,
    );
  });

  test('G67: text that fits is kept beside structured content that does not, of a tool with an output schema too', () => {
    const checkOutput = compileSchema({ type: 'object', required: ['n'] });
    const rows = { n: 1, rows: 'x'.repeat(100_000) };
    const given = { content: [text('12 rows'), four[1], text('all fine')], structuredContent: rows };
    const { content, error } = recorded(given, { maxResultBytes, checkOutput });
    expect(content.slice(1)).toEqual(given.content);
    expect(error).toMatch(
      /^the structured content is \d+ bytes long, and 65536 are kept\n12 rows\nall fine$/,
    );
    // What breaks the schema, or is missing, costs no text either.
    const broken = recorded({ content: [text('12 rows')], structuredContent: {} }, { checkOutput });
    expect(broken.error).toMatch(/does not fit the output schema.*\n12 rows$/);
    expect(recorded({ content: [text('12 rows')] }, { checkOutput }).error).toMatch(
      /no structured content.*\n12 rows$/,
    );
  });

  test('leaves out meta without end, and the last of blocks without end', () => {
    const content = Array.from({ length: 10_000 }, (_, i) => text(`${i}`));
    const result = recorded({ content, _meta: { a: 'x'.repeat(1e6) } }, { maxResultBytes });
    expect(result._meta).toBeUndefined();
    expect(result.content.at(-1)!['text']).toMatch(/^\[blocks left out: \d+\]$/);
    expect(result.content.length).toBeGreaterThan(1000);
  });

  test('is as small in text mode', () => {
    const long = { content: [text('\0'.repeat(12_000))] };
    expect(recorded(long, { resultMode: 'text', maxResultBytes: 4096 }).content[0]!['text']).toMatch(
      /cut here/,
    );
  });
});

test.each(['input_required', 'task', 'HIJACK'])(
  'a result of type %s that nobody asked for is malformed',
  (resultType) => {
    const given = recordUpstreamResult(
      { resultType, inputRequests: {} },
      { resultMode: 'text', maxResultBytes: 4096 },
    );
    expect(given).toEqual({ kind: 'malformed', problem: 'the result is of a type that was not asked for' });
  },
);

test('base64 without end is judged in one go', () => {
  const data = `${' '.repeat(1e6)}!`;
  const { content } = recorded({ content: [{ type: 'image', data, mimeType: 'x' }] });
  expect(content[0]!['text']).toBe('[image: x; its data is not base64]');
});
