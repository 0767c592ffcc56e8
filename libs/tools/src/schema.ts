import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { formatPath } from '@holdfast/run';

/** A JSON Schema object, 2020-12 unless its `$schema` names draft-07. */
export type JsonSchema = { readonly [keyword: string]: unknown };

/** What is wrong with one field, its path first: `order_id: is required`. */
export type Problem = string;

/** Checks a value against one schema; an empty list means that it fits. */
export type SchemaCheck = (value: unknown) => Problem[];

/** At most this many problems are told at once. */
const maxProblems = 10;

const options: Options = { strict: false, validateFormats: false, addUsedSchema: false, logger: false };

/**
 * Compiles a schema. The check stops at the first problem of a large value, so that a
 * hostile one cannot make it collect millions.
 *
 * @throws Error when the schema itself is invalid or refers to something outside itself
 */
export function compileSchema(schema: JsonSchema): SchemaCheck {
  const Dialect =
    typeof schema['$schema'] === 'string' && schema['$schema'].includes('draft-07') ? Ajv : Ajv2020;
  let dialect = options;
  let first: ValidateFunction;
  try {
    first = new Dialect(dialect).compile(schema);
  } catch {
    // JSON Schema patterns are Unicode ones; JavaScript's own, which Zod writes, need not be.
    dialect = { ...options, unicodeRegExp: false };
    first = new Dialect(dialect).compile(schema);
  }
  let all: ValidateFunction | undefined;
  return (value) => {
    if (first(value)) return [];
    if (isLarge(value)) return tell(first.errors);
    all ??= new Dialect({ ...dialect, allErrors: true }).compile(schema);
    all(value);
    return tell(all.errors ?? first.errors);
  };
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
