import { describe, expect, test } from '@jest/globals';
import { headerProblem, paramHeadersOf } from './param-headers.js';
import type { JsonSchema } from './schema.js';

const wish = (name: unknown, type: unknown = 'string'): JsonSchema => ({ type, 'x-mcp-header': name });

test('an argument that the server wants as a header is sent as one (BEHAVIOURS X21)', () => {
  const schema = {
    type: 'object',
    properties: {
      region: wish('Region'),
      'x-mcp-header': { type: 'string' },
      deep: { properties: { limit: wish('Limit', 'integer'), sure: wish('Sure', 'boolean') } },
    },
  };
  expect(headerProblem(schema)).toBeUndefined();
  const args = { region: 'eu-west1', 'x-mcp-header': 'no', deep: { limit: -0, sure: false }, other: 1 };
  expect(paramHeadersOf(schema, () => args)).toEqual({
    'Mcp-Param-Region': 'eu-west1',
    'Mcp-Param-Limit': '0',
    'Mcp-Param-Sure': 'false',
  });
  expect(paramHeadersOf(schema, () => ({ region: null, deep: 'x' }))).toEqual({});
  const inherited = { properties: { toString: { properties: { name: wish('C') } } } };
  expect(paramHeadersOf(inherited, () => ({}))).toEqual({});
});

test('a text is given as it is; whoever sends it writes it as a header can carry it', () => {
  for (const value of ['plain text, 1;2', ' x', '', 'é', 'a\r\nX-Evil: 1'])
    expect(paramHeadersOf({ properties: { a: wish('A') } }, () => ({ a: value }))).toEqual({
      'Mcp-Param-A': value,
    });
});

describe('a wish that no host may follow is told', () => {
  test.each<[JsonSchema, RegExp]>([
    [{ properties: { a: wish('') } }, /no name of a header/],
    [{ properties: { a: wish('a b') } }, /no name of a header/],
    [{ properties: { a: wish('a\r\nb') } }, /no name of a header/],
    [{ properties: { a: wish(7) } }, /no name of a header/],
    [{ properties: { a: wish('A', 'number') } }, /no string, integer or boolean/],
    [{ properties: { a: wish('A', ['string', 'null']) } }, /no string, integer or boolean/],
    [{ properties: { a: { 'x-mcp-header': 'A' } } }, /no string, integer or boolean/],
    [{ properties: { a: wish('A'), b: wish('a') } }, /one header twice/],
    [wish('A'), /belongs on a property/],
    [{ properties: { a: { type: 'array', items: wish('A') } } }, /belongs on a property/],
    [{ properties: { a: { anyOf: [{ properties: { b: wish('A') } }] } } }, /belongs on a property/],
    [{ $defs: { x: { properties: { a: wish('A') } } } }, /belongs on a property/],
    [{ additionalProperties: wish('A') }, /belongs on a property/],
  ])('%j', (schema, problem) => {
    expect(headerProblem(schema)).toMatch(problem);
  });
});
