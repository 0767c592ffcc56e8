import { codes } from '@holdfast/protocol';
import { isInexactNumber, parseJson, writeJson, type Progress } from '@holdfast/run';
import type { OutgoingCall } from './connection.js';
import { isObject } from './is-object.js';

/** An id as the other end wrote it; a number that a double cannot hold keeps its digits. */
type PeerId = string | number | { readonly rawJSON: string };

/** What the other end answered to a request of ours. */
export type RpcAnswer =
  | { readonly kind: 'result'; readonly result: unknown }
  | ({ readonly kind: 'error' } & RpcError)
  | BrokenAnswer;

/** An error as the other end gave it, its message cut. */
export interface RpcError {
  readonly code: number;
  readonly message: string;
  /** As it came. */
  readonly data?: unknown;
}

/** An answer that came, or was to come, and tells nothing. */
export interface BrokenAnswer {
  readonly kind: 'broken';
  readonly reason: string;
}

/** One message of an upstream, told apart. */
export type RpcMessage =
  | { readonly kind: 'answer'; readonly id: PeerId; readonly answer: RpcAnswer }
  | { readonly kind: 'request'; readonly id: PeerId; readonly method: string }
  | { readonly kind: 'notification'; readonly method: string; readonly params: RpcParams }
  /** Whatever else was said: a banner, a log line, JSON of another kind. Nobody waits for it. */
  | { readonly kind: 'noise' };

type RpcParams = Readonly<Record<string, unknown>>;

/** Code points of an upstream's error message that are kept: callers are shown it. */
const maxErrorMessage = 2_000;

/**
 * Reads one JSON text of an upstream; a batch (2025-03-26) gives its messages one by one.
 * @throws SyntaxError when it is no JSON
 */
export function readMessages(text: string): readonly RpcMessage[] {
  const body = parseJson(text);
  return Array.isArray(body) ? body.map(readMessage) : [readMessage(body)];
}

function readMessage(body: unknown): RpcMessage {
  if (!isObject(body) || body['jsonrpc'] !== '2.0') return { kind: 'noise' };
  const { id, method, params, result, error } = body;
  if (typeof method === 'string') {
    if (isPeerId(id)) return { kind: 'request', id, method };
    return { kind: 'notification', method, params: isObject(params) ? params : {} };
  }
  if (!isPeerId(id) || method !== undefined) return { kind: 'noise' };
  return { kind: 'answer', id, answer: readAnswer(result, error) };
}

/** Some servers write null for the one of the two that is not there. */
function readAnswer(result: unknown, error: unknown): RpcAnswer {
  if (result !== undefined && error == null) return { kind: 'result', result };
  if (result == null && isObject(error)) return { kind: 'error', ...errorOf(error) };
  return { kind: 'broken', reason: 'its answer has no result and no error' };
}

/** The error in a JSON text, whatever its id: a server that refuses a request may not have read that. */
export function readError(text: string): RpcError | undefined {
  let body: unknown;
  try {
    body = parseJson(text);
  } catch {
    return undefined;
  }
  return isObject(body) && isObject(body['error']) ? errorOf(body['error']) : undefined;
}

function errorOf({ code, message, data }: RpcParams): RpcError {
  const text = typeof message === 'string' ? message : '';
  return {
    code: typeof code === 'number' && Number.isInteger(code) ? code : codes.internalError,
    message: [...text.slice(0, 2 * maxErrorMessage)].slice(0, maxErrorMessage).join(''),
    ...(data !== undefined && data !== null && { data }),
  };
}

/** One of our request ids, which count from 1, out of what an upstream echoes: some write it as a string (F144). */
export function ourId(id: unknown): number | undefined {
  if (typeof id === 'number') return id;
  return typeof id === 'string' && /^[1-9]\d{0,14}$/.test(id) ? Number(id) : undefined;
}

const maxProgressMessage = 1_000;

/** What a `notifications/progress` tells, and of which request; undefined when it tells nothing of one of ours. */
export function readProgress({
  progressToken,
  progress,
  total,
  message,
}: RpcParams): { readonly id: number; readonly progress: Progress } | undefined {
  const id = ourId(progressToken);
  const value = numberOf(progress);
  if (id === undefined || value === undefined) return undefined;
  const outOf = numberOf(total);
  return {
    id,
    progress: {
      value,
      ...(outOf !== undefined && { total: outOf }),
      ...(typeof message === 'string' && { message: message.slice(0, maxProgressMessage) }),
    },
  };
}

/** A double will do where a number is only shown. */
function numberOf(value: unknown): number | undefined {
  const number = isInexactNumber(value) ? Number(value.rawJSON) : value;
  return typeof number === 'number' && Number.isFinite(number) ? number : undefined;
}

/** A request, or without an id a notification. */
export function writeMessage(method: string, params: RpcParams | undefined, id?: number): string {
  return text({ jsonrpc: '2.0', ...(id !== undefined && { id }), method, params });
}

/**
 * A `tools/call`, with its id as its progress token. The arguments go in as the text they were given, so that
 * no number loses a digit; line breaks between their tokens become spaces, since stdio ends a message with one.
 *
 * @param envelope  what the era wants in `_meta`, over whatever the call has there
 */
export function writeCall(
  id: number,
  { tool, arguments: args, meta }: OutgoingCall,
  envelope: RpcParams,
): string {
  const oneLine = args.replace(/[\r\n]/g, ' ');
  const all = text({ ...meta, progressToken: id, ...envelope });
  return `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":${text(tool)},"arguments":${oneLine},"_meta":${all}}}`;
}

/** The answer to a request of an upstream: we offer nothing but `ping` (BEHAVIOURS 90). */
export function writeReply({ id, method }: { readonly id: PeerId; readonly method: string }): string {
  return method === 'ping'
    ? text({ jsonrpc: '2.0', id, result: {} })
    : text({
        jsonrpc: '2.0',
        id,
        error: { code: codes.methodNotFound, message: 'this client offers no such method' },
      });
}

function isPeerId(id: unknown): id is PeerId {
  return typeof id === 'string' || typeof id === 'number' || isInexactNumber(id);
}

function text(value: unknown): string {
  return writeJson(value) ?? 'null';
}
