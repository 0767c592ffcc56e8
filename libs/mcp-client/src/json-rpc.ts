import { isInexactNumber, parseJson, writeJson } from '@holdfast/run';
import type { OutgoingCall } from './connection.js';

/** An id as the other end wrote it; a number that a double cannot hold keeps its digits. */
export type PeerId = string | number | { readonly rawJSON: string };

/** What the other end answered to a request of ours. */
export type RpcAnswer =
  | { readonly kind: 'result'; readonly result: Readonly<Record<string, unknown>> }
  | { readonly kind: 'error'; readonly code: number; readonly message: string };

/** One message of an upstream, told apart. */
export type RpcMessage =
  | { readonly kind: 'answer'; readonly id: PeerId; readonly answer: RpcAnswer }
  | { readonly kind: 'request'; readonly id: PeerId; readonly method: string }
  | { readonly kind: 'notification'; readonly method: string; readonly params: RpcParams }
  /** Whatever else was said. Nobody waits for it. */
  | { readonly kind: 'noise' };

export type RpcParams = Readonly<Record<string, unknown>>;

/** Code points of an upstream's error message that are kept. */
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
  if (!isPeerId(id)) return { kind: 'noise' };
  if (error !== undefined) {
    const read = errorOf(error);
    return read === undefined
      ? { kind: 'noise' }
      : { kind: 'answer', id, answer: { kind: 'error', ...read } };
  }
  return isObject(result) ? { kind: 'answer', id, answer: { kind: 'result', result } } : { kind: 'noise' };
}

/** The error in a JSON text, whatever its id: a server that refuses a request may not have read that. */
export function readError(text: string): { readonly code: number; readonly message: string } | undefined {
  let body: unknown;
  try {
    body = parseJson(text);
  } catch {
    return undefined;
  }
  return isObject(body) ? errorOf(body['error']) : undefined;
}

function errorOf(error: unknown): { readonly code: number; readonly message: string } | undefined {
  if (!isObject(error)) return undefined;
  const { code, message } = error;
  if (typeof code !== 'number' || !Number.isInteger(code) || typeof message !== 'string') return undefined;
  const kept = [...message.slice(0, 2 * maxErrorMessage)].slice(0, maxErrorMessage).join('');
  return { code, message: kept };
}

/** Whether an answer with this id is ours. Some servers give a number back as a string. */
export function isAnswerTo(ours: number, id: PeerId): boolean {
  return id === ours || id === String(ours);
}

/** A request, or without an id a notification. */
export function writeMessage(method: string, params: RpcParams | undefined, id?: number): string {
  return text({ jsonrpc: '2.0', ...(id !== undefined && { id }), method, params });
}

/**
 * A `tools/call`. The arguments go in as the text they were given, so that no number loses a digit;
 * line breaks between their tokens become spaces, since stdio ends a message with one.
 *
 * @param meta  `_meta`, complete
 */
export function writeCall(id: number, { tool, arguments: args }: OutgoingCall, meta: RpcParams): string {
  const oneLine = args.replace(/[\r\n]/g, ' ');
  return `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":${text(tool)},"arguments":${oneLine},"_meta":${text(meta)}}}`;
}

/** The answer to a request of an upstream: we offer nothing but `ping` (BEHAVIOURS 90). */
export function writeReply({ id, method }: { readonly id: PeerId; readonly method: string }): string {
  return method === 'ping'
    ? text({ jsonrpc: '2.0', id, result: {} })
    : text({ jsonrpc: '2.0', id, error: { code: -32601, message: 'this client offers no such method' } });
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isInexactNumber(value);
}

function isPeerId(id: unknown): id is PeerId {
  return typeof id === 'string' || typeof id === 'number' || isInexactNumber(id);
}

function text(value: unknown): string {
  return writeJson(value) ?? 'null';
}
