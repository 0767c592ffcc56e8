import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import { z } from 'zod';
import { formatPath, RunError, type OnCrash, type ToolClass } from '@holdfast/run';
import { isReservedName } from './naming.js';
import { withoutFlaws } from './schema-flaws.js';
import { compileSchema, type JsonSchema, type Problem } from './schema.js';
import type { ToolContext } from './context.js';
import { OutOfTime, withinTime } from './within-time.js';

/** The part of the Standard Schema interface that we use (standardschema.dev). */
export interface StandardSchema<Output = unknown> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    validate(value: unknown): StandardResult<Output> | Promise<StandardResult<Output>>;
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
    /** The Standard JSON Schema extension; a schema without it cannot be listed to hosts. */
    readonly jsonSchema?: { input(options: { target: string }): Record<string, unknown> };
  };
}

type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | {
      readonly issues: readonly {
        readonly message: string;
        readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
      }[];
    };

type ZodShape = { readonly [name: string]: z.ZodType };

/** A Zod shape, any Standard Schema that also gives its JSON Schema, or a JSON Schema. */
export type ToolInput = ZodShape | StandardSchema | JsonSchema;

/** What the body receives for an input. */
export type Arguments<Input extends ToolInput> =
  Input extends StandardSchema<infer Output>
    ? Output
    : Input extends ZodShape
      ? z.output<z.ZodObject<Input>>
      : Record<string, unknown>;

export interface ToolSpec<Input extends ToolInput> {
  /** Matches `^[a-zA-Z0-9_-]{1,64}$`; not `mcp__…` or `holdfast__…`. */
  readonly name: string;
  readonly title?: string;
  /** What a model reads to decide whether to call it. */
  readonly description: string;
  readonly input: Input;
  /** Repeating it does no harm. Default false: it writes. */
  readonly readOnly?: boolean;
  /** How long one attempt may take, in milliseconds. Default 30,000. */
  readonly timeoutMs?: number;
  /** true, or a claim about the arguments. Nobody can be asked on this path: see docs/writing-tools.md. */
  readonly requiresApproval?: boolean | ((args: Arguments<Input>) => boolean);
  /** What happens to a call whose worker died in the body: run it again (default), or end as `OutcomeUnknown`. */
  readonly onCrash?: OnCrash;
  /**
   * Calls without a token that repeat within this many milliseconds, or while the first still
   * runs, attach to the first. 0 turns the deployment's window off for this tool; unset takes it.
   */
  readonly dedupeWindowMs?: number;
  run(args: Arguments<Input>, ctx: ToolContext): unknown;
}

/** What hosts and the store know of a tool: plain JSON. */
export interface ToolDefinition {
  readonly name: string;
  readonly title?: string;
  readonly description: string;
  readonly inputSchema: JsonSchema;
  readonly toolClass: ToolClass;
  readonly dedupeWindowMs?: number;
  /** Digest of all of the above; a run records the one that it was submitted against. */
  readonly digest: string;
}

/** A tool as a worker holds it. Made by `defineTool` only. */
export interface Tool {
  readonly [brand]: true;
  readonly definition: ToolDefinition;
  readonly timeoutMs: number;
  readonly onCrash: OnCrash;
  readonly approval: 'never' | 'always' | 'depends';
  /** Checks arguments by the tool's own schema; the body gets `value`, with defaults and coercions. */
  parse(args: unknown): Promise<{ readonly value: unknown } | { readonly problems: Problem[] }>;
  needsApproval(parsed: unknown): boolean;
  run(parsed: unknown, ctx: ToolContext): unknown;
}

// Registered for the whole process: a tool made by another copy of this package is a tool too.
const brand: unique symbol = Symbol.for('holdfast.tool') as never;

/**
 * Declares a tool.
 *
 * @throws RunError `tool-registration` naming the tool and the field that is wrong
 */
export function defineTool<const Input extends ToolInput>(spec: ToolSpec<Input>): Tool {
  const wrong = (problem: string): RunError =>
    new RunError('tool-registration', `tool ${JSON.stringify(spec.name) ?? 'without a name'}: ${problem}`);
  if (typeof spec.name !== 'string' || !/^[a-zA-Z0-9_-]{1,64}$/.test(spec.name)) {
    throw wrong('name must be 1 to 64 of a-z, A-Z, 0-9, _ and -');
  }
  if (isReservedName(spec.name)) throw wrong('names that begin with mcp__ or holdfast__ are reserved');
  if (typeof spec.description !== 'string' || spec.description.trim() === '')
    throw wrong('description is missing');
  if (typeof spec.run !== 'function') throw wrong('run must be a function');
  const timeoutMs = spec.timeoutMs ?? 30_000;
  if (!isMilliseconds(timeoutMs, 1))
    throw wrong('timeoutMs must be a whole number of milliseconds, 1 to 2147483647');
  if (spec.dedupeWindowMs !== undefined && !isMilliseconds(spec.dedupeWindowMs, 0)) {
    throw wrong('dedupeWindowMs must be a whole number of milliseconds, 0 to 2147483647');
  }
  const onCrash = spec.onCrash ?? 'rerun';
  if (onCrash !== 'rerun' && onCrash !== 'unknown') throw wrong("onCrash must be 'rerun' or 'unknown'");

  const input = readInput(spec.input, wrong);
  const listed = {
    name: spec.name,
    ...(spec.title !== undefined && { title: spec.title }),
    description: spec.description,
    inputSchema: input.schema,
    toolClass: spec.readOnly === true ? ('read' as const) : ('write' as const),
    ...(spec.dedupeWindowMs !== undefined && { dedupeWindowMs: spec.dedupeWindowMs }),
  };
  const { requiresApproval } = spec;
  return {
    [brand]: true,
    definition: {
      ...listed,
      digest: `d1_${createHash('sha256').update(canonicalize(listed)!).digest('hex')}`,
    },
    timeoutMs,
    onCrash,
    approval:
      requiresApproval === true ? 'always' : typeof requiresApproval === 'function' ? 'depends' : 'never',
    parse: input.parse,
    needsApproval: (parsed) =>
      typeof requiresApproval === 'function'
        ? requiresApproval(parsed as Arguments<Input>)
        : requiresApproval === true,
    run: (parsed, ctx) => spec.run(parsed as Arguments<Input>, ctx),
  };
}

export function isTool(value: unknown): value is Tool {
  return typeof value === 'object' && value !== null && (value as Partial<Tool>)[brand] === true;
}

/** Timers hold 31 bits of milliseconds. */
function isMilliseconds(value: number, least: number): boolean {
  return Number.isInteger(value) && value >= least && value <= 2_147_483_647;
}

/** One pattern (`(a+)+$`) could hold up every run of this worker. */
const maxParseMs = 200;

interface Input {
  readonly schema: JsonSchema;
  readonly parse: Tool['parse'];
}

function readInput(input: unknown, wrong: (problem: string) => RunError): Input {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) {
    throw wrong('input must be a Zod shape, a Standard Schema or a JSON Schema');
  }
  if ('~standard' in input) return fromStandardSchema(input as StandardSchema, wrong);
  const members = Object.values(input);
  // A shape is strict: a misspelt argument is an error, not a call with defaults.
  if (members.every(isZodType)) return fromStandardSchema(z.strictObject(input as ZodShape), wrong);
  if (members.some(isZodType))
    throw wrong('input mixes Zod types with other values; a Zod shape holds Zod types only');
  return fromJsonSchema(input as JsonSchema, wrong);
}

/** Any copy of zod will do, so its types are told by their shape. */
function isZodType(value: unknown): boolean {
  return typeof value === 'object' && value !== null && '~standard' in value;
}

function fromStandardSchema(schema: StandardSchema, wrong: (problem: string) => RunError): Input {
  const standard = schema['~standard'];
  if (standard.jsonSchema === undefined) {
    throw wrong(
      `input is a ${standard.vendor} schema that gives no JSON Schema, so it cannot be listed; give a JSON Schema instead`,
    );
  }
  let listed: JsonSchema;
  try {
    listed = standard.jsonSchema.input({ target: 'draft-2020-12' });
  } catch (cause) {
    throw wrong(`input cannot be written as JSON Schema: ${(cause as Error).message}`);
  }
  checkIsObject(listed, wrong);
  checkHasNoFlaws(listed, wrong);
  const validate = JSON.stringify(listed).includes('"pattern')
    ? (args: unknown) => withinTime(maxParseMs, () => standard.validate(args))
    : standard.validate;
  return {
    schema: listed,
    parse: async (args) => {
      let result: StandardResult<unknown>;
      try {
        result = await validate(args);
      } catch (error) {
        if (!(error instanceof OutOfTime)) throw error;
        return {
          problems: [`arguments: could not be checked by the schema of the tool within ${maxParseMs} ms`],
        };
      }
      if (result.issues === undefined) return { value: result.value };
      return {
        problems: result.issues.map(({ path, message }) => {
          const keys = (path ?? []).map((part) => (typeof part === 'object' ? part.key : part));
          return `${formatPath(keys.map((key) => (typeof key === 'number' ? key : String(key)))) || 'arguments'}: ${message}`;
        }),
      };
    },
  };
}

function fromJsonSchema(schema: JsonSchema, wrong: (problem: string) => RunError): Input {
  checkIsObject(schema, wrong);
  checkHasNoFlaws(schema, wrong);
  const check = compileSchema(schema);
  return {
    schema,
    parse: async (args) => {
      const problems = check(args);
      return problems.length === 0 ? { value: args } : { problems };
    },
  };
}

/** A keyword of an upstream's schema that cannot be read is passed over; in one of ours it is a mistake. */
function checkHasNoFlaws(schema: JsonSchema, wrong: (problem: string) => RunError): void {
  const { flaws } = withoutFlaws(schema);
  if (flaws.length > 0) throw wrong(`input is not a valid JSON Schema: ${flaws.join('; ')}`);
}

/** Hosts accept only a schema whose top says that it is an object. */
function checkIsObject(schema: JsonSchema, wrong: (problem: string) => RunError): void {
  if (schema['type'] !== 'object') throw wrong('input must describe an object (type: "object" at its top)');
}
