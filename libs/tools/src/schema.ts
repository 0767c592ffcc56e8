import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { formatPath } from '@holdfast/run';

/** A JSON Schema object, 2020-12 unless its `$schema` names draft-06 or draft-07. */
export type JsonSchema = { readonly [keyword: string]: unknown };

/** What is wrong with one field, its path first: `order_id: is required`. */
export type Problem = string;

/** Checks a value against one schema; an empty list means that it fits. */
export type SchemaCheck = (value: unknown) => Problem[];

/** At most this many problems are told at once. */
const maxProblems = 10;

const options: Options = { strict: false, validateFormats: false, logger: false };

type Dialect = typeof Ajv | typeof Ajv2020;

/**
 * Compiles a schema. The check stops at the first problem of a large value, so that a
 * hostile one cannot make it collect millions.
 *
 * @throws Error when the schema itself is invalid or refers to something outside itself
 */
export function compileSchema({ $schema, ...schema }: JsonSchema): SchemaCheck {
  // The dialect is told by the class: one that Ajv has not heard of is read as its nearest relative.
  const dialect = typeof $schema === 'string' && /draft-0[67]/.test($schema) ? Ajv : Ajv2020;
  let variant: Variant = 'first problem';
  let first: ValidateFunction;
  try {
    first = compile(dialect, variant, schema);
  } catch {
    // JSON Schema patterns are Unicode ones; JavaScript's own, which Zod writes, need not be.
    variant = 'first problem, patterns of JavaScript';
    first = compile(dialect, variant, schema);
  }
  let all: ValidateFunction | undefined;
  return (value) => {
    if (first(value)) return [];
    if (isLarge(value)) return tell(first.errors);
    all ??= compile(dialect, variant === 'first problem' ? 'all' : 'all, patterns of JavaScript', schema);
    all(value);
    return tell(all.errors ?? first.errors);
  };
}

const variants = {
  'first problem': options,
  'first problem, patterns of JavaScript': { ...options, unicodeRegExp: false },
  all: { ...options, allErrors: true },
  'all, patterns of JavaScript': { ...options, allErrors: true, unicodeRegExp: false },
} satisfies Record<string, Options>;
type Variant = keyof typeof variants;

const compilers = new Map<Dialect, Map<Variant, Ajv>>([
  [Ajv, new Map()],
  [Ajv2020, new Map()],
]);

function compile(dialect: Dialect, variant: Variant, schema: JsonSchema): ValidateFunction {
  // One with an id would be known to those that come after it, and could pass itself off as another.
  if (JSON.stringify(schema).includes('"$id"')) return new dialect(variants[variant]).compile(schema);
  const made = compilers.get(dialect)!;
  // 0.7 ms a schema with a compiler that is there already, 9 ms with one of its own: a listing has hundreds.
  const compiler = made.get(variant) ?? new dialect(variants[variant]);
  made.set(variant, compiler);
  try {
    return compiler.compile(schema);
  } finally {
    compiler.removeSchema(schema);
  }
}

function isLarge(value: unknown): boolean {
  return JSON.stringify(value).length > 16_384;
}

function tell(errors: ErrorObject[] | null | undefined): Problem[] {
  const problems = new Set((errors ?? []).map(describe));
  return [...problems].slice(0, maxProblems);
}

function describe({ instancePath, keyword, params, message }: ErrorObject): Problem {
  const path = instancePath
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .map((part) => (/^\d+$/.test(part) ? Number(part) : part));
  const at = (...more: string[]) => formatPath([...path, ...more]) || 'arguments';
  switch (keyword) {
    case 'required':
      return `${at(params['missingProperty'])}: is required`;
    case 'additionalProperties':
      return `${at(params['additionalProperty'])}: is not an argument of this tool`;
    case 'unevaluatedProperties':
      return `${at(params['unevaluatedProperty'])}: is not an argument of this tool`;
    case 'enum':
      return `${at()}: must be one of ${JSON.stringify(params['allowedValues'])}`;
    case 'const':
      return `${at()}: must be ${JSON.stringify(params['allowedValue'])}`;
    default:
      return `${at()}: ${message ?? 'does not fit the schema'}`;
  }
}
