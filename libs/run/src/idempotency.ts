import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import { asDouble, formatPath, isInexactNumber } from './json.js';
import type { CallError } from './errors.js';

/** Longest token, in Unicode code points (256 emoji are 256, BEHAVIOURS R4). */
const maxTokenLength = 256;

/** The token of a call: absent, usable, or an error that creates no run. */
export type Token = { readonly kind: 'none' } | { readonly kind: 'token'; readonly token: string } | Refused;

interface Refused {
  readonly kind: 'refused';
  readonly error: CallError;
}

/**
 * Reads `params._meta.idempotency_key` (BEHAVIOURS 36, 37). Undefined means that the key is
 * absent; a present null is an error. The token is neither trimmed nor normalized.
 */
export function readToken(value: unknown): Token {
  if (value === undefined) return { kind: 'none' };
  const problem = tokenProblem(value);
  if (problem === undefined) return { kind: 'token', token: value as string };
  return {
    kind: 'refused',
    error: {
      name: 'InvalidIdempotencyToken',
      message: `_meta.idempotency_key ${problem}; send a string of 1 to ${maxTokenLength} characters, or leave it out`,
      outcome: 'not_sent',
      retryable: false,
    },
  };
}

function tokenProblem(value: unknown): string | undefined {
  if (typeof value !== 'string')
    return `is ${value === null ? 'null' : Array.isArray(value) ? 'an array' : `of type ${typeof value}`}`;
  if (value === '') return 'is empty';
  if (!value.isWellFormed()) return 'holds a lone surrogate';
  // A code point takes at most two UTF-16 units, so a huge string need not be walked.
  const length = value.length > 2 * maxTokenLength ? value.length : [...value].length;
  return length > maxTokenLength ? `is longer than ${maxTokenLength} characters` : undefined;
}

/** The arguments of a call as they were sent. */
export interface Arguments {
  readonly kind: 'arguments';
  /** Numbers as doubles hold them. */
  readonly value: Readonly<Record<string, unknown>>;
  /** For the store and for upstreams: each number keeps its original digits. */
  readonly json: string;
  /** The message about the first fraction that a double only approximates; undefined without one. */
  readonly rounded: string | undefined;
  /** `a1_` + SHA-256 of the canonical form (RFC 8785). Two calls are the same if it is equal. */
  readonly digest: string;
}

/**
 * Reads the arguments of a call, before defaults, coercion or stripping (BEHAVIOURS R6).
 * Rejects values that could not be distinguished or stored: an integer that a double cannot hold, a
 * number out of range, a lone surrogate. `given` must come from `parseJson`.
 */
export function readArguments(given: unknown): Arguments | Refused {
  const args = given ?? {};
  if (typeof args !== 'object' || Array.isArray(args) || isInexactNumber(args))
    return invalidArguments('arguments: must be an object');
  const found: Found = { isInexact: false, rounded: undefined };
  const problem = problemOf(args, [], found);
  if (problem !== undefined) return invalidArguments(problem);
  const json = JSON.stringify(args);
  const value = (found.isInexact ? JSON.parse(json) : args) as Record<string, unknown>;
  const digest = createHash('sha256').update(canonicalize(value)!).digest('hex');
  return { kind: 'arguments', value, json, rounded: found.rounded, digest: `a1_${digest}` };
}

/** The tool error for arguments that violate the schema of a tool. `problems` name the path of each field. */
export function invalidArguments(...problems: string[]): Refused {
  return {
    kind: 'refused',
    error: {
      name: 'InvalidArguments',
      message: problems.join('; '),
      outcome: 'not_sent',
      retryable: false,
    },
  };
}

/** Deeper arguments are rejected: walking them would exhaust the stack. */
const maxDepth = 200;

interface Found {
  isInexact: boolean;
  rounded: string | undefined;
}

/**
 * The first value that cannot be distinguished or stored, with its path; undefined if there is none.
 *
 * @param path position of `value`; one array for the whole walk, because a copy for each of millions of leaves would take seconds
 * @param found collects the facts of `Arguments` about numbers
 */
function problemOf(value: unknown, path: (string | number)[], found: Found): string | undefined {
  if (typeof value === 'string') {
    return value.isWellFormed()
      ? undefined
      : `${formatPath(path)}: holds a lone surrogate, which is not valid Unicode text`;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  if (isInexactNumber(value)) {
    const inexact = `${formatPath(path)}: the number ${shorten(value.rawJSON)} cannot be held exactly; send it as a string`;
    found.isInexact = true;
    const double = asDouble(value);
    if (double === 'other') return inexact;
    if (double === 'near') found.rounded ??= inexact;
    return undefined;
  }
  if (path.length > maxDepth)
    return `${formatPath(path.slice(0, 3))}…: nested deeper than ${maxDepth} levels`;
  for (const key of Array.isArray(value) ? value.keys() : Object.keys(value)) {
    if (typeof key === 'string' && !key.isWellFormed())
      return `${formatPath(path) || 'arguments'}: a key holds a lone surrogate`;
    const member = (value as Record<string | number, unknown>)[key];
    if (typeof member === 'string' || (typeof member === 'object' && member !== null)) {
      path.push(key);
      const problem = problemOf(member, path, found);
      if (problem !== undefined) return problem;
      path.pop();
    }
  }
  return undefined;
}

function shorten(literal: string): string {
  return literal.length > 40 ? `${literal.slice(0, 40)}…` : literal;
}
