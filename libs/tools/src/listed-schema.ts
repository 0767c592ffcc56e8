import { resolverOf, type Resolve } from './references.js';
import { isSchema, subSchemas } from './schema-walk.js';
import type { JsonSchema } from './schema.js';

/** A longer schema, in bytes of its JSON, is listed as one that takes anything: no model could read it. */
export const maxListedSchemaBytes = 256 * 1024;

/** An input schema as hosts are shown it. */
export interface ListedSchema {
  readonly schema: JsonSchema;
  /** For the description of the tool: what the schema no longer says. */
  readonly note?: string;
}

/** What providers of models refuse at the top of a schema (F60); one such tool takes the whole list down. */
const refusedAtTop = ['oneOf', 'anyOf', 'allOf', 'not', '$ref', 'enum', 'const'] as const;
/** Branches within branches are followed this far. */
const maxDepth = 32;

const permissive: JsonSchema = { type: 'object' };

/**
 * The form of an input schema that every host takes: an object at the top, nothing there but its
 * properties, every `$ref` resolved inside it (F60, F62, F66). It says what arguments there are; a
 * call is checked by the original. Wishes for headers are not listed: hosts owe us none (BEHAVIOURS X21).
 */
export function listedSchema(original: JsonSchema): ListedSchema {
  const bytes = Buffer.byteLength(JSON.stringify(original));
  if (bytes > maxListedSchemaBytes) {
    return {
      schema: permissive,
      note: `(Its parameters are not listed: their schema is ${Math.ceil(bytes / 1024)} KiB long.)`,
    };
  }
  const schema = withoutHeaderWishes(original);
  const isFlat =
    schema['type'] === 'object' && refusedAtTop.every((keyword) => !Object.hasOwn(schema, keyword));
  const flat = withoutBooleans(isFlat ? schema : merged(schema));
  return { schema: isSelfContained(flat) ? flat : permissive };
}

/**
 * An output schema for hosts; undefined for one that some of them could not take, which is then not listed
 * (F63). Only hosts of 2026-07-28 take one that is not of an object.
 */
export function listedOutputSchema(original: JsonSchema): JsonSchema | undefined {
  if (Buffer.byteLength(JSON.stringify(original)) > maxListedSchemaBytes) return undefined;
  return isSelfContained(original) ? withoutBooleans(original) : undefined;
}

/** Whether a schema can take an object at all, as far as its type tells. */
export function takesObjects({ type }: JsonSchema): boolean {
  return type === undefined || type === 'object' || (Array.isArray(type) && type.includes('object'));
}

/** All that the branches at the top say of properties, in one object. What else they say is left out. */
function merged(schema: JsonSchema): JsonSchema {
  const { properties, required } = new Shapes(schema).of(schema);
  const dropped: readonly string[] = [...refusedAtTop, 'unevaluatedProperties', 'required'];
  return Object.fromEntries([
    ...Object.entries(schema).filter(([keyword]) => !dropped.includes(keyword)),
    ['type', 'object'],
    ['properties', Object.fromEntries(properties)],
    ...(required.size > 0 ? [['required', [...required]]] : []),
  ]) as JsonSchema;
}

/** What a schema says of the properties of an object. */
interface Shape {
  readonly properties: ReadonlyMap<string, unknown>;
  readonly required: ReadonlySet<string>;
}

const nothing: Shape = { properties: new Map(), required: new Set() };

/** The shapes of the parts of one schema. Each is made once: references could make a tree of 2ⁿ of them. */
class Shapes {
  readonly #resolve: Resolve;
  readonly #made = new Map<JsonSchema, Shape>();

  constructor(root: JsonSchema) {
    this.#resolve = resolverOf(root);
  }

  of(schema: JsonSchema, depth = 0): Shape {
    const made = this.#made.get(schema);
    if (made !== undefined) return made;
    // A reference in a circle finds this, and adds nothing.
    this.#made.set(schema, nothing);
    if (depth === maxDepth) return nothing;
    const shapes = (branches: readonly unknown[]): Shape[] =>
      branches.filter(isSchema).map((branch) => this.of(branch, depth + 1));
    const { properties, required, $ref, allOf, oneOf, anyOf } = schema;
    const own: Shape = {
      properties: new Map(isSchema(properties) ? Object.entries(properties) : []),
      required: new Set(Array.isArray(required) ? (required as string[]) : []),
    };
    const shape = both([
      own,
      ...shapes(typeof $ref === 'string' ? [this.#resolve($ref, schema)] : []),
      ...shapes(Array.isArray(allOf) ? allOf : []),
      ...[oneOf, anyOf]
        .filter(Array.isArray)
        // A branch that takes no object says nothing of arguments.
        .map((branches) =>
          either(shapes(branches.filter((branch) => isSchema(branch) && takesObjects(branch)))),
        ),
    ]);
    this.#made.set(schema, shape);
    return shape;
  }
}

function both(shapes: readonly Shape[]): Shape {
  return {
    properties: joined(shapes, 'allOf'),
    required: new Set(shapes.flatMap(({ required }) => [...required])),
  };
}

function either(shapes: readonly Shape[]): Shape {
  const [first = nothing, ...others] = shapes;
  return {
    properties: joined(shapes, 'anyOf'),
    required: new Set(
      [...first.required].filter((name) => others.every(({ required }) => required.has(name))),
    ),
  };
}

/** Of a property that several speak of, what all of them say. */
function joined(shapes: readonly Shape[], as: 'allOf' | 'anyOf'): Map<string, unknown> {
  const said = new Map<string, Map<string, unknown>>();
  for (const { properties } of shapes) {
    for (const [name, schema] of properties) {
      if (!said.has(name)) said.set(name, new Map());
      said.get(name)!.set(JSON.stringify(schema), schema);
    }
  }
  return new Map(
    [...said].map(([name, different]) => {
      const schemas = [...different.values()];
      return [name, schemas.length === 1 ? schemas[0] : { [as]: schemas }];
    }),
  );
}

/** `true` and `false` as the objects that mean the same, where hosts take objects only (F62). */
function withoutBooleans(schema: JsonSchema): JsonSchema {
  const { properties } = schema;
  if (!isSchema(properties) || Object.values(properties).every(isSchema)) return schema;
  const objects = Object.entries(properties).map(([name, property]) => [
    name,
    property === true ? {} : property === false ? { not: {} } : property,
  ]);
  return { ...schema, properties: Object.fromEntries(objects) as JsonSchema };
}

/** Whether every reference in a schema leads to a place in it. */
function isSelfContained(root: JsonSchema): boolean {
  const resolve = resolverOf(root);
  const look = (schema: JsonSchema): boolean => {
    // References under an id of its own start from there, which few hosts follow.
    if (schema !== root && typeof schema['$id'] === 'string') return false;
    if (Object.hasOwn(schema, '$dynamicRef') || Object.hasOwn(schema, '$recursiveRef')) return false;
    if (typeof schema['$ref'] === 'string' && resolve(schema['$ref'], schema) === undefined) return false;
    for (const { schema: inner } of subSchemas(schema)) if (!look(inner)) return false;
    return true;
  };
  return look(root);
}

/** A wish is a string; an argument of that name has a schema. */
export function withoutHeaderWishes(schema: JsonSchema): JsonSchema {
  const text = JSON.stringify(schema);
  if (!text.includes('"x-mcp-header"')) return schema;
  return JSON.parse(text, (key, value: unknown) =>
    key === 'x-mcp-header' && typeof value === 'string' ? undefined : value,
  ) as JsonSchema;
}
