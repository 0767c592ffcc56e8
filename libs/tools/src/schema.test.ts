import { describe, expect, test } from '@jest/globals';
import { compileOutputSchema, compileSchema, type JsonSchema } from './schema.js';

const properties = (count: number, schema: object): object =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`p${i}`, schema]));
const json = (text: string): JsonSchema => JSON.parse(text) as JsonSchema;
const tree = {
  ...Object.fromEntries(
    Array.from({ length: 60 }, (_, i) => [
      `d${i}`,
      { allOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] },
    ]),
  ),
  d60: { type: 'object' },
};
const uncheckable = /^arguments: could not be checked by the schema of the tool: it /;

describe('G20: a schema of somebody else does not hold us up', () => {
  test.each<[string, JsonSchema, unknown]>([
    ['a pattern', { properties: { a: { type: 'string', pattern: '^(a+)+$' } } }, { a: `${'a'.repeat(60)}!` }],
    ['a pattern of alternatives', { properties: { a: { pattern: '^(a|aa)+$' } } }, { a: `${'a'.repeat(60)}!` }],
    ['a simple pattern over a long text', { properties: { a: { pattern: 'a+$' } } }, { a: `${'a'.repeat(2e6)}b` }],
    ['the pattern of a name', { patternProperties: { '^(a+)+$': {} } }, { [`${'a'.repeat(60)}!`]: 1 }],
    ['a tree of references', { properties: { a: { $ref: '#/$defs/d0' } }, $defs: tree }, { a: {} }],
    ['a tree of alternatives', { properties: { a: { $ref: '#/$defs/d0' } }, $defs: json(JSON.stringify(tree).replaceAll('allOf', 'oneOf')) }, { a: {} }],
  ])('by %s', (_title, schema, args) => {
    const check = compileSchema({ type: 'object', ...schema });
    expect(check(args)).toEqual([expect.stringMatching(uncheckable)]);
    // And again: what was stopped once is as good as before.
    expect(check({ b: 1 })).toEqual([]);
    expect(check(args)).toHaveLength(1);
    expect(compileOutputSchema({ type: 'object', ...schema })(args)).toEqual([]);
  }); // prettier-ignore

  test.each([
    ['1,000 references to 1,000 properties', 1000, 1000],
    ['160 to 160', 160, 160],
  ])('by %s, which are checked like any others', (_title, references, size) => {
    const check = compileSchema({
      type: 'object',
      properties: properties(references, { $ref: '#/$defs/x' }),
      $defs: { x: { type: 'object', properties: properties(size, { type: 'string' }) } },
    });
    expect(check({ p1: { p2: 'x' }, p3: { p4: 1 } })).toEqual(['p3.p4: must be string']);
  });

  test('and a value of many parts is checked to its end', () => {
    const check = compileSchema({
      properties: {
        a: { items: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] } },
      },
    });
    const a = Array.from({ length: 5_000 }, (_, n) => ({ n }));
    expect(check({ a })).toEqual([]);
    expect(check({ a: [...a, { n: 'x' }] })).toEqual(['a[5000].n: must be integer']);
  });
});

describe('G59: a schema without end checks what it says besides', () => {
  test.each<[string, object]>([
    ['allOf of itself', { allOf: [{ $ref: '#' }] }],
    ['anyOf of itself', { anyOf: [{ $ref: '#' }] }],
    ['itself', { $ref: '#' }],
    ['one another', { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b' }, b: { allOf: [{ $ref: '#/$defs/a' }] } } }],
    ['a dynamic reference', { $dynamicAnchor: 'x', $dynamicRef: '#x' }],
    ['a recursive reference', { $schema: 'https://json-schema.org/draft/2019-09/schema', $recursiveAnchor: true, $recursiveRef: '#' }],
    ['if and then', { if: { $ref: '#' }, then: { $ref: '#' } }],
    ['an address of its own', { $id: 'https://x/y', allOf: [{ $ref: 'y' }] }],
  ])('%s', (_title, schema) => {
    const check = compileSchema({ type: 'object', properties: { a: { type: 'string' } }, ...schema });
    expect(check({ a: 'x' })).toEqual([]);
    expect(check({ a: 1 })).toContain('a: must be string');
  }); // prettier-ignore

  test('what nests without end cannot be checked, and nothing is thrown', () => {
    let deep: object = {};
    for (let i = 0; i < 50_000; i++) deep = { n: deep };
    const schema = { properties: { n: { $ref: '#' } }, required: [] };
    expect(compileSchema(schema)(deep)).toEqual([expect.stringMatching(/nested too deeply$/)]);
    expect(compileOutputSchema(schema)(deep)).toEqual([]);
  });
});

describe('G58: a name that every object has is a name like any other', () => {
  test.each(['constructor', 'toString', 'hasOwnProperty', '__proto__', 'valueOf'])('%s', (name) => {
    const schema = json(
      `{"type":"object","properties":{"${name}":{"type":"string"},"a":{}},"additionalProperties":false}`,
    );
    expect(compileSchema(schema)({})).toEqual([]);
    expect(compileSchema({ ...schema, required: [name] })({})).toEqual([`${name}: is required`]);
    expect(compileSchema(schema)(json(`{"${name}":1}`))).toEqual([`${name}: must be string`]);
    expect(compileSchema({ ...schema, required: [name] })(json(`{"${name}":"x"}`))).toEqual([]);
    expect(compileSchema({ properties: { a: {} }, additionalProperties: false })(json(`{"${name}":"x"}`))).toEqual([`${name}: is not an argument of this tool`]); // prettier-ignore
    expect(compileSchema({ dependentRequired: { [name]: ['a'] } })({})).toEqual([]);
  });
});

describe('G63: the dialect named decides; where none is named, what is unambiguous in any', () => {
  const draft7 = 'http://json-schema.org/draft-07/schema#';
  const of2019 = 'https://json-schema.org/draft/2019-09/schema';
  const of2020 = 'https://json-schema.org/draft/2020-12/schema';
  const tuple = { items: [{ type: 'string' }, { type: 'number' }], additionalItems: false };
  const prefix = { prefixItems: [{ type: 'string' }] };
  const siblings = { $ref: '#/$defs/s', maxLength: 1, $defs: { s: { type: 'string' } } };
  const counted = { contains: { type: 'string' }, minContains: 2 };
  test.each<[string, string | undefined, object, unknown, boolean]>([
    ['a tuple under items', of2019, tuple, ['a', 'b'], false],
    ['a tuple under items', draft7, tuple, ['a', 1, 2], false],
    ['a tuple under items', undefined, tuple, ['a', 'b'], false],
    ['a tuple under items', undefined, tuple, ['a', 1], true],
    ['prefixItems', of2019, prefix, [1], true],
    ['prefixItems', draft7, prefix, [1], true],
    ['prefixItems', of2020, prefix, [1], false],
    ['prefixItems', undefined, prefix, [1], false],
    ['what stands beside a reference', draft7, siblings, 'ab', true],
    ['what stands beside a reference', of2019, siblings, 'ab', false],
    ['what stands beside a reference', undefined, siblings, 'ab', false],
    ['minContains', draft7, counted, ['a'], true],
    ['minContains', of2019, counted, ['a'], false],
    ['a limit with a flag', undefined, { minimum: 5, exclusiveMinimum: true }, 5, false],
    ['dependencies', undefined, { dependencies: { a: ['b'] } }, { a: 1 }, false],
    ['definitions', undefined, { $ref: '#/definitions/s', definitions: { s: { type: 'string' } } }, 1, false],
    ['a recursive reference', of2019, { properties: { a: { $recursiveRef: '#' } }, required: ['b'] }, { a: {}, b: 1 }, false],
  ])('%s in %s', (_title, $schema, schema, value, fits) => {
    const check = compileSchema({ ...($schema !== undefined && { $schema }), ...schema });
    expect(check(value).length === 0).toBe(fits);
  }); // prettier-ignore
});

test.each<[string, JsonSchema, unknown, string[]]>([
  ['a type', { type: 'integer' }, 1.5, ['must be integer']],
  ['types', { type: ['string', 'null'] }, 1, ['must be string,null']],
  ['nothing', { properties: { a: false } }, { a: 1 }, ['a: is not allowed']],
  ['limits', { minimum: 2, exclusiveMaximum: 1, multipleOf: 2 }, 1, ['must be >= 2', 'must be < 1', 'must be multiple of 2']],
  ['lengths in characters', { minLength: 3, maxLength: 1 }, '😀😀', ['must NOT have fewer than 3 characters', 'must NOT have more than 1 characters']],
  ['a const', { const: { a: [1] } }, { a: [2] }, ['must be {"a":[1]}']],
  ['the order of keys of a const', { const: { a: 1, b: 2 } }, { b: 2, a: 1 }, []],
  ['items', { minItems: 3, uniqueItems: true }, [1, 1], ['must NOT have fewer than 3 items', 'must NOT have duplicate items']],
  ['contains', { contains: { type: 'string' } }, [1], ['must contain at least 1 valid item(s)']],
  ['names', { propertyNames: { maxLength: 1 }, minProperties: 2 }, { ab: 1 }, ['must NOT have fewer than 2 properties', 'ab: is not a name that fits the schema']],
  ['not', { not: { type: 'string' } }, 'x', ['must NOT be valid']],
  ['alternatives', { anyOf: [{ type: 'string' }, { type: 'null' }] }, 1, ['must be string', 'must be null', 'must match a schema in anyOf']],
  ['one of two', { oneOf: [{ minimum: 1 }, { minimum: 2 }] }, 3, ['must match exactly one schema in oneOf']],
  ['if, then and else', { if: { type: 'string' }, then: { minLength: 2 }, else: { type: 'null' } }, 1, ['must be null']],
  ['unevaluated properties', { allOf: [{ properties: { a: {} } }], unevaluatedProperties: false }, { a: 1, b: 1 }, ['b: is not an argument of this tool']],
  ['unevaluated items', { prefixItems: [{}], unevaluatedItems: { type: 'string' } }, [1, 2], ['[1]: must be string']],
  ['what only a cousin evaluates', { allOf: [{ properties: { a: {} } }, { unevaluatedProperties: false }] }, { a: 1 }, ['a: is not an argument of this tool']],
  ['a flawed keyword, by nothing', { type: 'any', required: true, enum: [], minimum: '3', pattern: '(', items: 7, allOf: 'x', $ref: '#/gone' }, 1, []],
])('a value is held against %s', (_title, schema, value, problems) => {
  expect(compileSchema(schema)(value)).toEqual(problems.map((problem) => (/^(\[|\w+: )/.test(problem) ? problem : `arguments: ${problem}`)));
}); // prettier-ignore

test('G20: characters, members and patterns count as steps, wherever a schema meets them', () => {
  const many = (count: number, of: (i: number) => unknown): unknown[] =>
    Array.from({ length: count }, (_, i) => of(i));
  const members = (count: number, of: (i: number) => [string, unknown]): unknown =>
    Object.fromEntries(many(count, of) as [string, unknown][]);
  const long = 'x'.repeat(500_000);
  const cases: [string, unknown, unknown][] = [
    ['objects of an enum beside a long text', { enum: many(300, (k) => ({ k })) }, { k: long }],
    ['lengths of a long text', { allOf: many(300, () => ({ minLength: 400_000 })) }, long],
    [
      'dependencies of many names',
      { items: { dependentRequired: members(2_000, (i) => [`k${i}`, ['x']]) } },
      many(1_000, () => ({})),
    ],
    [
      'patterns for names of objects that have none',
      { items: { patternProperties: members(2_000, (i) => [`k${i % 500}.${i}`, {}]) } },
      many(1_000, () => ({})),
    ],
    [
      'more patterns than are kept',
      { patternProperties: members(1_100, (i) => [`^k${i}`, {}]) },
      members(850, (i) => [`p${i}`, 1]),
    ],
    ['a long reference', { items: { $ref: `#/$defs/${long}` } }, many(1_000, (i) => i)],
  ];
  for (const [, schema, value] of cases)
    expect(compileSchema({ properties: { a: schema } })({ a: value })).toEqual([
      'arguments: could not be checked by the schema of the tool: it takes too many steps',
    ]);
});

test('multiples of whole numbers are exact, and those of decimals as exact as decimals are', () => {
  const fits = (value: number, multipleOf: number): boolean =>
    compileSchema({ multipleOf })(value).length === 0;
  expect(fits(1_000_000_001, 2)).toBe(false);
  expect(fits(12_345_678_901.5, 1)).toBe(false);
  expect(fits(10_000_000_000, 2)).toBe(true);
  expect(fits(0.3, 0.1)).toBe(true);
  expect(fits(19.99, 0.01)).toBe(true);
  expect(fits(19.995, 0.01)).toBe(false);
  expect(fits(1e308, 0.5)).toBe(true);
});
