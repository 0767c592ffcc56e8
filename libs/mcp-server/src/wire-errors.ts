import { codes } from '@holdfast/protocol';
import { ensureError, isInexactNumber, isOutage, writeJson } from '@holdfast/run';

/** The one thing a host is told about a fault of ours (BEHAVIOURS 32). */
export const internalError = 'internal error';

/** A JSON-RPC id as it came: its type and every digit of it are kept. */
export type RequestId = string | number | { readonly rawJSON: string };

/** A refusal that is a JSON-RPC error, not a tool error. Its message reaches the host. */
export class ProtocolRefusal extends Error {
  readonly code: number;
  readonly status: number;
  readonly data: object | undefined;
  /** When the same request may be accepted. */
  readonly retryAfterSeconds: number | undefined;
  /** Of a fault of ours: what the answer and its line in the log have in common. */
  readonly reference: string | undefined;

  /** @param status of the HTTP answer, where it is not carried on a stream */
  constructor(
    code: number,
    message: string,
    {
      status = 200,
      data,
      retryAfterSeconds,
      reference,
    }: { status?: number; data?: object; retryAfterSeconds?: number; reference?: string } = {},
  ) {
    super(message);
    this.code = code;
    this.status = status;
    this.data = data;
    this.retryAfterSeconds = retryAfterSeconds;
    this.reference = reference;
  }
}

/** A refusal for the time before the store is there. */
export class McpUnavailable extends ProtocolRefusal {
  constructor() {
    super(codes.internalError, internalError, { status: 503 });
  }
}

/** Whatever was thrown while a request was served, as the refusal to answer with. Faults of ours say nothing. */
export function toRefusal(thrown: unknown): ProtocolRefusal {
  if (thrown instanceof ProtocolRefusal) return thrown;
  return new ProtocolRefusal(codes.internalError, internalError, { status: isOutage(thrown) ? 503 : 500 });
}

/** Whether `thrown` is worth a log line: a refusal is the host's doing and is not. */
export function faultOf(thrown: unknown): Error | undefined {
  return thrown instanceof ProtocolRefusal ? undefined : ensureError(thrown);
}

export function isRequestId(value: unknown): value is RequestId {
  return typeof value === 'string' || typeof value === 'number' || isInexactNumber(value);
}

/** The longest request id and progress token, in characters: each event of a call carries both. */
export const longestId = 256;

export function isTooLong(id: RequestId): boolean {
  const text = typeof id === 'object' ? id.rawJSON : String(id);
  // A character takes at most two UTF-16 units, so a huge string need not be walked.
  return text.length > longestId && (text.length > 2 * longestId || [...text].length > longestId);
}

export function resultMessage(id: RequestId, resultJson: string): string {
  return `{"jsonrpc":"2.0","id":${writeJson(id)},"result":${resultJson}}`;
}

export function errorMessage(id: RequestId | null, { code, message, data }: ProtocolRefusal): string {
  return writeJson({ jsonrpc: '2.0', id, error: { code, message, ...(data && { data }) } })!;
}

/** @param status of the HTTP answer: 404 from 2026-07-28 on */
export function methodNotFound(method: string, status = 200): ProtocolRefusal {
  return new ProtocolRefusal(codes.methodNotFound, `method not found: ${method.slice(0, 128)}`, { status });
}
