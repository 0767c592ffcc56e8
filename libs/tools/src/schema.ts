import { formatPath } from '@holdfast/run';
import { cutToCodePoints } from './cut-text.js';
import { dialectOf, type Dialect } from './dialect.js';
import { patternOf } from './pattern.js';
import { resolverOf, type Resolve } from './references.js';
import { isSchema } from './schema-walk.js';
import { OutOfTime, withinTime } from './within-time.js';

/** A JSON Schema object of any draft from 04 to 2020-12; where `$schema` names none, 2020-12. */
export type JsonSchema = { readonly [keyword: string]: unknown };

/** What is wrong with one field, its path first: `order_id: is required`. */
export type Problem = string;

/** Checks a value against one schema; an empty list means that it fits. Never throws. */
export type SchemaCheck = (value: unknown) => Problem[];

/** At most this many problems are reported at once. */
const maxProblems = 10;
/** What one check may take: schemas met by values, names and characters compared (about 0.3 s), and time where patterns need it. */
const trusted: Limits = { steps: 1_000_000, walkMs: 1_000, ms: 200 };
/** What a schema gets from the first check on that took too much: whoever sends the same again holds up nobody. */
const distrusted: Limits = { steps: 100_000, walkMs: 100, ms: 20 };
const stepsBetweenLooks = 256;
/** Squares of lengths: what patterns that cannot branch may cost together without a limit of time. */
const maxPatternCost = 4_000_000;

/**
 * The check of arguments by a schema. What cannot be checked to its end, because it takes too many steps or
 * too long, or nests too deeply, is one problem.
 *
 * The schema is walked, not compiled: nothing depends on its size before a value comes, a flawed keyword
 * checks nothing, and the number of steps is bounded. See docs/decisions/0019-schemas-are-walked-not-compiled.md.
 */
export function compileSchema(schema: JsonSchema): SchemaCheck {
  const check = checkOf(schema);
  return (value) => {
    const checked = check(value);
    return typeof checked === 'string'
      ? [`arguments: could not be checked by the schema of the tool: ${checked}`]
      : checked;
  };
}

/** The check of a result that is there already: what cannot be checked counts as fitting. */
export function compileOutputSchema(schema: JsonSchema): SchemaCheck {
  const check = checkOf(schema);
  return (value) => {
    const checked = check(value);
    return typeof checked === 'string' ? [] : checked;
  };
}

interface Limits {
  readonly steps: number;
  /** The longest that the steps may take: what one costs depends on the schema and on the machine. */
  readonly walkMs: number;
  readonly ms: number;
}

/** The problems, or why there is no telling. */
function checkOf(schema: JsonSchema): (value: unknown) => Problem[] | string {
  const resolve = resolverOf(schema);
  let limits = trusted;
  const run = (value: unknown, isTimed: boolean): Problem[] =>
    new Evaluation(schema, resolve, limits, isTimed).problemsOf(value);
  return (value) => {
    try {
      return untimed(() => run(value, false)) ?? withinTime(limits.ms, () => run(value, true));
    } catch (error) {
      const reason = reasonOf(error);
      if (error instanceof OutOfTime || error instanceof TooManySteps) limits = distrusted;
      return reason;
    }
  };
}

/** Most checks meet no pattern that needs a limit of time. Undefined for those that do. */
function untimed<T>(run: () => T): T | undefined {
  try {
    return run();
  } catch (error) {
    if (error instanceof NeedsTime) return undefined;
    throw error;
  }
}

/** Whatever a check throws says that there is no telling; it is never a fault of the call. */
function reasonOf(error: unknown): string {
  if (error instanceof OutOfTime) return `it was ${error.message}`;
  if (error instanceof TooManySteps) return 'it takes too many steps';
  return error instanceof RangeError ? 'it is nested too deeply' : 'it failed';
}

class TooManySteps extends Error {}
/** A pattern is met that may take long. */
class NeedsTime extends Error {}
/** As many problems as are reported are found. */
class Enough extends Error {}

/** What of an object or an array was looked at, for `unevaluatedProperties` and `unevaluatedItems`. */
interface Seen {
  readonly names: Set<string>;
  readonly places: Set<number>;
  allNames: boolean;
  allPlaces: boolean;
}

type Values = Readonly<Record<string, unknown>>;

const references = ['$ref', '$dynamicRef', '$recursiveRef'] as const;
const keywordsOf = {
  references,
  type: ['type'],
  equal: ['enum', 'const'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
  string: ['minLength', 'maxLength', 'pattern'],
  array: ['items', 'prefixItems', 'contains', 'minItems', 'maxItems', 'uniqueItems'],
  object: [
    ...['properties', 'required', 'additionalProperties', 'patternProperties', 'propertyNames'],
    ...['minProperties', 'maxProperties', 'dependentRequired', 'dependentSchemas', 'dependencies'],
  ],
  branches: ['allOf', 'anyOf', 'oneOf', 'not', 'if'],
  unevaluated: ['unevaluatedProperties', 'unevaluatedItems'],
} as const;
type Kind = keyof typeof keywordsOf;
type Sayings = Readonly<Record<Kind, boolean>>;
const kinds = Object.keys(keywordsOf) as Kind[];
const kindOf = new Map<string, Kind>(
  kinds.flatMap((kind) => keywordsOf[kind].map((keyword) => [keyword, kind] as const)),
);
const silent = Object.fromEntries(kinds.map((kind) => [kind, false])) as Record<Kind, boolean>;

/** Which kinds of keywords a schema has; looked up once, since most have one or two. */
const sayings = new WeakMap<JsonSchema, Sayings>();

/** The members of what a keyword holds; each value that is checked asks for them. */
const entriesOf = new WeakMap<Values, [string, unknown][]>();

function sayingsOf(schema: JsonSchema): Sayings {
  let says = sayings.get(schema);
  if (says === undefined) {
    const found = { ...silent };
    // By the schema's own keys: a schema of few is looked up as often as it has parts.
    for (const keyword of Object.keys(schema)) {
      const kind = kindOf.get(keyword);
      if (kind !== undefined) found[kind] = true;
    }
    sayings.set(schema, (says = found));
  }
  return says;
}

/** One check of one value. */
class Evaluation {
  readonly #root: JsonSchema;
  readonly #resolve: Resolve;
  readonly #dialect: Dialect;
  readonly #isTimed: boolean;
  readonly #path: (string | number)[] = [];
  #problems: Problem[] = [];
  /** Inside a branch whose failure is no problem yet, where nothing is noted. */
  #silence = 0;
  #steps: number;
  /** How often a step was taken, however many it counts for. */
  #asked = 0;
  readonly #deadline: number;
  #patternCost = 0;
  #hasAddresses: boolean | undefined;
  /** The values that a referred schema is looking at: one that comes back to itself adds nothing. */
  readonly #referred = new Map<unknown, unknown[]>();

  constructor(root: JsonSchema, resolve: Resolve, { steps, walkMs }: Limits, isTimed: boolean) {
    this.#root = root;
    this.#resolve = resolve;
    this.#dialect = dialectOf(root);
    this.#steps = steps;
    this.#deadline = performance.now() + walkMs;
    this.#isTimed = isTimed;
  }

  problemsOf(value: unknown): Problem[] {
    try {
      this.#fits(this.#root, value, undefined);
    } catch (error) {
      if (!(error instanceof Enough)) throw error;
    }
    return [...new Set(this.#problems)];
  }

  #fits(schema: unknown, value: unknown, outer: Seen | undefined): boolean {
    this.#step();
    if (schema === false) return this.#no('is not allowed');
    if (!isSchema(schema)) return true;
    const says = sayingsOf(schema);
    if (says.references && Object.hasOwn(schema, '$ref') && this.#dialect.refStandsAlone)
      return this.#fitsReference(schema, schema['$ref'], value, outer);
    // What the schemas around this one see is not evaluated here, and what this one sees is to them.
    if (says.unevaluated)
      return this.#branch(outer ?? newSeen(), (seen) => this.#fitsKeywords(schema, says, value, seen));
    return this.#fitsKeywords(schema, says, value, outer);
  }

  #fitsKeywords(schema: JsonSchema, says: Sayings, value: unknown, seen: Seen | undefined): boolean {
    let fits = true;
    const and = (result: boolean): boolean => (fits = result && fits) || this.#silence === 0;
    if (says.references && !and(this.#fitsReferences(schema, value, seen))) return false;
    if (says.type && !and(this.#fitsType(schema, value))) return false;
    if (says.equal && !and(this.#fitsEqual(schema, value))) return false;
    if (says.number && typeof value === 'number' && !and(this.#fitsNumber(schema, value))) return false;
    if (says.string && typeof value === 'string' && !and(this.#fitsString(schema, value))) return false;
    if (says.array && Array.isArray(value) && !and(this.#fitsArray(schema, value, seen))) return false;
    if (says.object && isSchema(value) && !and(this.#fitsObject(schema, value, seen))) return false;
    if (says.branches && !and(this.#fitsBranches(schema, value, seen))) return false;
    if (says.unevaluated && !and(this.#fitsUnevaluated(schema, value, seen!))) return false;
    return fits;
  }

  #fitsReferences(schema: JsonSchema, value: unknown, seen: Seen | undefined): boolean {
    let fits = true;
    for (const keyword of references) {
      if (!Object.hasOwn(schema, keyword)) continue;
      fits = this.#fitsReference(schema, schema[keyword], value, seen, keyword !== '$ref') && fits;
    }
    return fits;
  }

  #fitsReference(
    schema: JsonSchema,
    reference: unknown,
    value: unknown,
    seen: Seen | undefined,
    isDynamic = false,
  ): boolean {
    if (typeof reference !== 'string') return true;
    // Between schemas with addresses of their own these depend on the way that led here, which is not followed.
    if (isDynamic && (this.#hasAddresses ??= hasAddresses(this.#root))) return true;
    this.#read(reference);
    const target = this.#resolve(reference, schema);
    if (target === undefined) return true;
    const values = this.#referred.get(target) ?? [];
    if (values.includes(value)) return true;
    this.#step(1 + values.length);
    this.#referred.set(target, values);
    values.push(value);
    try {
      return this.#fits(target, value, seen);
    } finally {
      values.pop();
    }
  }

  #fitsType({ type, nullable }: JsonSchema, value: unknown): boolean {
    if (type === undefined || (nullable === true && value === null)) return true;
    if (Array.isArray(type)) this.#step(type.length);
    const types = (Array.isArray(type) ? type : [type]).filter(
      (name): name is string => typeof name === 'string' && Object.hasOwn(isOfType, name),
    );
    if (types.length === 0 || types.some((name) => isOfType[name]!(value))) return true;
    return this.#no(() => `must be ${types.join(',')}`);
  }

  #fitsEqual(schema: JsonSchema, value: unknown): boolean {
    const choices = schema['enum'];
    if (Array.isArray(choices) && choices.length > 0 && !choices.some((choice) => this.#equal(choice, value)))
      return this.#no(() => `must be one of ${this.#shown(choices)}`);
    if (Object.hasOwn(schema, 'const') && !this.#equal(schema['const'], value))
      return this.#no(() => `must be ${this.#shown(schema['const'])}`);
    return true;
  }

  #fitsNumber(schema: JsonSchema, value: number): boolean {
    const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema;
    const fits = [
      // Draft-04 has a flag beside the limit.
      limit(
        minimum,
        (least) => (exclusiveMinimum === true ? value > least : value >= least),
        exclusiveMinimum === true ? '>' : '>=',
      ),
      limit(
        maximum,
        (most) => (exclusiveMaximum === true ? value < most : value <= most),
        exclusiveMaximum === true ? '<' : '<=',
      ),
      limit(exclusiveMinimum, (least) => value > least, '>'),
      limit(exclusiveMaximum, (most) => value < most, '<'),
    ].map((problem) => problem === undefined || this.#no(problem));
    if (typeof multipleOf === 'number' && multipleOf > 0 && !isMultiple(value, multipleOf))
      fits.push(this.#no(`must be multiple of ${multipleOf}`));
    return fits.every(Boolean);
  }

  #fitsString({ minLength, maxLength, pattern }: JsonSchema, value: string): boolean {
    let fits = true;
    const isShort = isCount(minLength) && value.length < 2 * minLength && this.#codePoints(value) < minLength;
    if (isShort) fits = this.#no(`must NOT have fewer than ${minLength} characters`);
    if (isCount(maxLength) && value.length > maxLength && this.#codePoints(value) > maxLength)
      fits = this.#no(`must NOT have more than ${maxLength} characters`);
    if (typeof pattern === 'string' && !this.#matches(pattern, value))
      fits = this.#no(`must match pattern "${pattern}"`);
    return fits;
  }

  #fitsArray(schema: JsonSchema, value: readonly unknown[], seen: Seen | undefined): boolean {
    const { minItems, maxItems, uniqueItems, items, prefixItems, additionalItems, contains } = schema;
    let fits = true;
    const and = (result: boolean): boolean => (fits = result && fits) || this.#silence === 0;
    if (isCount(minItems) && value.length < minItems)
      fits = this.#no(`must NOT have fewer than ${minItems} items`);
    if (isCount(maxItems) && value.length > maxItems)
      fits = this.#no(`must NOT have more than ${maxItems} items`);
    if (!fits && this.#silence > 0) return false;
    if (uniqueItems === true && !and(this.#areUnique(value) || this.#no('must NOT have duplicate items')))
      return false;

    // A list under `items` is a tuple in every dialect that has it, and means nothing in 2020-12.
    const tuple =
      this.#dialect.hasPrefixItems && Array.isArray(prefixItems)
        ? prefixItems
        : Array.isArray(items)
          ? items
          : [];
    const rest = Array.isArray(items) ? (tuple === items ? additionalItems : undefined) : items;
    const end = rest === undefined ? Math.min(tuple.length, value.length) : value.length;
    for (let i = 0; i < end; i++) {
      seen?.places.add(i);
      const schemaOf: unknown = i < tuple.length ? tuple[i] : rest;
      if (!and(this.#at(i, () => this.#fits(schemaOf, value[i], undefined)))) return false;
    }
    if (contains !== undefined && !and(this.#fitsContains(schema, value, seen))) return false;
    return fits;
  }

  #fitsContains(
    { contains, minContains, maxContains }: JsonSchema,
    value: readonly unknown[],
    seen: Seen | undefined,
  ): boolean {
    const least = this.#dialect.countsContained && isCount(minContains) ? minContains : 1;
    const most = this.#dialect.countsContained && isCount(maxContains) ? maxContains : Infinity;
    const found = value.flatMap((item, i) =>
      this.#quietly(() => this.#fits(contains, item, undefined)) ? [i] : [],
    );
    if (this.#dialect.hasPrefixItems) for (const i of found) seen?.places.add(i);
    if (found.length >= least && found.length <= most) return true;
    return this.#no(
      `must contain at least ${least} valid item(s)${most === Infinity ? '' : ` and no more than ${most}`}`,
    );
  }

  #fitsObject(schema: JsonSchema, value: Values, seen: Seen | undefined): boolean {
    const { required, minProperties, maxProperties, propertyNames } = schema;
    let fits = true;
    const and = (result: boolean): boolean => (fits = result && fits) || this.#silence === 0;
    const names = Object.keys(value);
    this.#step(names.length);
    if (
      isCount(minProperties) &&
      names.length < minProperties &&
      !and(this.#no(`must NOT have fewer than ${minProperties} properties`))
    )
      return false;
    if (
      isCount(maxProperties) &&
      names.length > maxProperties &&
      !and(this.#no(`must NOT have more than ${maxProperties} properties`))
    )
      return false;
    if (Array.isArray(required) && !and(this.#hasAll(required, value))) return false;

    if (!and(this.#fitsProperties(schema, value, names, seen))) return false;
    if (propertyNames !== undefined) {
      for (const name of names)
        if (
          !and(
            this.#at(
              name,
              () =>
                this.#quietly(() => this.#fits(propertyNames, name, undefined)) ||
                this.#no('is not a name that fits the schema'),
            ),
          )
        )
          return false;
    }
    if (!and(this.#fitsDependencies(schema, value, seen))) return false;
    return fits;
  }

  #fitsProperties(
    schema: JsonSchema,
    value: Values,
    names: readonly string[],
    seen: Seen | undefined,
  ): boolean {
    const { additionalProperties } = schema;
    const properties = objectOf(schema['properties']);
    const patterns = this.#entries(schema['patternProperties']);
    let fits = true;
    const look = (name: string, inner: unknown): boolean => {
      seen?.names.add(name);
      fits = this.#at(name, () => this.#fits(inner, value[name], undefined)) && fits;
      return fits || this.#silence === 0;
    };
    for (const name of names) {
      let isKnown = Object.hasOwn(properties, name);
      if (isKnown && !look(name, properties[name])) return false;
      for (const [pattern, inner] of patterns) {
        if (!this.#matches(pattern, name)) continue;
        isKnown = true;
        if (!look(name, inner)) return false;
      }
      if (isKnown || additionalProperties === undefined) continue;
      if (additionalProperties === false) {
        fits = this.#at(name, () => this.#no('is not an argument of this tool'));
        if (this.#silence > 0) return false;
      } else if (!look(name, additionalProperties)) return false;
    }
    return fits;
  }

  #hasAll(required: readonly unknown[], value: Values): boolean {
    this.#step(required.length);
    let fits = true;
    for (const name of required) {
      if (typeof name !== 'string' || Object.hasOwn(value, name)) continue;
      fits = this.#at(name, () => this.#no('is required'));
      if (this.#silence > 0) return false;
    }
    return fits;
  }

  #fitsDependencies(schema: JsonSchema, value: Values, seen: Seen | undefined): boolean {
    let fits = true;
    for (const keyword of ['dependentRequired', 'dependentSchemas', 'dependencies']) {
      for (const [name, needs] of this.#entries(schema[keyword])) {
        if (!Object.hasOwn(value, name)) continue;
        const result = Array.isArray(needs) ? this.#hasAll(needs, value) : this.#fits(needs, value, seen);
        fits = result && fits;
      }
    }
    return fits;
  }

  #fitsBranches(schema: JsonSchema, value: unknown, seen: Seen | undefined): boolean {
    const { allOf, anyOf, oneOf, not } = schema;
    let fits = true;
    const and = (result: boolean): boolean => (fits = result && fits) || this.#silence === 0;
    for (const branch of listOf(allOf)) if (!and(this.#fits(branch, value, seen))) return false;
    if (listOf(anyOf).length > 0 && !and(this.#fitsSome(listOf(anyOf), value, seen, 'anyOf'))) return false;
    if (listOf(oneOf).length > 0 && !and(this.#fitsSome(listOf(oneOf), value, seen, 'oneOf'))) return false;
    if (
      not !== undefined &&
      this.#quietly(() => this.#fits(not, value, undefined)) &&
      !and(this.#no('must NOT be valid'))
    )
      return false;
    if (schema['if'] !== undefined) {
      const holds = this.#branch(seen, (inner) =>
        this.#quietly(() => this.#fits(schema['if'], value, inner)),
      );
      const then = holds ? schema['then'] : schema['else'];
      if (then !== undefined && !and(this.#fits(then, value, seen))) return false;
    }
    return fits;
  }

  #fitsSome(
    branches: readonly unknown[],
    value: unknown,
    seen: Seen | undefined,
    keyword: 'anyOf' | 'oneOf',
  ): boolean {
    const problems = this.#problems;
    const depth = this.#path.length;
    const found: Problem[] = [];
    let fitting = 0;
    for (const branch of branches) {
      this.#problems = [];
      let fits = false;
      try {
        fits = this.#branch(seen, (inner) => this.#fits(branch, value, inner));
      } catch (error) {
        if (!(error instanceof Enough)) throw error;
        this.#path.length = depth;
      }
      if (fits) fitting++;
      else found.push(...this.#problems);
      this.#problems = problems;
      // What else fits tells what was seen, and that of `oneOf` two do.
      if (fitting > 1 && keyword === 'oneOf') break;
      if (fitting === 1 && keyword === 'anyOf' && seen === undefined) break;
    }
    if (fitting === 1 || (fitting > 1 && keyword === 'anyOf')) return true;
    if (fitting > 1) return this.#no('must match exactly one schema in oneOf');
    if (this.#silence === 0) for (const problem of found) this.#note(problem);
    return this.#no(`must match ${keyword === 'oneOf' ? 'exactly one' : 'a'} schema in ${keyword}`);
  }

  #fitsUnevaluated(
    { unevaluatedItems, unevaluatedProperties }: JsonSchema,
    value: unknown,
    seen: Seen,
  ): boolean {
    let fits = true;
    this.#step(seen.places.size + seen.names.size);
    if (Array.isArray(value) && unevaluatedItems !== undefined && !seen.allPlaces) {
      for (const [i, item] of value.entries())
        if (!seen.places.has(i))
          fits = this.#at(i, () => this.#fits(unevaluatedItems, item, undefined)) && fits;
      seen.allPlaces = true;
    }
    if (isSchema(value) && unevaluatedProperties !== undefined && !seen.allNames) {
      for (const [name, item] of Object.entries(value)) {
        if (seen.names.has(name)) continue;
        fits =
          this.#at(name, () =>
            unevaluatedProperties === false
              ? this.#no('is not an argument of this tool')
              : this.#fits(unevaluatedProperties, item, undefined),
          ) && fits;
      }
      seen.allNames = true;
    }
    return fits;
  }

  /** What a branch sees counts where the branch fits. */
  #branch(seen: Seen | undefined, look: (seen: Seen | undefined) => boolean): boolean {
    if (seen === undefined) return look(undefined);
    const inner = newSeen();
    const fits = look(inner);
    if (fits) {
      this.#step(inner.names.size + inner.places.size);
      for (const name of inner.names) seen.names.add(name);
      for (const place of inner.places) seen.places.add(place);
      seen.allNames ||= inner.allNames;
      seen.allPlaces ||= inner.allPlaces;
    }
    return fits;
  }

  #quietly(look: () => boolean): boolean {
    this.#silence++;
    try {
      return look();
    } finally {
      this.#silence--;
    }
  }

  #at(part: string | number, look: () => boolean): boolean {
    this.#path.push(part);
    const result = look();
    this.#path.pop();
    return result;
  }

  /** Notes what is wrong here. */
  #no(problem: string | (() => string)): false {
    if (this.#silence > 0) return false;
    for (const part of this.#path) if (typeof part === 'string') this.#read(part);
    const text = typeof problem === 'string' ? problem : problem();
    this.#note(`${formatPath(this.#path) || 'arguments'}: ${text}`);
    return false;
  }

  /** A value of the schema in a message, which callers read. */
  #shown(value: unknown): string {
    return cutToCodePoints(this.#read(JSON.stringify(value)), 1_000);
  }

  #note(problem: Problem): void {
    this.#problems.push(problem);
    if (this.#problems.length >= maxProblems) throw new Enough();
  }

  #step(many = 1): void {
    this.#steps -= many;
    if (this.#steps < 0) throw new TooManySteps();
    // A look at the clock costs more than a step.
    if (++this.#asked % stepsBetweenLooks === 0 && performance.now() > this.#deadline)
      throw new TooManySteps();
  }

  /** Characters are steps, too: 64 of them are about one. */
  #read(text: string): string {
    this.#step(text.length / 64);
    return text;
  }

  #entries(value: unknown): readonly (readonly [string, unknown])[] {
    const members = objectOf(value);
    let entries = entriesOf.get(members);
    if (entries === undefined) entriesOf.set(members, (entries = Object.entries(members)));
    this.#step(entries.length);
    return entries;
  }

  #codePoints(text: string): number {
    return codePoints(this.#read(text));
  }

  #matches(source: string, text: string): boolean {
    this.#step();
    this.#read(text);
    const pattern = patternOf(source, () => this.#step(100 + source.length));
    if (pattern === undefined) return true;
    this.#patternCost += text.length * text.length;
    if (!this.#isTimed && (pattern.mayBranch || this.#patternCost > maxPatternCost)) throw new NeedsTime();
    return pattern.expression.test(text);
  }

  #areUnique(items: readonly unknown[]): boolean {
    const seen = new Set<string>();
    for (const item of items) seen.add(this.#canonical(item));
    return seen.size === items.length;
  }

  /** JSON with the keys of objects in order. */
  #canonical(value: unknown): string {
    this.#step();
    if (Array.isArray(value)) return `[${value.map((item) => this.#canonical(item)).join(',')}]`;
    if (typeof value === 'string') this.#read(value);
    if (!isSchema(value)) return JSON.stringify(value);
    const members = Object.keys(value)
      .sort()
      .map((key) => `${JSON.stringify(this.#read(key))}:${this.#canonical(value[key])}`);
    return `{${members.join(',')}}`;
  }

  #equal(one: unknown, other: unknown): boolean {
    this.#step();
    if (typeof one === 'string' && typeof other === 'string' && one.length === other.length) this.#read(one);
    if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null)
      return one === other;
    return this.#canonical(one) === this.#canonical(other);
  }
}

const isOfType: Readonly<Record<string, (value: unknown) => boolean>> = {
  string: (value) => typeof value === 'string',
  number: (value) => typeof value === 'number',
  integer: (value) => Number.isInteger(value),
  boolean: (value) => typeof value === 'boolean',
  null: (value) => value === null,
  array: Array.isArray,
  object: isSchema,
};

function newSeen(): Seen {
  return { names: new Set(), places: new Set(), allNames: false, allPlaces: false };
}

function limit(bound: unknown, fits: (bound: number) => boolean, sign: string): Problem | undefined {
  return typeof bound !== 'number' || fits(bound) ? undefined : `must be ${sign} ${bound}`;
}

/** Between whole numbers exactly; 0.3 counts as a multiple of 0.1, since few decimals are exact. */
function isMultiple(value: number, step: number): boolean {
  if (value % step === 0) return true;
  if (Number.isInteger(value) && Number.isInteger(step)) return false;
  const times = value / step;
  const error = 4 * Number.EPSILON * Math.abs(times);
  return error < 0.25 && Math.abs(times - Math.round(times)) <= error;
}

function hasAddresses(root: JsonSchema): boolean {
  return (JSON.stringify(root).match(/"\$id"/g)?.length ?? 0) > (Object.hasOwn(root, '$id') ? 1 : 0);
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && value >= 0;
}

function codePoints(text: string): number {
  let count = text.length;
  for (let i = 0; i < text.length - 1; i++)
    if ((text.charCodeAt(i) & 0xfc00) === 0xd800 && (text.charCodeAt(i + 1) & 0xfc00) === 0xdc00) count--;
  return count;
}

function objectOf(value: unknown): Values {
  return isSchema(value) ? value : {};
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
