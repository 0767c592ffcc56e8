import { TextDecoder } from 'node:util';
import { parseJson } from '@holdfast/run';

/** One message of an upstream over stdio, told apart. Ids are as they came. */
export type Incoming =
  | { readonly kind: 'result'; readonly id: unknown; readonly result: unknown }
  | { readonly kind: 'error'; readonly id: unknown; readonly code: number; readonly message: string }
  /** An answer that can be told by its id and not be read. */
  | { readonly kind: 'unreadable'; readonly id: unknown; readonly problem: string }
  | { readonly kind: 'request'; readonly id: unknown; readonly method: string }
  | {
      readonly kind: 'notification';
      readonly method: string;
      readonly params: Readonly<Record<string, unknown>>;
    }
  /** No message of the protocol: a banner, a log line, JSON of another kind. */
  | { readonly kind: 'noise' };

const noise: Incoming = { kind: 'noise' };
const strict = new TextDecoder('utf-8', { fatal: true });
const loose = new TextDecoder('utf-8');
/** An error's message is shown to callers; longer ones are cut. */
const maxMessage = 2000;

/**
 * Reads one line: a message, or several in a batch (2025-03-26). Numbers keep their digits. Of a line
 * that is not valid UTF-8 only answers count, as unreadable, so that no text is changed silently (F49).
 */
export function readLine(line: Buffer): readonly Incoming[] {
  const text = decode(strict, line);
  // Told before parsing, so that an empty line costs nothing.
  if (text?.trim() === '') return [];
  const value = parse(text ?? decode(loose, line)!);
  const messages = (Array.isArray(value) ? value : [value]).map(readMessage);
  if (text !== undefined) return messages;
  return messages.map((message) => asUnreadable(message, 'its answer is not valid UTF-8'));
}

/** What is known of a line that is too long to be kept: whose answer it was, where one of its ends tells. */
export function readTooLong(head: Buffer, tail: Buffer, maxBytes: number): Incoming {
  // The first member, or the last one of the outermost object: never one inside the result.
  const id =
    /^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*("?)(\d{1,15})\1\s*,/.exec(
      head.toString('latin1'),
    ) ?? /,\s*"id"\s*:\s*("?)(\d{1,15})\1\s*\}\s*$/.exec(tail.toString('latin1'));
  if (id === null) return noise;
  return { kind: 'unreadable', id: Number(id[2]), problem: `its answer is longer than ${maxBytes} bytes` };
}

/** One of our request ids, which count from 1, out of what an upstream echoes: some write it as a string (F144). */
export function ourId(id: unknown): number | undefined {
  if (typeof id === 'number') return id;
  return typeof id === 'string' && /^\d{1,15}$/.test(id) ? Number(id) : undefined;
}

function readMessage(value: unknown): Incoming {
  if (!isObject(value) || value['jsonrpc'] !== '2.0') return noise;
  const { id, method, params, result, error } = value;
  if (typeof method === 'string') {
    if (id !== undefined) return { kind: 'request', id, method };
    return { kind: 'notification', method, params: isObject(params) ? params : {} };
  }
  if (id === undefined || id === null || method !== undefined) return noise;
  if (result !== undefined && error === undefined) return { kind: 'result', id, result };
  if (result === undefined && isObject(error)) {
    const { code, message } = error;
    return {
      kind: 'error',
      id,
      code: typeof code === 'number' ? code : internalError,
      message: typeof message === 'string' ? message.slice(0, maxMessage) : '',
    };
  }
  return { kind: 'unreadable', id, problem: 'its answer has no result and no error' };
}

/** JSON-RPC's own, for an error without a usable code. */
const internalError = -32603;

function asUnreadable(message: Incoming, problem: string): Incoming {
  const isAnswer = message.kind === 'result' || message.kind === 'error' || message.kind === 'unreadable';
  return isAnswer ? { kind: 'unreadable', id: message.id, problem } : noise;
}

function decode(decoder: TextDecoder, bytes: Buffer): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

function parse(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
