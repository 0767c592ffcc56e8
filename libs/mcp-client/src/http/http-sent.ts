import { codes } from '@holdfast/protocol';
import type { Sent } from '../connection.js';
import type { Era } from '../era.js';
import type { Reply } from './http-peer.js';
import { isObject } from '../is-object.js';
import { retryAfterMs } from './retry-after.js';

/** What a reply that is no success says of a call (BEHAVIOURS R16). */
export function sentOfStatus(
  { status, headers, error }: Reply & { readonly kind: 'status' },
  era: Era,
  hasSession: boolean,
): Sent {
  if (error !== undefined && isDefinite(status, error.code, era)) return { kind: 'error', ...error };
  if (status === 404 && hasSession) return { kind: 'session-lost' };
  if (status >= 500 || status === 408 || status === 400)
    return { kind: 'lost', why: 'dropped', reason: `the server answered with status ${status}` };
  const retryAfter = retryAfterMs(headers['retry-after'], new Date());
  return { kind: 'status', status, ...(retryAfter !== undefined && { retryAfterMs: retryAfter }) };
}

/** Whether a 400 or 404 is a JSON-RPC answer that says that nothing ran. */
function isDefinite(status: number, code: number, era: Era): boolean {
  if (status === 404) return code === codes.methodNotFound;
  return (
    status === 400 && era === 'modern' && code <= codes.headerMismatch && code >= codes.unsupportedVersion
  );
}

/** A result of the modern era says what kind it is; nobody at our end can answer a question (PROTOCOL.md, MRTR). */
export function modernResult(result: unknown): Sent {
  const type = (isObject(result) ? result['resultType'] : undefined) ?? 'complete';
  if (type === 'complete') return { kind: 'result', result };
  if (type === 'input_required')
    return {
      kind: 'error',
      code: codes.missingCapability,
      message: 'the server asks for input that nobody can give here',
    };
  return {
    kind: 'lost',
    why: 'dropped',
    reason: 'the server answered with a kind of result that we did not ask for',
  };
}
