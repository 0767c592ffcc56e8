import { randomUUID } from 'node:crypto';
import { writeJson, type Log, type RunId } from '@holdfast/run';
import { faultOf, ProtocolRefusal, toRefusal, type RequestId } from './wire-errors.js';

/** What a fault happened to, as far as it is known there. */
export interface Failed {
  readonly request?: {
    readonly id: RequestId;
    readonly method: string;
    readonly params: Readonly<Record<string, unknown>>;
  };
  readonly runId?: RunId | undefined;
}

/** Words of a host are cut to this in a line. */
const longest = 256;

/**
 * The refusal to answer with for whatever was thrown while a request was served. A fault of ours says nothing to the
 * host: an HTTP answer carries the reference of the line that is written here as a header.
 */
export function refusalOf(thrown: unknown, log: Log, { request, runId }: Failed = {}): ProtocolRefusal {
  const { code, message, status } = toRefusal(thrown);
  const err = faultOf(thrown);
  if (err === undefined) return thrown as ProtocolRefusal;
  const reference = randomUUID();
  const tool = request?.method === 'tools/call' ? request.params['name'] : undefined;
  const fields = {
    reference,
    ...(request && {
      requestId: writeJson(request.id)!.slice(0, longest),
      method: request.method.slice(0, longest),
    }),
    ...(typeof tool === 'string' && { tool: tool.slice(0, longest) }),
    ...(runId !== undefined && { runId }),
  };
  log.error({ ...fields, err }, 'request failed');
  return new ProtocolRefusal(code, message, { status, reference });
}
