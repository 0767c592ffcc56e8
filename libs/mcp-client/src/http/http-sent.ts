import { codes } from '@holdfast/protocol';
import type { Sent } from '../connection.js';
import type { Era } from '../era.js';
import type { Reply } from './http-peer.js';
import { isObject } from '../is-object.js';
import { retryAfterMs } from './retry-after.js';

/**
 * Statuses that say that the request was not taken: it was redirected with its method kept, its sender or its form
 * was refused, or it came too often. No other status says what became of a call.
 */
const untaken: ReadonlySet<number> = new Set([
  ...[307, 308],
  ...[401, 403, 404, 405, 406, 411, 413, 414, 415, 421, 426, 428, 429, 431],
]);

/** What a reply that is no success says of a call (BEHAVIOURS R16). */
export function sentOfStatus(
  reply: Reply & { readonly kind: 'status' },
  era: Era,
  hasSession: boolean,
): Sent {
  const { status, headers, error, elsewhere } = reply;
  if (error !== undefined && isDefinite(status, error.code, era)) return { kind: 'error', ...error };
  if (hasSession && (status === 404 || isStaleSession(reply, era))) return { kind: 'session-lost' };
  const reason = elsewhere === undefined ? error?.message : `it redirects to ${elsewhere}, another origin, which is not followed`; // prettier-ignore
  if (!untaken.has(status)) {
    const seen = `the server answered with status ${status}`;
    return { kind: 'lost', why: 'dropped', reason: reason ? `${seen}: ${reason}` : seen };
  }
  const retryAfter = retryAfterMs(headers['retry-after'], new Date());
  return {
    kind: 'status',
    status,
    ...(reason && { reason }),
    ...(retryAfter !== undefined && { retryAfterMs: retryAfter }),
  };
}

/** Older servers answer 400 to a session that they do not have. */
function isStaleSession({ status, isAboutSession }: Reply & { readonly kind: 'status' }, era: Era): boolean {
  return status === 400 && era === 'legacy' && isAboutSession === true;
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
