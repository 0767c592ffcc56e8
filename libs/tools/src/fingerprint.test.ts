import { describe, expect, test } from '@jest/globals';
import { parseJson } from '@holdfast/run';
import { readListedTool, type FitTool } from './fingerprint.js';
import { compileSchema } from './schema.js';
import type { UpstreamTool } from './server-catalogue.js';

const fit = (entry: unknown): FitTool => readListedTool(entry) as FitTool;
const read = (text: string): UpstreamTool => fit(parseJson(text)).tool;
const toolOf = (fields: object): UpstreamTool =>
  fit({ name: 't', inputSchema: { type: 'object' }, ...fields }).tool;

test('of an entry the known fields are kept, as they were published', () => {
  const entry = {
    name: 'search.docs',
    title: 'Search',
    description: '',
    inputSchema: { type: 'object', properties: { q: { type: 'string' } } },
    outputSchema: { type: 'object' },
    annotations: { readOnlyHint: 'true', vendor: 1 },
  };
  const { tool } = fit({ ...entry, execution: {}, title: entry.title });
  expect(tool).toEqual({ ...entry, fingerprint: expect.stringMatching(/^m1_[0-9a-f]{64}$/) });
});

test('G56: of an entry the other fields are kept as they came, where a host takes them', () => {
  const otherFields = {
    icons: [{ src: 'a:b', sizes: ['any'] }],
    _meta: { 'vendor/a': [1] },
    vendor: { x: null },
    '': 7,
  };
  expect(toolOf(otherFields).otherFields).toEqual(otherFields);
  expect(toolOf(otherFields).fingerprint).toBe(toolOf({}).fingerprint);
  const deep = JSON.parse('['.repeat(500) + ']'.repeat(500)) as unknown;
  const unfit = {
    icons: 'x',
    _meta: { 'holdfast/run': 1 },
    deep,
    surrogate: '\ud83d',
    none: null,
    execution: {},
  };
  expect(toolOf({ ...unfit, vendor: 1 }).otherFields).toEqual({ _meta: {}, vendor: 1 });
  expect(toolOf({ icons: [null, { src: 'a:b', theme: 'x' }, {}] }).otherFields).toEqual({
    icons: [{ src: 'a:b' }],
  });
});

describe('the fingerprint (BEHAVIOURS 204, R22)', () => {
  test('F86 does not follow the order of keys, spaces, or how a number or a character is written', () => {
    const one = read(
      '{"name":"t","description":"A","inputSchema":{"type":"object","properties":{"a":{"minimum":1},"b":{}}}}',
    );
    const other = read(
      '{ "inputSchema":{"properties":{"b":{},"a":{"minimum":1.0}},"type":"object"},"description":"\\u0041","name":"t","_meta":{"x":1},"icons":[] }',
    );
    expect(one.fingerprint).toBe(other.fingerprint);
  });

  test('is that of an exact text, so that every version of ours makes the same', () => {
    expect(toolOf({}).fingerprint).toBe(
      'm1_c6005ee7854db532c5afa7ec72ecc502c63014ac9fe51e0b422daf578ebd3e0a',
    );
  });

  test('follows every field, and tells an absent one from an empty one', () => {
    const prints = [
      {},
      { name: 'u' },
      { title: '' },
      { description: '' },
      { description: 'd' },
      { inputSchema: { type: 'object', properties: {} } },
      { outputSchema: { type: 'object' } },
      { outputSchema: { type: 'no such type' } },
      { annotations: {} },
      { annotations: { readOnlyHint: true } },
      { annotations: { readOnlyHint: false } },
    ].map((fields) => toolOf(fields).fingerprint);
    expect(new Set(prints).size).toBe(prints.length);
  });
});

test('an output schema is kept without what cannot be read, and the tool is served (F63)', () => {
  expect(toolOf({ outputSchema: { type: 'object', $ref: '#/$defs/Gone' } }).outputSchema).toEqual({
    type: 'object',
  });
  expect(toolOf({ outputSchema: 'no' })).not.toHaveProperty('outputSchema');
  const twoDepths = { type: 'object', properties: { x: { $ref: '#/$defs/X' }, l: { items: { $ref: '#/$defs/X' } } }, $defs: { X: { type: 'string' } } }; // prettier-ignore
  expect(toolOf({ outputSchema: twoDepths }).outputSchema).toEqual(twoDepths);
});

test('fields of another type are no fields', () => {
  const tool = toolOf({ title: 7, description: null, annotations: [] });
  expect(Object.keys(tool)).toEqual(['inputSchema', 'name', 'fingerprint']);
  expect(tool.fingerprint).toBe(toolOf({}).fingerprint);
});

test.each([
  ['F60 oneOf at the top', { oneOf: [{ type: 'object', required: ['a'] }, { required: ['b'] }] }],
  ['F60 a type that allows more', { type: ['object', 'null'] }],
  [
    'F62 boolean schemas',
    {
      type: 'object',
      properties: { payload: true, never: false, l: { items: false } },
      additionalProperties: true,
    },
  ],
  [
    'F66 references',
    {
      type: 'object',
      properties: {
        a: { $ref: '#' },
        b: { $ref: '#/properties/d' },
        d: { type: 'string' },
        c: { $ref: '#/definitions/x' },
      },
      definitions: { x: {} },
    },
  ],
  [
    'a dialect that nobody here speaks',
    { $schema: 'https://json-schema.org/draft/2019-09/schema', type: 'object' },
  ],
  ['draft-07 by its other address', { $schema: 'https://json-schema.org/draft-07/schema', type: 'object' }],
])('%s: the tool is served with its own schema', (_title, inputSchema) => {
  // prettier-ignore
  expect(toolOf({ inputSchema }).inputSchema).toEqual(inputSchema);
});

test('F68 a schema with constructor.prototype changes nothing else', () => {
  const tool = read(
    '{"name":"t","inputSchema":{"type":"object","properties":{"constructor":{"properties":{"prototype":{"default":{"polluted":1}}}},"__proto__":{"default":{"polluted":1}}}}}',
  );
  expect(compileSchema(tool.inputSchema)({ constructor: {} })).toEqual([]);
  expect(({} as { polluted?: number }).polluted).toBeUndefined();
  expect(toolOf({}).name).toBe('t');
});

test('a schema that calls itself by the name of another does not get in its place', () => {
  const impostor = { $id: 'https://json-schema.org/draft/2020-12/schema', type: 'object', not: {} };
  readListedTool({ name: 't', inputSchema: impostor });
  readListedTool({ name: 't', inputSchema: { $id: 'https://x/a', type: 'object' } });
  const refers = { type: 'object', properties: { a: { $ref: 'https://x/a' } } };
  expect(fit({ name: 't', inputSchema: refers }).flaws).toEqual([
    'inputSchema.properties.a.$ref leads to nothing in the schema',
  ]);
  expect(compileSchema({ type: 'object', properties: { a: { type: 'string' } } })({ a: 1 })).toEqual([
    'a: must be string',
  ]);
});

describe('an entry that cannot be served is refused alone, and its text is not repeated', () => {
  const deep = (levels: number): unknown => (levels === 0 ? {} : { not: deep(levels - 1) });
  test.each<[string, unknown, RegExp]>([
    ['no inputSchema', { name: 't' }, /inputSchema that is no schema of an object/],
    ['an inputSchema that is no object', { name: 't', inputSchema: true }, /no schema of an object/],
    ['an inputSchema of an array', { name: 't', inputSchema: { type: 'array' } }, /no schema of an object/],
    ['nesting without end', { name: 't', inputSchema: deep(5_000) }, /nested deeper than 100 levels/],
    [
      'a long definition',
      { name: 't', description: 'x'.repeat(512 * 1024), inputSchema: {} },
      /longer than 512 KiB/,
    ],
    ['a lone surrogate', { name: 't', description: '\ud83d', inputSchema: {} }, /cannot be written again/],
    [
      'a number out of range',
      parseJson('{"name":"t","inputSchema":{"maximum":1e400}}'),
      /cannot be written again|not valid/,
    ],
    [
      'a wrong wish for a header',
      { name: 't', inputSchema: { properties: { a: { type: 'string', 'x-mcp-header': 'HIJACK me' } } } },
      /x-mcp-header is no name/,
    ],
    [
      'a call as a task only (G46)',
      { name: 't', inputSchema: {}, execution: { taskSupport: 'required' } },
      /only be called as a task/,
    ],
    [
      'long other fields',
      { name: 't', inputSchema: {}, vendor: 'x'.repeat(512 * 1024) },
      /longer than 512 KiB/,
    ],
    ['a long name', { name: 'x'.repeat(257), inputSchema: {} }, /name longer than 256/],
    ['a name that is not Unicode', { name: '\ud83d', inputSchema: {} }, /not valid Unicode/],
  ])('%s', (_title, entry, problem) => {
    // prettier-ignore
    const refused = readListedTool(entry) as { name: string; problem: string };
    expect(refused.problem).toMatch(problem);
    expect(refused.problem).not.toMatch(/HIJACK/);
    expect(refused.name.length).toBeGreaterThan(0);
  });

  test.each([null, 'x', 7, [], {}, { name: 7 }, { name: null }])('%j is no entry at all', (entry) => {
    expect(readListedTool(entry)).toMatchObject({ name: undefined, problem: 'is no object with a name' });
  });
});
