import { describe, expect, test } from '@jest/globals';
import { listedOutputSchema, listedSchema, maxListedSchemaBytes } from './listed-schema.js';
import { compileSchema, type JsonSchema } from './schema.js';

const listed = (schema: JsonSchema): JsonSchema => listedSchema(schema).schema;
const a = { properties: { a: { type: 'string' } }, required: ['a', 'c'] };
const b = { properties: { b: { type: 'integer' } }, required: ['b', 'c'] };

describe('the listed form of an input schema', () => {
  test('of an ordinary one is the very same', () => {
    const schema = {
      type: 'object',
      properties: { a: { oneOf: [{}, { type: 'string' }] } },
      $defs: { X: {} },
    };
    expect(listed(schema)).toBe(schema);
  });

  test.each([
    ['oneOf', ['c']],
    ['anyOf', ['c']],
    ['allOf', ['a', 'c', 'b']],
  ] as const)('F60 has no %s at its top, and all properties of the branches', (keyword, required) => {
    for (const type of [{}, { type: 'object' }, { type: ['object', 'null'] }]) {
      const schema = listed({ ...type, [keyword]: [a, b], description: 'd' });
      expect(schema).toEqual({
        type: 'object',
        description: 'd',
        properties: { ...a.properties, ...b.properties },
        required: [...required],
      });
    }
  });

  test('F60 says of a property what each branch says of it', () => {
    const branch = (kind: string): object => ({
      properties: { kind: { const: kind }, at: { type: 'string' } },
    });
    expect(listed({ type: 'object', oneOf: [branch('x'), branch('y'), { type: 'array' }] })).toEqual({
      type: 'object',
      properties: { kind: { anyOf: [{ const: 'x' }, { const: 'y' }] }, at: { type: 'string' } },
    });
    expect(listed({ type: 'object', ...branch('x'), allOf: [branch('y')] })['properties']).toEqual({
      kind: { allOf: [{ const: 'x' }, { const: 'y' }] },
      at: { type: 'string' },
    });
  });

  test('F60 has no $ref, not, enum or const at its top either', () => {
    const schema = {
      $ref: '#/$defs/Args',
      not: { required: ['x'] },
      enum: [{}],
      $defs: { Args: { ...a, type: 'object' } },
    };
    expect(listed(schema)).toEqual({ type: 'object', ...a, $defs: schema.$defs });
  });

  test('F62 has objects for properties that are true or false', () => {
    const schema = {
      type: 'object',
      properties: { payload: true, never: false, list: { type: 'array', items: false } },
      additionalProperties: true,
    };
    expect(listed(schema)).toEqual({
      ...schema,
      properties: { ...schema.properties, payload: {}, never: { not: {} } },
    });
    expect(compileSchema(listed(schema))({ payload: [1, null] })).toEqual([]);
    expect(compileSchema(listed(schema))({ never: 1 })).not.toEqual([]);
  });

  test.each(['#/$defs/X', '#/definitions/Y', '#', '#/properties/a', '#there', '#/$defs/a~1b', '#/%24defs/X'])(
    'F66 keeps the reference %s, which resolves in it',
    ($ref) => {
      const schema = {
        type: 'object',
        properties: { a: { type: 'string' }, b: { $ref } },
        $defs: { X: { enum: [1] }, 'a/b': {}, Z: { $anchor: 'there' } },
        definitions: { Y: {} },
      };
      expect(listed(schema)).toBe(schema);
      const { properties, ...flat } = listed({ ...schema, anyOf: [{ required: ['a'] }] });
      expect([properties, flat['$defs'], flat['definitions']]).toEqual([
        schema.properties,
        schema.$defs,
        schema.definitions,
      ]);
    },
  );

  test.each([
    [{ $ref: '#/$defs/Gone' }],
    [{ $ref: '#gone' }],
    [{ $ref: 'other.json' }],
    [{ $ref: '#/type' }],
    [{ $ref: '#/%' }],
    [{ $ref: '#/properties/constructor/prototype' }],
    [{ $dynamicRef: '#x' }],
    [{ $id: 'https://x/', properties: { c: { $ref: '#' } } }],
    [{ items: [{ not: { $ref: '#/oneOf/0' } }] }],
  ])('F66 takes anything where %j would lead nowhere', (inner) => {
    expect(listed({ type: 'object', properties: { b: inner }, oneOf: [{}] })).toEqual({ type: 'object' });
  });

  test('what looks like a reference and is data, or an argument, is left alone', () => {
    const schema = {
      type: 'object',
      properties: { $ref: { const: { $ref: '#/gone' } }, x: { default: { $ref: '#/gone' } } },
    };
    expect(listed(schema)).toBe(schema);
  });

  test('a schema of references in circles and in trees of them is listed at once', () => {
    const $defs = Object.fromEntries(
      Array.from({ length: 60 }, (_, i) => [
        `d${i}`,
        {
          properties: { [`p${i}`]: {} },
          allOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${(i + 1) % 60}` }],
        },
      ]),
    );
    const schema = { $ref: '#/$defs/d0', $defs: { ...$defs, d60: { $ref: '#/$defs/d0' } } };
    expect(Object.keys(listed(schema)['properties'] as object)).toContain('p5');
  });

  test('F68 with constructor, prototype or __proto__ among its properties changes nothing else', () => {
    const evil = JSON.parse(
      '{"oneOf":[{"properties":{"constructor":{"properties":{"prototype":{"default":{"polluted":1}}}},"__proto__":{"default":{"polluted":1}}}}]}',
    ) as JsonSchema;
    const { properties } = listed(evil);
    expect(Object.keys(properties as object)).toEqual(['constructor', '__proto__']);
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
    expect(Object.getPrototypeOf(properties)).toBe(Object.prototype);
  });

  test('one that is too long takes anything, and the description says why', () => {
    const long = { type: 'object', properties: { a: { enum: ['é'.repeat(maxListedSchemaBytes / 2)] } } };
    expect(listedSchema(long)).toEqual({
      schema: { type: 'object' },
      note: '(Its parameters are not listed: their schema is 257 KiB long.)',
    });
  });
});

test('an output schema is listed when every host can take it (F63)', () => {
  const schema = {
    type: 'object',
    properties: { x: { $ref: '#/$defs/X' }, list: { items: { $ref: '#/$defs/X' } }, any: true },
    $defs: { X: { type: 'string' } },
  };
  expect(listedOutputSchema(schema)).toEqual({ ...schema, properties: { ...schema.properties, any: {} } });
  expect(listedOutputSchema({ type: 'array' })).toEqual({ type: 'array' });
  expect(listedOutputSchema({ ...schema, $defs: {} })).toBeUndefined();
});
