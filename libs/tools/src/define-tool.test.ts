import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { compileSchema, defineTool, isTool, type ToolSpec } from './index.js';

const base = { name: 'refund_order', description: 'Refund an order.', run: () => 'done' };

describe('input', () => {
  test('a Zod shape is listed as a strict object and parsed with its defaults', async () => {
    const tool = defineTool({ ...base, input: { order_id: z.string(), note: z.string().default('none') } });
    expect(tool.definition.inputSchema).toMatchObject({
      type: 'object',
      properties: { order_id: { type: 'string' } },
      required: ['order_id'],
      additionalProperties: false,
    });
    expect(await tool.parse({ order_id: 'o-1' })).toEqual({ value: { order_id: 'o-1', note: 'none' } });
    expect(await tool.parse({ order_id: 7 })).toEqual({
      problems: ['order_id: Invalid input: expected string, received number'],
    });
    expect(await tool.parse({ order_id: 'o-1', note2: '' })).toHaveProperty('problems');
  });

  test('a Standard Schema of another maker is used as it is', async () => {
    const schema = {
      '~standard': {
        version: 1 as const,
        vendor: 'ours',
        validate: (value: unknown) =>
          (value as { n?: unknown }).n === 1
            ? { value: { n: 1 } }
            : { issues: [{ message: 'must be 1', path: ['items', { key: 2 }] }] },
        jsonSchema: { input: () => ({ type: 'object', properties: { n: { const: 1 } } }) },
      },
    };
    const tool = defineTool({ ...base, input: schema });
    expect(tool.definition.inputSchema).toEqual({ type: 'object', properties: { n: { const: 1 } } });
    expect(await tool.parse({ n: 2 })).toEqual({ problems: ['items[2]: must be 1'] });
  });

  test('a JSON Schema is checked on the worker too', async () => {
    const tool = defineTool({
      ...base,
      input: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] },
    });
    expect(await tool.parse({ n: 1.5 })).toEqual({ problems: ['n: must be integer'] });
    expect(await tool.parse({ n: 1 })).toEqual({ value: { n: 1 } });
  });
});

describe('a tool that cannot be served is refused, naming it and the field', () => {
  const refusals: [string, Partial<Record<keyof ToolSpec<never>, unknown>>, RegExp][] = [
    ['illegal name', { name: 'a.b' }, /tool "a.b": name must be/],
    ['long name', { name: 'a'.repeat(65) }, /name must be 1 to 64/],
    ['reserved prefix', { name: 'mcp__x' }, /reserved/],
    ['no description', { description: ' ' }, /tool "refund_order": description is missing/],
    ['no body', { run: undefined }, /run must be a function/],
    ['time limit of zero', { timeoutMs: 0 }, /timeoutMs/],
    ['time limit too long for a timer', { timeoutMs: 2 ** 31 }, /timeoutMs/],
    ['no input', { input: undefined }, /input must be a Zod shape/],
    ['a mixed shape', { input: { a: z.string(), b: { type: 'string' } } }, /mixes Zod types/],
    ['schema of a string', { input: z.string() }, /type: "object"/],
    ['broken JSON Schema', { input: { type: 'object', properties: 7 } }, /not a valid JSON Schema/],
    [
      'schema without JSON Schema',
      { input: { '~standard': { version: 1, vendor: 'v', validate: () => ({}) } } },
      /gives no JSON Schema/,
    ],
    ['onCrash', { onCrash: 'retry' }, /onCrash must be/],
  ];
  test.each(refusals)('%s', (_title, change, message) => {
    expect(() => defineTool({ ...base, input: {}, ...change } as never)).toThrow(message);
  });
});

test('the digest follows what is listed, not the body or the order of keys', () => {
  const one = defineTool({ ...base, input: { type: 'object', properties: { a: {}, b: {} } } });
  const same = defineTool({
    ...base,
    run: () => 'other',
    input: { properties: { b: {}, a: {} }, type: 'object' },
  });
  const other = defineTool({
    ...base,
    description: 'Refund it.',
    input: { type: 'object', properties: { a: {}, b: {} } },
  });
  expect(same.definition.digest).toBe(one.definition.digest);
  expect(other.definition.digest).not.toBe(one.definition.digest);
});

test('a tool of another copy of this package is a tool; a look-alike is not', () => {
  expect(isTool({ [Symbol.for('holdfast.tool')]: true })).toBe(true);
  expect(isTool({ name: 'x', run: () => '' })).toBe(false);
});

describe('checking arguments against a JSON Schema names each field', () => {
  const check = compileSchema({
    type: 'object',
    properties: {
      size: { enum: ['s', 'm'] },
      items: { type: 'array', items: { type: 'object', required: ['sku'] } },
    },
    required: ['size'],
    additionalProperties: false,
  });

  test('all problems of a small value at once', () => {
    expect(check({ items: [{}], colour: 'red' })).toEqual([
      'size: is required',
      'items[0].sku: is required',
      'colour: is not an argument of this tool',
    ]);
    expect(check({ size: 'xl' })).toEqual(['size: must be one of ["s","m"]']);
    expect(check({ size: 's' })).toEqual([]);
  });

  test('ten of a large value', () => {
    expect(check({ size: 's', items: Array.from({ length: 10_000 }, () => ({})) })).toEqual(
      Array.from({ length: 10 }, (_, i) => `items[${i}].sku: is required`),
    );
  });

  test('boolean property schemas, $defs and draft-07 are served', () => {
    expect(compileSchema({ type: 'object', properties: { any: true, never: false } })({ any: [1] })).toEqual(
      [],
    );
    const recursive = {
      type: 'object',
      $defs: { n: { type: 'object', properties: { next: { $ref: '#/$defs/n' } } } },
      properties: { n: { $ref: '#/$defs/n' } },
    };
    expect(compileSchema(recursive)({ n: { next: { next: 3 } } })).toEqual(['n.next.next: must be object']);
    const draft7 = {
      $schema: 'http://json-schema.org/draft-07/schema#',
      type: 'object',
      definitions: { s: { type: 'string' } },
      properties: { a: { $ref: '#/definitions/s' } },
    };
    expect(compileSchema(draft7)({ a: 1 })).toEqual(['a: must be string']);
  });

  test.each([/^[\w-.]+$/, /^o\-\d+$/, /^[^\s@]+\@x$/])(
    'the pattern %s that only JavaScript takes is served',
    (pattern) => {
      const tool = defineTool({ ...base, input: { id: z.string().regex(pattern) } });
      const check = compileSchema(tool.definition.inputSchema);
      const fits = ['o-1', 'a.b', 'me@x'].find((text) => pattern.test(text))!;
      expect(check({ id: fits })).toEqual([]);
      expect(check({ id: ' ' })).toEqual([expect.stringMatching(/^id: must match pattern/)]);
    },
  );

  test('G20: a pattern of a Zod shape that takes for ever ends as a problem', async () => {
    const tool = defineTool({ ...base, input: { a: z.string().regex(/^(a+)+$/) } });
    const parsed = await tool.parse({ a: `${'a'.repeat(60)}!` });
    expect(parsed).toEqual({ problems: [expect.stringMatching(/^arguments: could not be checked/)] });
    expect(await tool.parse({ a: 'aa' })).toEqual({ value: { a: 'aa' } });
    expect(compileSchema(tool.definition.inputSchema)({ a: `${'a'.repeat(60)}!` })).toHaveLength(1);
  });

  test('a property called constructor is an ordinary one', () => {
    const schema = {
      type: 'object',
      properties: {
        constructor: { type: 'object', properties: { prototype: { default: { polluted: 1 } } } },
      },
    };
    expect(compileSchema(schema)({ constructor: {} })).toEqual([]);
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
  });
});
