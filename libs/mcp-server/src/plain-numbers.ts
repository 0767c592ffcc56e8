import { randomUUID } from 'node:crypto';
import { isInexactNumber } from '@holdfast/run';

/**
 * The SDK takes an id or a progress token only as a string or an integer that a double holds
 * safely. JSON-RPC knows more numbers, and hosts get theirs back as they sent them: on the way
 * into the SDK such a number is a string with this mark, and on the way out a number again.
 */
const mark = randomUUID();
const marked = new RegExp(`"${mark}([^"]+)"`, 'g');

interface Envelope {
  readonly id?: unknown;
  readonly params?: {
    readonly requestId?: unknown;
    readonly _meta?: { readonly progressToken?: unknown };
  };
}

/** The message with every number of its envelope as the SDK takes it; the very same one when nothing is to do. */
export function withPlainNumbers<T>(message: T): T {
  const { id, params } = (message ?? {}) as Envelope;
  const { requestId, _meta: meta } = params ?? {};
  const isPlain = [id, requestId, meta?.progressToken].every((value) => plain(value) === value);
  if (isPlain) return message;
  return {
    ...message,
    ...(id !== undefined && { id: plain(id) }),
    params: {
      ...params,
      ...(requestId !== undefined && { requestId: plain(requestId) }),
      ...(meta !== undefined && { _meta: { ...meta, progressToken: plain(meta.progressToken) } }),
    },
  };
}

/** JSON text of messages with those numbers as the host sent them. */
export function restoreNumbers(text: string): string {
  return text.replace(marked, '$1');
}

function plain(value: unknown): unknown {
  if (isInexactNumber(value)) return mark + value.rawJSON;
  return typeof value === 'number' && !Number.isSafeInteger(value) ? mark + JSON.stringify(value) : value;
}
