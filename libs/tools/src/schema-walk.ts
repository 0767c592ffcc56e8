import { type JsonSchema } from './schema.js';

/** Keywords whose value is a schema for each name. */
const byName = new Set([
  'properties',
  'patternProperties',
  'dependentSchemas',
  'dependencies',
  '$defs',
  'definitions',
]);
/** Keywords whose value is a schema, or a list of them. */
const oneOrMore = new Set([
  'items',
  'prefixItems',
  'additionalItems',
  'contains',
  'additionalProperties',
  'unevaluatedProperties',
  'unevaluatedItems',
  'propertyNames',
  'contentSchema',
  'oneOf',
  'anyOf',
  'allOf',
  'not',
  'if',
  'then',
  'else',
]);

/** A schema inside a schema. */
export interface SubSchema {
  readonly schema: JsonSchema;
  /** The keyword that holds it. */
  readonly keyword: string;
  /** Under a keyword that names its schemas: which one. */
  readonly name?: string;
}

/**
 * The schemas directly inside one, in the places where a schema can be; what `enum`, `default` and their like
 * hold is data.
 */
export function* subSchemas(schema: JsonSchema): Generator<SubSchema> {
  for (const [keyword, value] of Object.entries(schema)) {
    if (!isObject(value)) continue;
    if (byName.has(keyword)) {
      for (const [name, inner] of Object.entries(value))
        if (isSchema(inner)) yield { schema: inner, keyword, name };
    } else if (oneOrMore.has(keyword)) {
      for (const inner of Array.isArray(value) ? value : [value])
        if (isSchema(inner)) yield { schema: inner, keyword };
    }
  }
}

/** A schema that is an object; the other kind is a boolean. */
export function isSchema(value: unknown): value is JsonSchema {
  return isObject(value) && !Array.isArray(value);
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
