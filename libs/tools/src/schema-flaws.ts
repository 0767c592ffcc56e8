import { patternOf } from './pattern.js';
import { resolverOf, type Resolve } from './references.js';
import { isSchema } from './schema-walk.js';
import type { JsonSchema } from './schema.js';

/** A schema in a form that every reader of JSON Schema takes. */
export interface Repaired {
  /** The very same object where there was nothing to repair. */
  readonly schema: JsonSchema;
  /** Path and keyword of what was taken out, or written another way. */
  readonly flaws: readonly string[];
}

/** At most this many flaws of one schema are reported. */
const maxFlaws = 10;

/**
 * Takes the flawed keywords out of a schema, each alone: a value of another type, a limit that is none, a
 * pattern that JavaScript cannot read, a reference that leads nowhere. What older dialects write
 * another way, where no dialect is named, is written as 2020-12 has it.
 */
export function withoutFlaws(schema: JsonSchema): Repaired {
  const flaws: string[] = [];
  const resolve = resolverOf(schema);
  const repair = new Repair(resolve, isOldDialect(schema), (path, why) => {
    if (flaws.length < maxFlaws) flaws.push(`${path.map((part) => part.slice(0, 64)).join('.')} ${why}`);
  });
  return { schema: repair.schema(schema, []), flaws };
}

/** One that has `items` as a list, and says so. */
function isOldDialect({ $schema }: JsonSchema): boolean {
  return typeof $schema === 'string' && /draft-0[67]|2019-09/.test($schema);
}

type Path = readonly string[];
type Report = (path: Path, why: string) => void;
/** What takes the place of a value; undefined takes the keyword out. */
type Rule = (value: unknown, path: Path, schema: JsonSchema) => unknown;

/** Keywords that decide nothing. */
const annotations: readonly string[] = [
  ...['title', 'description', '$comment', 'format', 'contentEncoding', 'contentMediaType', 'examples'],
  ...['deprecated', 'readOnly', 'writeOnly', '$vocabulary', 'id', '$schema'],
];
const types = ['string', 'number', 'integer', 'boolean', 'null', 'array', 'object'];

class Repair {
  readonly #resolve: Resolve;
  readonly #isOld: boolean;
  readonly #report: Report;
  /** How often something was taken out. */
  #losses = 0;
  /** Schemas with less in a branch of `oneOf` than was written: what fits another branch would fit two. */
  readonly #weakened = new Set<JsonSchema>();

  constructor(resolve: Resolve, isOld: boolean, report: Report) {
    this.#resolve = resolve;
    this.#isOld = isOld;
    this.#report = report;
  }

  schema(schema: JsonSchema, path: Path): JsonSchema {
    const members: [string, unknown][] = [];
    let isSame = true;
    for (const [keyword, value] of Object.entries(schema)) {
      const rule = Object.hasOwn(this.#rules, keyword) ? this.#rules[keyword]! : undefined;
      const repaired = rule === undefined ? value : rule(value, [...path, keyword], schema);
      if (repaired !== undefined) members.push([keyword, repaired]);
      if (repaired !== value) isSame = false;
    }
    return isSame ? schema : this.#rewritten(schema, Object.fromEntries(members));
  }

  /** What is written another way because of what stands beside it. */
  #rewritten(original: JsonSchema, repaired: Record<string, unknown>): JsonSchema {
    const result = { ...repaired };
    if (this.#weakened.has(original)) {
      if (result['oneOf'] !== undefined) result['anyOf'] ??= result['oneOf'];
      delete result['oneOf'];
    }
    for (const [flag, bound] of [
      ['exclusiveMinimum', 'minimum'],
      ['exclusiveMaximum', 'maximum'],
    ] as const) {
      if (original[flag] !== true || typeof result[bound] !== 'number') continue;
      result[flag] = result[bound];
      delete result[bound];
    }
    if (Array.isArray(result['items']) && !this.#isOld) {
      const { items, additionalItems, ...rest } = result;
      const prefixItems = rest['prefixItems'] ?? items;
      const others = rest['prefixItems'] === undefined ? additionalItems : undefined;
      return { ...rest, prefixItems, ...(others !== undefined && { items: others }) };
    }
    return result;
  }

  readonly #rules: Readonly<Record<string, Rule>> = {
    ...this.#all(
      ['title', 'description', '$comment', 'format', 'contentEncoding', 'contentMediaType'],
      'is not a string',
      isString,
    ),
    ...this.#all(['uniqueItems', 'deprecated', 'readOnly', 'writeOnly'], 'is not a boolean', isBoolean),
    ...this.#all(['minimum', 'maximum'], 'is not a number', Number.isFinite),
    ...this.#all(
      ['multipleOf'],
      'is not a number above 0',
      (value) => Number.isFinite(value) && (value as number) > 0,
    ),
    ...this.#all(
      [
        'minLength',
        'maxLength',
        'minItems',
        'maxItems',
        'minProperties',
        'maxProperties',
        'minContains',
        'maxContains',
      ],
      'is not a whole number from 0',
      (value) => Number.isInteger(value) && (value as number) >= 0,
    ),
    ...this.#all(['pattern'], 'is not a pattern that can be read', isPattern),
    ...this.#all(['examples'], 'is not an array', Array.isArray),
    ...this.#all(
      ['$id'],
      'is not a URI',
      (value) => isString(value) && URL.canParse(value, 'holdfast-schema:///'),
    ),
    ...this.#all(
      ['$anchor', '$dynamicAnchor'],
      'is not an anchor',
      (value) => isString(value) && /^[A-Za-z_][\w.-]*$/.test(value),
    ),
    ...this.#all(['$vocabulary'], 'is not an object', isSchema),
    ...this.#each(
      ['properties', '$defs', 'definitions', 'dependentSchemas', 'patternProperties'],
      (value, path, name) =>
        path.at(-1) === 'patternProperties' && !isPattern(name)
          ? this.#out([...path, name], 'is not a pattern that can be read')
          : this.#inner(value, [...path, name], {}),
    ),
    ...this.#each(['dependencies'], (value, path, name) =>
      Array.isArray(value) ? this.#names(value, [...path, name]) : this.#inner(value, [...path, name]),
    ),
    ...this.#each(['dependentRequired'], (value, path, name) => this.#names(value, [...path, name])),
    ...this.#by(
      [
        ...[
          'additionalProperties',
          'additionalItems',
          'unevaluatedProperties',
          'unevaluatedItems',
          'contains',
        ],
        ...['propertyNames', 'then', 'else', 'contentSchema'],
      ],
      (value, path) => this.#inner(value, path),
    ),
    // With less in it, the one would refuse more, and the other decide another way.
    ...this.#by(['not', 'if'], (value, path) => this.#whole(() => this.#inner(value, path))),
    ...this.#by(['allOf', 'anyOf'], (value, path) => this.#branches(value, path)),
    oneOf: (value, path, schema) => {
      const losses = this.#losses;
      const branches = this.#branches(value, path);
      if (this.#losses !== losses) this.#weakened.add(schema);
      return branches;
    },
    ...this.#by(['exclusiveMinimum', 'exclusiveMaximum'], (value, path, schema) =>
      this.#exclusive(value, path, schema),
    ),
    ...this.#by(['required'], (value, path) => this.#names(value, path)),
    ...this.#by(['$ref', '$dynamicRef', '$recursiveRef'], (value, path, schema) =>
      isString(value) && this.#resolve(value, schema) !== undefined
        ? value
        : this.#out(path, 'leads to nothing in the schema'),
    ),
    type: (value, path) => this.#type(value, path),
    enum: (value, path) => this.#choices(value, path),
    prefixItems: (value, path) => this.#tuple(value, path),
    items: (value, path) => {
      if (!Array.isArray(value)) return this.#inner(value, path);
      const tuple = this.#tuple(value, path);
      if (tuple !== undefined && !this.#isOld) this.#report(path, 'is a list, and is listed as prefixItems');
      // A new list in any case, so that the schema counts as rewritten.
      return tuple === undefined || this.#isOld ? tuple : [...tuple];
    },
    nullable: (value, path, schema) =>
      isBoolean(value) && schema['type'] !== undefined
        ? value
        : this.#out(path, 'stands beside no type, or is not a boolean'),
    id: (_value, path) => this.#out(path, 'is not a keyword'),
    $schema: (value, path) => {
      if (!isString(value)) return this.#out(path, 'is not a string');
      // What these have of their own is written as 2020-12 has it.
      return /draft-0[34]/.test(value) ? this.#out(path, 'names a draft that hosts do not know') : value;
    },
  };

  #out(path: Path, why: string): undefined {
    if (!annotations.includes(path.at(-1)!)) this.#losses++;
    this.#report(path, why);
    return undefined;
  }

  /** What `repair` returns where it took nothing out. */
  #whole(repair: () => unknown): unknown {
    const losses = this.#losses;
    const repaired = repair();
    return this.#losses === losses ? repaired : undefined;
  }

  #by(keywords: readonly string[], rule: Rule): Record<string, Rule> {
    return Object.fromEntries(keywords.map((keyword) => [keyword, rule]));
  }

  #all(keywords: readonly string[], why: string, isValid: (value: unknown) => boolean): Record<string, Rule> {
    return this.#by(keywords, (value, path) => (isValid(value) ? value : this.#out(path, why)));
  }

  #each(
    keywords: readonly string[],
    read: (value: unknown, path: Path, name: string) => unknown,
  ): Record<string, Rule> {
    return this.#by(keywords, (value, path) => {
      if (!isSchema(value)) return this.#out(path, 'is not an object');
      const entries = Object.entries(value).map(([name, inner]) => [name, read(inner, path, name)] as const);
      if (entries.every(([name, inner]) => inner === value[name])) return value;
      return Object.fromEntries(entries.filter(([, inner]) => inner !== undefined));
    });
  }

  /** @param instead what takes the place of what is no schema; undefined takes it out */
  #inner(value: unknown, path: Path, instead?: JsonSchema): unknown {
    if (isSchema(value)) return this.schema(value, path);
    if (isBoolean(value)) return value;
    this.#out(path, 'is not a schema');
    return instead;
  }

  /** A branch that cannot be read could be the one that is meant, so of several all go. */
  #branches(value: unknown, path: Path): unknown {
    if (!Array.isArray(value) || value.length === 0) return this.#out(path, 'is not a list of schemas');
    const branches = value.map((branch, i) => this.#inner(branch, [...path, String(i)]));
    if (path.at(-1) !== 'allOf' && branches.includes(undefined)) return undefined;
    const kept = branches.filter((branch) => branch !== undefined);
    return kept.length === 0 ? undefined : sameList(value, kept);
  }

  #tuple(value: unknown, path: Path): readonly unknown[] | undefined {
    if (!Array.isArray(value) || value.length === 0) return this.#out(path, 'is not a list of schemas');
    return sameList(
      value,
      value.map((item, i) => this.#inner(item, [...path, String(i)], {})),
    );
  }

  #exclusive(value: unknown, path: Path, schema: JsonSchema): unknown {
    if (Number.isFinite(value)) return value;
    const bound = path.at(-1) === 'exclusiveMinimum' ? 'minimum' : 'maximum';
    const isDraft4 = isBoolean(value) && (!value || Number.isFinite(schema[bound]));
    if (!isDraft4) return this.#out(path, 'is not a number');
    this.#report(path, 'is a flag of draft-04, and is listed as a number');
    return undefined;
  }

  #names(value: unknown, path: Path): unknown {
    if (!Array.isArray(value)) return this.#out(path, 'is not a list of names');
    const names = [...new Set(value.filter(isString))];
    if (names.length === value.length) return value;
    this.#report(path, 'repeats names, or has what is none');
    return names;
  }

  #type(value: unknown, path: Path): unknown {
    const given: readonly unknown[] = Array.isArray(value) ? value : [value];
    const known = [...new Set(given.map((type) => (isString(type) ? type.toLowerCase() : type)))].filter(
      (type) => types.includes(type as string),
    );
    const isSame = known.length === given.length && known.every((type, i) => type === given[i]);
    if (isSame && given.length > 0) return value;
    const why = 'is not a type, or has what is none';
    // With one type unknown there is no telling what else is meant.
    if (known.length === 0 || known.length < new Set(given).size) return this.#out(path, why);
    this.#report(path, why);
    return Array.isArray(value) ? known : known[0];
  }

  #choices(value: unknown, path: Path): unknown {
    if (!Array.isArray(value) || value.length === 0) return this.#out(path, 'is not a list of values');
    const choices = new Map(value.map((choice) => [JSON.stringify(choice), choice as unknown]));
    if (choices.size === value.length) return value;
    this.#report(path, 'repeats values');
    return [...choices.values()];
  }
}

function sameList(value: readonly unknown[], repaired: readonly unknown[]): readonly unknown[] {
  return value.length === repaired.length && repaired.every((item, i) => item === value[i])
    ? value
    : repaired;
}

function isString(value: unknown): value is string {
  return typeof value === 'string';
}

function isBoolean(value: unknown): value is boolean {
  return typeof value === 'boolean';
}

function isPattern(value: unknown): boolean {
  return isString(value) && patternOf(value) !== undefined;
}
