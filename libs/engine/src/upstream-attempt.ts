import { setTimeout as sleep } from 'node:timers/promises';
import {
  afterLostUpstreamAttempt,
  afterUpstream,
  ensureError,
  withTrace,
  type CallError,
  type Log,
  type Progress,
  type Run,
  type RunEnd,
  type TraceContext,
  type UpstreamCall,
  type UpstreamOutcome,
  type UpstreamRequest,
} from '@holdfast/run';
import type { Claim, RunStore } from '@holdfast/store';
import {
  classOf,
  isOffered,
  isResendable,
  needsApproval,
  type ServerCatalogue,
  type UpstreamTool,
} from '@holdfast/tools';
import type { Upstreams } from './upstreams.js';

/** A claim whose token changes when it is taken back from a connector. */
export interface HeldClaim {
  claim: Claim;
}

export interface UpstreamAttemptInput {
  readonly held: HeldClaim;
  /** Undefined when the deployment does not have it any more. */
  readonly server: ServerCatalogue | undefined;
  readonly upstreams: Upstreams;
  /** How long a call is brought to connectors that do not take it, in milliseconds. */
  readonly routingMs: number;
  readonly runs: RunStore;
  readonly log: Log;
  /** Of the attempt. */
  readonly trace: TraceContext | undefined;
  /** Aborts with a `Stop` as its reason. */
  readonly stop: AbortSignal;
  /** From 0 to 1, for the spread of waits. */
  readonly random: () => number;
  report(progress: Progress): void;
}

/**
 * One execution of a run that calls an upstream. Resolves as `attemptRun` does, and never rejects.
 *
 * A write is sent under its dispatch mark only. When nobody knows what became of a call, because the
 * connector died or could not be reached, the claim token is taken back: where that goes, the mark is not
 * there and nobody can make it any more, so no write was sent and the call is brought to the next owner;
 * where it does not, the call may have run (BEHAVIOURS X11).
 */
export async function attemptUpstream(input: UpstreamAttemptInput): Promise<RunEnd | undefined> {
  const { held, server, stop } = input;
  const { run, isDispatched } = held.claim;
  const target = run.upstream!;
  const tool = server?.tools.find(({ name }) => name === target.tool);
  if (server === undefined || tool === undefined || !isOffered(tool.name, server.rules)) {
    return failed({
      name: 'ToolWithdrawn',
      message: `${server?.name ?? target.server} does not offer ${target.tool} any more; list the tools again`,
      outcome: 'not_sent',
      retryable: false,
    });
  }
  const call = callOf(run, tool, server);
  const { attempt } = run;
  const lost = afterLostUpstreamAttempt(call, { attempt, isDispatched, onCrash: server.rules.onCrash });
  if (lost !== undefined) return failed(lost);
  const need = needsApproval(tool, server.rules);
  if (need.asks) {
    return failed({
      name: 'ApprovalUnavailable',
      message: `${run.tool} needs an approval (${reasons[need.why]}) and nobody can be asked here; nothing was sent`,
      outcome: 'refused',
      retryable: false,
    });
  }

  const request = (): UpstreamRequest => ({
    server: target.server,
    tool: target.tool,
    runId: run.id,
    arguments: run.arguments,
    meta: withTrace(target.meta ?? {}, input.trace),
    principal: run.principal,
    claim: { seq: held.claim.seq, token: held.claim.token },
    toolClass: call.toolClass,
    // One whose mark is there was lost with its worker, and its operator wants it run again.
    isResendable: call.isResendable || isDispatched,
    timeoutMs: server.rules.timeoutMs,
  });
  let sends = 0;
  let hasWaited = false;
  for (;;) {
    const outcome = await route(input, request, server);
    if (outcome === undefined) return undefined;
    sends++;
    const { retry } = server.rules;
    const next = afterUpstream(outcome, { ...call, retry, sends, hasWaited }, input.random());
    if (!next.again) return next.end;
    if (next.isAskedFor) {
      hasWaited = true;
      sends--;
    }
    await sleep(next.waitMs, undefined, { signal: stop }).catch(() => {});
    if (stop.aborted) return undefined;
  }
}

const reasons = {
  listed: 'its server says so',
  destructive: 'it says that it destroys',
  mode: 'the approval mode asks for tools like it',
} as const;

/** Brings a call to the owner of its server, for as long as no write can have been sent. Undefined when the attempt was stopped. */
async function route(
  { held, upstreams, routingMs, runs, log, stop, report }: UpstreamAttemptInput,
  request: () => UpstreamRequest,
  { name }: ServerCatalogue,
): Promise<UpstreamOutcome | undefined> {
  const since = performance.now();
  for (let pauseMs = 100; ; pauseMs = Math.min(pauseMs * 2, 1_000)) {
    try {
      const outcome = await upstreams.call(request(), { signal: stop, onProgress: report });
      return stop.aborted ? undefined : outcome;
    } catch (error) {
      if (stop.aborted) return undefined;
      const fields = { server: held.claim.run.upstream!.server, err: ensureError(error) };
      log.warn(fields, 'the connector did not answer; looking whether the call was sent');
    }
    const wasSent = await takeBack(held, runs, log, stop);
    if (wasSent === undefined) return undefined;
    if (wasSent) {
      return {
        kind: 'unknown',
        why: 'dropped',
        message: 'the connector was lost after it may have sent the call',
      };
    }
    if (performance.now() - since > routingMs) {
      return {
        kind: 'not_sent',
        name: 'MCPServerUnavailable',
        message: `no connector takes calls for ${name}; the call was not sent`,
      };
    }
    await sleep(pauseMs, undefined, { signal: stop }).catch(() => {});
    if (stop.aborted) return undefined;
  }
}

/**
 * Whether a write under this claim may have been sent. After `false` none ever will be, and the claim
 * has another token. Undefined when the attempt was stopped or the claim is no longer good.
 */
async function takeBack(
  held: HeldClaim,
  runs: RunStore,
  log: Log,
  stop: AbortSignal,
): Promise<boolean | undefined> {
  for (let pauseMs = 50; ; pauseMs = Math.min(pauseMs * 2, 2_000)) {
    try {
      const revoked = await runs.revoke(held.claim);
      if (revoked === 'stale') return undefined;
      if (revoked === 'dispatched') return true;
      held.claim = { ...held.claim, token: revoked.token };
      return false;
    } catch (error) {
      log.warn({ err: ensureError(error) }, 'claim not taken back; trying again');
      await sleep(pauseMs, undefined, { signal: stop }).catch(() => {});
      if (stop.aborted) return undefined;
    }
  }
}

/**
 * What a call comes to when its worker must go before it ends: one that may have been sent, and may
 * not be again, is told as unknown; any other is handed back (drain:zero-loss).
 */
export async function endUnfinishedUpstream(
  held: HeldClaim,
  runs: RunStore,
  server: ServerCatalogue | undefined,
): Promise<RunEnd | undefined> {
  const { run } = held.claim;
  const revoked = await runs.revoke(held.claim);
  if (typeof revoked === 'object') held.claim = { ...held.claim, token: revoked.token };
  const tool = server?.tools.find(({ name }) => name === run.upstream!.tool);
  const call = callOf(run, tool, server);
  const lost = afterLostUpstreamAttempt(call, {
    attempt: run.attempt + 1,
    isDispatched: revoked === 'dispatched',
    onCrash: server?.rules.onCrash,
  });
  return lost && failed(lost);
}

/** What decides about a call. Where rules changed since it was submitted, the stricter class counts. */
function callOf(run: Run, tool: UpstreamTool | undefined, server: ServerCatalogue | undefined): UpstreamCall {
  const isKnown = tool !== undefined && server !== undefined;
  const isRead = run.toolClass === 'read' && isKnown && classOf(tool, server.rules) === 'read';
  return {
    tool: run.tool,
    toolClass: isRead ? 'read' : 'write',
    isResendable: isKnown && isResendable(tool, server.rules),
  };
}

function failed(error: CallError): RunEnd {
  return { state: 'failed', error };
}
