import { types } from 'node:util';
import { maskSecrets } from './mask.js';

const DEEPEST = 6;
const MOST_ENTRIES = 100;

/** Names whose values are never written, compared without case, `_` and `-`. */
const HIDDEN =
  /(authorization|cookies?|passw(or)?d|passphrase|secrets?|tokens?|apikeys?|secretkeys?|privatekeys?|runidkeys?|idempotencykey|credentials?|connectionstring|dsn)$|^(keys?|arguments|parameters|requeststate)$/;

/**
 * A copy of a value that is fit for a log line: values under telling names are replaced, errors are reduced
 * to `type, message, code, stack, cause, errors`, text is masked, and depth and width are bounded. Never throws.
 *
 * A walk instead of pino's `redact`: its paths know neither case nor depth, and an error's own fields
 * (`connectionString`, `parameters`, `detail` of a database driver) are an open set.
 */
export function loggable(value: unknown, depth = 0): unknown {
  try {
    return copy(value, depth);
  } catch {
    return '[unreadable]';
  }
}

function copy(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return maskSecrets(value);
  if (typeof value === 'bigint') return value.toString();
  if (typeof value === 'function' || typeof value === 'symbol') return `[${typeof value}]`;
  if (typeof value !== 'object' || value === null) return value;
  if (depth > DEEPEST) return '[deep]';
  if (isError(value)) return copyError(value, depth);
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if ('toJSON' in value && typeof value.toJSON === 'function') return copy(value.toJSON(), depth + 1);
  if (Array.isArray(value) || value instanceof Set) {
    return [...value].slice(0, MOST_ENTRIES).map((each) => loggable(each, depth + 1));
  }
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  const copied = entries
    .slice(0, MOST_ENTRIES)
    .map(([name, each]) => [
      String(name),
      isHidden(String(name), each) ? '[hidden]' : loggable(each, depth + 1),
    ]);
  return Object.fromEntries(copied);
}

/** Whether there is a credential is worth knowing, so true, false and nothing stay. */
function isHidden(name: string, value: unknown): boolean {
  return value != null && typeof value !== 'boolean' && HIDDEN.test(name.toLowerCase().replace(/[_-]/g, ''));
}

function copyError(error: Error, depth: number): unknown {
  const { name, message, stack, cause } = error;
  const code = 'code' in error ? error.code : undefined;
  const errors = 'errors' in error && Array.isArray(error.errors) ? error.errors.slice(0, 5) : [];
  return {
    type: maskSecrets(String(name)),
    message: maskSecrets(String(message)),
    ...(typeof code === 'string' || typeof code === 'number' ? { code: loggable(code) } : {}),
    ...(typeof stack === 'string' ? { stack: maskSecrets(stack) } : {}),
    ...(cause === undefined ? {} : { cause: loggable(cause, depth + 1) }),
    // A refused connection to a name with two addresses is an AggregateError without a message.
    ...(errors.length === 0 ? {} : { errors: errors.map((each) => loggable(each, depth + 1)) }),
  };
}

export function isError(value: object): value is Error {
  return types.isNativeError(value) || value instanceof Error;
}
