import { parseTree, type Node as JsonNode, type ParseError } from 'jsonc-parser';
import { isAlias, isMap, isScalar, LineCounter, parseDocument, visit, type Pair } from 'yaml';

/** The value of a text, or why it cannot be read: a problem quotes nothing of the text. */
export type ReadText = { readonly value: unknown } | { readonly problem: string };

/** Why a text cannot be read. */
class TextProblem extends Error {}

/**
 * Reads JSON, JSON with comments and trailing commas, or YAML. Rejects keys written twice, at any level: the
 * first would be lost. Scalars of an `env` are kept as they were written, since a variable is a text.
 */
export function readServersText(text: string): ReadText {
  try {
    return { value: readJson(text) ?? readYaml(text) };
  } catch (error) {
    if (error instanceof TextProblem) return { problem: error.message };
    if (error instanceof RangeError) return { problem: 'it is nested too deeply' };
    throw error;
  }
}

/** JSON apart, since not all of it is YAML: a tab may indent it. Undefined when the text is no JSON. */
function readJson(text: string): unknown {
  const errors: ParseError[] = [];
  const root = parseTree(text, errors, { allowTrailingComma: true });
  if (root === undefined || errors.length > 0) return undefined;
  const lineOf = (offset: number) => text.slice(0, offset).split('\n').length;
  const valueOf = ({ type, children = [], value, offset, length }: JsonNode, isText: boolean): unknown => {
    if (type === 'array') return children.map((child) => valueOf(child, false));
    if (type !== 'object')
      return isText && value !== null && type !== 'string' ? text.slice(offset, offset + length) : value;
    const keys = new Keys();
    const members = children.map(({ children: [name, member] = [] }) => {
      const key = name!.value as string;
      keys.add(key, () => lineOf(name!.offset));
      return [key, valueOf(member!, isText || key === 'env')] as const;
    });
    return Object.fromEntries(members);
  };
  return valueOf(root, false);
}

function readYaml(text: string): unknown {
  const lineCounter = new LineCounter();
  // Keys are compared below, where `1` and "1" are one.
  const document = parseDocument(text, { lineCounter, uniqueKeys: false, logLevel: 'error' });
  const [error] = document.errors;
  // The parser's own message quotes the line.
  if (error !== undefined) {
    const line = error.linePos?.[0].line ?? '?';
    throw new TextProblem(
      error.code === 'MULTIPLE_DOCS'
        ? `line ${line}: a second document begins; write all servers into one`
        : `line ${line}: neither JSON nor YAML (${error.code})`,
    );
  }
  visit(document, {
    Map(_, { items }) {
      const keys = new Keys();
      for (const { key } of items) {
        const written = isAlias(key) ? key.resolve(document) : key;
        const line = () => lineCounter.linePos((key as { range?: [number] }).range?.[0] ?? 0).line;
        keys.add(isScalar(written) ? String(written.value ?? '') : String(written), line);
      }
    },
    Pair(_, { key, value }) {
      if (!isScalar(key) || key.value !== 'env' || !isMap(value)) return;
      for (const { value: variable } of value.items as Pair[])
        if (isScalar(variable) && ['number', 'boolean'].includes(typeof variable.value))
          variable.value = variable.source;
    },
  });
  try {
    return document.toJS() as unknown;
  } catch (thrown) {
    if (thrown instanceof RangeError) throw thrown;
    throw new TextProblem('its aliases cannot be resolved');
  }
}

/** The keys of one object. */
class Keys {
  readonly #seen = new Set<string>();

  add(key: string, line: () => number): void {
    if (this.#seen.has(key))
      throw new TextProblem(`line ${line()}: a key is written twice in one object; remove one of the two`);
    this.#seen.add(key);
  }
}
