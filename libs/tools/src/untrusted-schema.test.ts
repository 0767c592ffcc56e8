import { describe, expect, test } from '@jest/globals';
import { compileUntrustedSchema } from './untrusted-schema.js';

const refs = Object.fromEntries(
  Array.from({ length: 60 }, (_, i) => [
    `d${i}`,
    { allOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] },
  ]),
);

describe('a schema of somebody else', () => {
  test.each<[string, object, unknown]>([
    ['a pattern', { properties: { a: { type: 'string', pattern: '^(a+)+$' } } }, { a: `${'a'.repeat(60)}!` }],
    ['the pattern of a name', { patternProperties: { '^(a+)+$': {} } }, { [`${'a'.repeat(60)}!`]: 1 }],
    ['a tree of references', { properties: { a: { $ref: '#/$defs/d0' } }, $defs: { ...refs, d60: { type: 'object' } } }, { a: {} }],
  ])('does not hold us up by %s', (_title, schema, args) => {
    const check = compileUntrustedSchema({ type: 'object', ...schema });
    expect(check(args)).toEqual(['arguments: could not be checked by the schema of the tool within 200 ms']);
    // And again: what was stopped once is as good as before.
    expect(check({ b: 1 })).toEqual([]);
    expect(check(args)).toHaveLength(1);
  }); // prettier-ignore

  test.each([{}, { properties: { b: { pattern: '^x' } } }])('is checked like any other: %j', (more) => {
    const check = compileUntrustedSchema({ type: 'object', required: ['a'], ...more });
    expect([check({}), check({ a: 1 })]).toEqual([['a: is required'], []]);
  });
});
