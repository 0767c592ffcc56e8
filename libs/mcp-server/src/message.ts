import { codes } from '@holdfast/protocol';
import { measureJson, parseJson } from '@holdfast/run';
import type { Limits } from './limits.js';
import { isRequestId, isTooLong, longestId, ProtocolRefusal, type RequestId } from './wire-errors.js';

/** A JSON-RPC message of a host, told apart. */
export type Message =
  | HostRequest
  | { readonly kind: 'notification'; readonly method: string; readonly params: Params }
  | { readonly kind: 'response' };

export interface HostRequest {
  readonly kind: 'request';
  readonly id: RequestId;
  readonly method: string;
  readonly params: Params;
}

export type Params = Readonly<Record<string, unknown>>;

/** What is kept of a message may be nested this deep: arguments take 200 levels, two below the message. */
const maxDepth = 256;

/** Bytes that a parsed value occupies beside its text, about. */
const bytesOfValue = 64;

/**
 * The JSON of a message. Its size is known before anything is parsed.
 *
 * @param reserve takes the memory that the parsed message needs; throws where there is none
 * @throws ProtocolRefusal 400, or 413 for too many values
 */
export function parseMessage(text: string, limits: Limits, reserve?: (bytes: number) => void): unknown {
  const maxValues = limits.settings.messageValues;
  const { values, exceeds } = measureJson(text, { values: maxValues, depth: maxDepth });
  if (exceeds === 'values') {
    throw limits.refusal('body_values', `the message holds more than ${maxValues} JSON values`, {
      status: 413,
      setting: 'HOLDFAST_LIMITS_MESSAGE_VALUES',
    });
  }
  if (exceeds === 'depth')
    throw limits.refusal('body_depth', `the message is nested deeper than ${maxDepth} levels`, {
      status: 400,
    });
  reserve?.(values * bytesOfValue);
  try {
    return parseJson(text);
  } catch {
    throw new ProtocolRefusal(codes.parseError, 'the message is not valid JSON', { status: 400 });
  }
}

/** @throws ProtocolRefusal 400, with id null, for what is no JSON-RPC message or a batch of them */
export function readMessage(body: unknown): Message {
  const invalid = (message: string): ProtocolRefusal =>
    new ProtocolRefusal(codes.invalidRequest, message, { status: 400 });
  if (Array.isArray(body)) throw invalid('JSON-RPC batches are not supported; send one message a request');
  if (typeof body !== 'object' || body === null) throw invalid('the request is not a JSON-RPC message');
  const { jsonrpc, id, method, params = {} } = body as Record<string, unknown>;
  if (jsonrpc !== '2.0') throw invalid('jsonrpc must be "2.0"');
  if (method === undefined && ('result' in body || 'error' in body)) return { kind: 'response' };
  if (typeof method !== 'string') throw invalid('method must be a string');
  if (typeof params !== 'object' || params === null || Array.isArray(params))
    throw invalid('params must be an object');
  if (!('id' in body)) return { kind: 'notification', method, params: params as Params };
  if (!isRequestId(id)) throw invalid('id must be a string or a number');
  if (isTooLong(id)) throw invalid(`id must have at most ${longestId} characters`);
  return { kind: 'request', id, method, params: params as Params };
}

/** The `_meta` of a message; undefined where it is absent or no object. */
export function metaOf({ _meta: meta }: Params): Params | undefined {
  return typeof meta === 'object' && meta !== null && !Array.isArray(meta) ? (meta as Params) : undefined;
}

/**
 * A host may ask for progress with any string or number, 0 and "" too; it is echoed as it came.
 *
 * @throws ProtocolRefusal for one that is too long
 */
export function progressTokenOf(params: Params): RequestId | undefined {
  const token = metaOf(params)?.['progressToken'];
  if (!isRequestId(token)) return undefined;
  if (!isTooLong(token)) return token;
  throw new ProtocolRefusal(
    codes.invalidParams,
    `params._meta.progressToken must have at most ${longestId} characters`,
    { status: 400 },
  );
}
