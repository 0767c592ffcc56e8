import { fileURLToPath } from 'node:url';
import type { Progress, RunId, UpstreamOutcome, UpstreamRequest } from '@holdfast/run';

/** Where the service is described. */
export const protoPath = fileURLToPath(new URL('../connector.proto', import.meta.url));
export const protoPackage = 'holdfast.v1';
export const serviceName = 'Connector';
/** The name of the call in traces, at both its ends. */
export const rpcMethod = `${protoPackage}.${serviceName}/Call`;

/** What the spans at both ends say of a call. */
export function rpcAttributes({ runId, server, tool }: Pick<UpstreamRequest, 'runId' | 'server' | 'tool'>): {
  readonly [name: string]: string;
} {
  return {
    'rpc.system.name': 'grpc',
    'rpc.method': rpcMethod,
    'holdfast.run.id': runId,
    'holdfast.server.key': server,
    'gen_ai.tool.name': tool,
  };
}

/** How messages are read: as they are named in the file, and a `seq` as a number, which holds every one. */
export const loaderOptions = { keepCase: false, longs: Number, defaults: true, oneofs: true } as const;

/** The largest message: a result of the largest size that a server may have, and its envelope. */
export const maxMessageBytes = 256 * 1024 * 1024;

/** `CallRequest` of the file. */
export interface CallMessage {
  server: string;
  tool: string;
  runId: string;
  arguments: string;
  meta: string;
  principal?: { realm: string; id: string } | null;
  claimSeq: number;
  claimToken: string;
  isWrite: boolean;
  isResendable: boolean;
  timeoutMs: number;
}

/** `CallEvent` of the file. */
export interface EventMessage {
  progress?: { value: number; total?: number; message?: string } | null;
  outcome?: string | null;
}

export function toCallMessage({
  runId,
  meta,
  principal,
  claim,
  toolClass,
  ...request
}: UpstreamRequest): CallMessage {
  return {
    ...request,
    isWrite: toolClass === 'write',
    runId,
    meta: JSON.stringify(meta),
    ...(principal !== null && { principal }),
    claimSeq: claim.seq,
    claimToken: claim.token,
  };
}

/** The other end is one of ours, so what it sends is trusted to be what the file says. */
export function fromCallMessage(message: CallMessage): UpstreamRequest {
  const { runId, meta, principal, claimSeq, claimToken, isWrite, ...request } = message;
  return {
    ...request,
    toolClass: isWrite ? 'write' : 'read',
    runId: runId as RunId,
    meta: JSON.parse(meta) as Record<string, unknown>,
    principal: principal ?? null,
    claim: { seq: claimSeq, token: claimToken },
  };
}

/**
 * While a call is under way its connector says so this often. A worker that hears nothing for three times as
 * long takes the connector for dead, or stopped, and asks the store where the call may go.
 */
export const heartbeatMs = 1_500;

/** Says nothing but that the call is under way. */
export const heartbeatEvent: EventMessage = {};

export function progressEvent(progress: Progress): EventMessage {
  return { progress };
}

export function outcomeEvent(outcome: UpstreamOutcome): EventMessage {
  return { outcome: JSON.stringify(outcome) };
}

export function readEvent({
  progress,
  outcome,
}: EventMessage): Progress | { readonly outcome: UpstreamOutcome } | undefined {
  if (typeof outcome === 'string') return { outcome: JSON.parse(outcome) as UpstreamOutcome };
  if (progress == null) return undefined;
  const { value, total, message } = progress;
  return { value, ...(total !== undefined && { total }), ...(message !== undefined && { message }) };
}
