import { isInexactNumber } from '@holdfast/run';
import { isSchema, subSchemas } from './schema-walk.js';
import type { JsonSchema } from './schema.js';

const keyword = 'x-mcp-header';
/** A `token` of RFC 9110 §5.6.2. */
const headerToken = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** An argument that a server wants as a header beside the body. */
interface HeaderWish {
  readonly header: string;
  /** Names of properties, from the top. */
  readonly path: readonly string[];
}

/**
 * What is wrong with the wishes for headers in an input schema; undefined when nothing is. A tool whose wishes
 * are wrong must not be used (MCP 2026-07-28, Streamable HTTP, custom headers from tool parameters).
 */
export function headerProblem(schema: JsonSchema): string | undefined {
  const wishes = readWishes(schema);
  return 'problem' in wishes ? wishes.problem : undefined;
}

/**
 * The `Mcp-Param-*` headers of one call, by their full names, as text. An argument that is absent or null has none.
 *
 * @param schema one without a `headerProblem`
 * @param args gives the arguments, which fit the schema; asked only where the schema wishes for headers
 */
export function paramHeadersOf(schema: JsonSchema, args: () => unknown): Readonly<Record<string, string>> {
  let wishes = known.get(schema);
  if (wishes === undefined) known.set(schema, (wishes = readWishes(schema)));
  if ('problem' in wishes || wishes.wishes.length === 0) return {};
  const given = args();
  const headers: Record<string, string> = {};
  for (const { header, path } of wishes.wishes) {
    const value = valueAt(given, path);
    if (value !== undefined) headers[`Mcp-Param-${header}`] = value;
  }
  return headers;
}

type Wishes = { readonly wishes: readonly HeaderWish[] } | { readonly problem: string };

/** Read once for as long as a catalogue holds the schema: each call asks. */
const known = new WeakMap<JsonSchema, Wishes>();

function readWishes(schema: JsonSchema): Wishes {
  const wishes: HeaderWish[] = [];
  const seen = new Set<string>();
  const look = (node: JsonSchema, path: readonly string[] | undefined): string | undefined => {
    if (Object.hasOwn(node, keyword)) {
      const header = node[keyword];
      if (path === undefined || path.length === 0)
        return 'stands where no single argument is meant; it belongs on a property';
      if (typeof header !== 'string' || !headerToken.test(header)) return 'is no name of a header';
      if (!['string', 'integer', 'boolean'].includes(node['type'] as string))
        return 'is on an argument that is no string, integer or boolean';
      if (seen.has(header.toLowerCase())) return 'names one header twice';
      seen.add(header.toLowerCase());
      wishes.push({ header, path });
    }
    for (const inner of subSchemas(node)) {
      const isNested = path !== undefined && inner.keyword === 'properties';
      const problem = look(inner.schema, isNested ? [...path, inner.name!] : undefined);
      if (problem !== undefined) return problem;
    }
    return undefined;
  };
  const problem = look(schema, []);
  return problem === undefined ? { wishes } : { problem: `its ${keyword} ${problem}` };
}

/** The value of an argument as text; undefined for what has no header. */
function valueAt(args: unknown, path: readonly string[]): string | undefined {
  let value = args;
  for (const name of path) {
    if (!isSchema(value) || !Object.hasOwn(value, name)) return undefined;
    value = value[name];
  }
  if (typeof value === 'string') return value;
  const plain = isInexactNumber(value) ? Number(value.rawJSON) : value;
  return typeof plain === 'boolean' || Number.isSafeInteger(plain) ? String(plain) : undefined;
}
