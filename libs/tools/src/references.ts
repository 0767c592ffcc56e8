import { isSchema, subSchemas } from './schema-walk.js';
import type { JsonSchema } from './schema.js';

/** Finds the schema that a reference in `from` means; undefined when it leads to none inside the whole. */
export type Resolve = (reference: string, from: JsonSchema) => JsonSchema | boolean | undefined;

/** The base of a schema that says nothing of its own: nothing else has an address like it. */
const noBase = 'holdfast-schema:///';

/**
 * References inside one schema: by JSON pointer (RFC 6901), by anchor, and by the `$id` of a schema in it.
 * Nothing is ever fetched. The schema is walked once, at the first reference that needs it.
 */
export function resolverOf(root: JsonSchema): Resolve {
  let index: Index | undefined;
  const found = new Map<string, ReturnType<Resolve>>();
  return (reference, from) => {
    index ??= indexOf(root);
    const base = index.bases.get(from) ?? noBase;
    const key = `${base} ${reference}`;
    if (!found.has(key)) found.set(key, find(index, reference, base));
    return found.get(key);
  };
}

function find(index: Index, reference: string, base: string): ReturnType<Resolve> {
  // A pointer may hold what a URL would escape.
  const isPointer = reference === '#' || reference.startsWith('#/');
  const url = isPointer ? base + reference : joined(reference, base);
  if (url === undefined) return undefined;
  const [address = '', fragment = ''] = url.split('#', 2);
  const resource = index.resources.get(address);
  if (resource === undefined) return undefined;
  if (fragment === '' || fragment.startsWith('/')) return pointed(resource, fragment);
  return index.anchors.get(`${address}#${fragment}`);
}

interface Index {
  /** By address, without a fragment. */
  readonly resources: Map<string, JsonSchema>;
  /** By address with the anchor as fragment. */
  readonly anchors: Map<string, JsonSchema>;
  /** The address that references in a schema start from, where it is not `noBase`. */
  readonly bases: Map<JsonSchema, string>;
}

function indexOf(root: JsonSchema): Index {
  const index: Index = { resources: new Map([[noBase, root]]), anchors: new Map(), bases: new Map() };
  const look = (schema: JsonSchema, outer: string): void => {
    const { $id, $anchor, $dynamicAnchor } = schema;
    const own = typeof $id === 'string' ? joined($id, outer) : undefined;
    const [base = outer, fragment = ''] = own?.split('#', 2) ?? [];
    // Before 2019-09 an `$id` that is a fragment is an anchor.
    if (own !== undefined && fragment !== '') index.anchors.set(own, schema);
    if (!index.resources.has(base)) index.resources.set(base, schema);
    if (base !== noBase) index.bases.set(schema, base);
    for (const anchor of [$anchor, $dynamicAnchor]) {
      if (typeof anchor === 'string' && !index.anchors.has(`${base}#${anchor}`))
        index.anchors.set(`${base}#${anchor}`, schema);
    }
    for (const { schema: inner } of subSchemas(schema)) look(inner, base);
  };
  look(root, noBase);
  return index;
}

function pointed(resource: JsonSchema, pointer: string): JsonSchema | boolean | undefined {
  let text: string;
  try {
    text = decodeURIComponent(pointer);
  } catch {
    return undefined;
  }
  let place: unknown = resource;
  for (const part of text.split('/').slice(1)) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof place !== 'object' || place === null || !Object.hasOwn(place, name)) return undefined;
    place = (place as Record<string, unknown>)[name];
  }
  return isSchema(place) || typeof place === 'boolean' ? place : undefined;
}

function joined(reference: string, base: string): string | undefined {
  return URL.canParse(reference, base) ? new URL(reference, base).href : undefined;
}
