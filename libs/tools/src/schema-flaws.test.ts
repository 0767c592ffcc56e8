import { describe, expect, test } from '@jest/globals';
import { readListedTool, type FitTool } from './fingerprint.js';
import { listedSchema } from './listed-schema.js';
import { withoutFlaws } from './schema-flaws.js';
import { compileSchema, type JsonSchema } from './schema.js';

const typed = (more: object): JsonSchema => ({ type: 'object', ...more });
const ofA = (a: unknown): JsonSchema => typed({ properties: { a } });

describe('G07: a tool with a flaw in its schema is served without the flaw', () => {
  test.each<[string, JsonSchema, JsonSchema, string]>([
    ['properties as a list', typed({ properties: [] }), typed({}), 'properties'],
    ['properties null', typed({ properties: null }), typed({}), 'properties'],
    ['a property null', ofA(null), ofA({}), 'properties.a'],
    ['required null', typed({ required: null }), typed({}), 'required'],
    ['required true', ofA({ required: true }), ofA({}), 'properties.a.required'],
    ['required with repeats', typed({ required: ['a', 'a', 7] }), typed({ required: ['a'] }), 'required'],
    ['description null', ofA({ description: null }), ofA({}), 'properties.a.description'],
    ['a flag of draft-04', ofA({ minimum: 5, exclusiveMinimum: true }), ofA({ exclusiveMinimum: 5 }), 'properties.a.exclusiveMinimum'],
    ['a flag of draft-04 that is false', ofA({ maximum: 5, exclusiveMaximum: false }), ofA({ maximum: 5 }), 'properties.a.exclusiveMaximum'],
    ['a flag of draft-04 for no limit', ofA({ exclusiveMaximum: true }), ofA({}), 'properties.a.exclusiveMaximum'],
    ['type any', ofA({ type: 'any', title: 't' }), ofA({ title: 't' }), 'properties.a.type'],
    ['types of which one is none', ofA({ type: ['string', 'any'] }), ofA({}), 'properties.a.type'],
    ['a type in capitals', ofA({ type: 'STRING' }), ofA({ type: 'string' }), 'properties.a.type'],
    ['a pattern with a flag', ofA({ pattern: '(?i)^abc$', minLength: 1 }), ofA({ minLength: 1 }), 'properties.a.pattern'],
    ['a pattern of Python', ofA({ pattern: '(?P<y>\\d{4})' }), ofA({}), 'properties.a.pattern'],
    ['anchors of Python', ofA({ pattern: '\\Aabc\\Z' }), ofA({}), 'properties.a.pattern'],
    ['a pattern for names', typed({ patternProperties: { '(': {}, '^x': {} } }), typed({ patternProperties: { '^x': {} } }), 'patternProperties.('],
    ['an empty enum', ofA({ enum: [] }), ofA({}), 'properties.a.enum'],
    ['an enum with repeats', ofA({ enum: ['a', 'b', 'a'] }), ofA({ enum: ['a', 'b'] }), 'properties.a.enum'],
    ['a reference to components', ofA({ $ref: '#/components/schemas/A' }), ofA({}), 'properties.a.$ref'],
    ['a reference to elsewhere', ofA({ $ref: 'https://x.example/y.json', type: 'string' }), ofA({ type: 'string' }), 'properties.a.$ref'],
    ['nullable beside oneOf', ofA({ nullable: true, oneOf: [{ type: 'string' }] }), ofA({ oneOf: [{ type: 'string' }] }), 'properties.a.nullable'],
    ['a tuple', ofA({ items: [{ type: 'string' }], additionalItems: false }), ofA({ prefixItems: [{ type: 'string' }], items: false }), 'properties.a.items'],
    ['a negative limit', ofA({ minLength: -1, maxItems: 2.5 }), ofA({}), 'properties.a.minLength'],
    ['a limit as text', ofA({ minimum: '0', maxLength: '7' }), ofA({}), 'properties.a.minimum'],
    ['branches that are none', ofA({ anyOf: [], oneOf: [null, {}], allOf: [7, { minLength: 1 }] }), ofA({ allOf: [{ minLength: 1 }] }), 'properties.a.anyOf'],
    ['additionalProperties null', typed({ additionalProperties: null }), typed({}), 'additionalProperties'],
    ['an id of draft-04', typed({ id: 'x', $schema: 'http://json-schema.org/draft-04/schema#' }), typed({}), 'id'],
    ['a type at the top', { type: 'any', properties: {} }, { properties: {} }, 'type'],
  ])('%s', (_title, inputSchema, expected, at) => {
    const { tool, flaws } = readListedTool({ name: 't', inputSchema }) as FitTool;
    expect(tool.inputSchema).toEqual(expected);
    expect(flaws[0]).toMatch(new RegExp(`^inputSchema\\.${at.replace(/[.$()[\]]/g, '\\$&')} `));
    // A second look finds nothing, and what is left can be listed.
    expect(withoutFlaws(tool.inputSchema)).toEqual({ schema: tool.inputSchema, flaws: [] });
    expect(listedSchema(tool.inputSchema).schema).toMatchObject({ type: 'object' });
  }); // prettier-ignore

  test('arguments are checked by what is left', () => {
    const inputSchema = typed({
      properties: { a: { type: 'integer', minimum: '3', maximum: 9 }, b: { pattern: '(?i)x', maxLength: 2 } },
      required: ['a', 'a'],
      additionalProperties: false,
    });
    const { tool } = readListedTool({ name: 't', inputSchema }) as FitTool;
    const check = compileSchema(tool.inputSchema);
    expect(check({ a: 1, b: 'X' })).toEqual([]);
    expect(check({ a: 10, b: 'abc', c: 1 })).toHaveLength(3);
    expect(check({})).toEqual(['a: is required']);
  });

  test('output schemas too', () => {
    const outputSchema = { type: 'object', properties: { a: { enum: [] } }, required: null };
    const { tool, flaws } = readListedTool({ name: 't', inputSchema: {}, outputSchema }) as FitTool;
    expect(tool.outputSchema).toEqual(ofA({}));
    expect(flaws).toHaveLength(2);
    expect(flaws.every((flaw) => flaw.startsWith('outputSchema.'))).toBe(true);
  });

  test('what looks like a keyword and is a name or a value stays; a sound schema is the very same', () => {
    const schema = {
      $schema: 'http://json-schema.org/draft-07/schema#',
      type: 'object',
      properties: {
        id: { type: 'string' },
        required: { items: [{}] },
        enum: { default: { enum: [] }, const: { type: 'any' } },
      },
      patternProperties: { '^\\w-': true },
      required: [],
      'x-vendor': { enum: [] },
    };
    expect(withoutFlaws(schema).schema).toBe(schema);
  });

  test('flaws are reported ten at most, by path and keyword, and quote no value', () => {
    const properties = Object.fromEntries(
      Array.from({ length: 40 }, (_, i) => [`p${i}`, { pattern: '(HIJACK' }]),
    );
    const { flaws } = withoutFlaws({ properties });
    expect(flaws).toHaveLength(10);
    expect(flaws[0]).toBe('properties.p0.pattern is not a pattern that can be read');
  });
});

test.each<[string, JsonSchema, unknown, unknown]>([
  ['not', { not: { type: 'any' } }, 'x', undefined],
  ['not, deep in it', { not: { properties: { a: { pattern: '(?i)^x' } } } }, { a: 1 }, undefined],
  ['if', { if: { pattern: '(?i)^x' }, then: false }, 'y', undefined],
  ['a branch of oneOf', { oneOf: [{ pattern: '(?i)^x' }, { pattern: '^y' }] }, 'y', undefined],
  ['not, in an annotation', { not: { type: 'string', title: null } }, 1, 'x'],
  ['oneOf, as a flag of draft-04', { oneOf: [{ minimum: 2, exclusiveMinimum: true }, { maximum: 2 }] }, 2, 'x'],
])('G07: a flaw in %s makes nothing stricter', (_title, schema, fitting, unfitting) => {
  const check = compileSchema(withoutFlaws(schema).schema);
  expect(check(fitting)).toEqual([]);
  if (unfitting !== undefined) expect(check(unfitting)).not.toEqual([]);
}); // prettier-ignore
