import { ConnectionFault, type ConnectionFaultCode } from '../connection.js';
import type { Reply } from './http-peer.js';

/**
 * What failed in the network, for people: the code that the system, TLS or undici gave it. Its message
 * may name an address or quote a header, and stays out.
 */
export function networkReason(error: unknown): string {
  if (error instanceof ConnectionFault) return error.message;
  const { name, code } = (error ?? {}) as { name?: unknown; code?: unknown };
  if (name === 'TimeoutError') return 'no answer in time';
  return typeof code === 'string' ? `the connection failed (${code})` : 'the connection failed';
}

/** Why no answer came, of an exchange that threw. */
export function thrownFault(host: string, error: unknown): ConnectionFault {
  return error instanceof ConnectionFault
    ? error
    : new ConnectionFault('unreachable', `${host} was not reached: ${networkReason(error)}`, {
        cause: error,
      });
}

/**
 * A reply that is no answer, as a fault of what was wanted.
 *
 * @param otherwise  the code where neither credentials, nor the guard, nor the server's health are to blame
 */
export function refusedFault(
  host: string,
  reply: Exclude<Reply, { kind: 'answer' }>,
  otherwise: ConnectionFaultCode,
): ConnectionFault {
  if (reply.kind === 'broken') return new ConnectionFault(otherwise, `${host}: ${reply.reason}`);
  const { status, elsewhere } = reply;
  if (elsewhere !== undefined)
    return new ConnectionFault('blocked', `${host} redirects to ${elsewhere}, another origin, which is not followed; correct the url`); // prettier-ignore
  const isTemporary = status >= 500 || status === 408 || status === 429;
  const code = status === 401 || status === 403 ? 'auth' : isTemporary ? 'unreachable' : otherwise;
  return new ConnectionFault(code, withReason(`${host} answered with status ${status}`, reply));
}

/** A sentence about a refusal, with the reason that the server gave. */
export function withReason(
  text: string,
  { error }: { readonly error?: { readonly message: string } },
): string {
  return error === undefined || error.message === '' ? text : `${text}: ${error.message}`;
}
