import { createHash } from 'node:crypto';
import { codes } from '@holdfast/protocol';
import {
  addLink,
  endSpan,
  everyLane,
  freshRunId,
  invalidArguments,
  isFinished,
  isPrincipalId,
  laneOf,
  readArguments,
  readToken,
  readTraceContext,
  runAttributes,
  startSpan,
  tokenRunId,
  traced,
  traceIdOf,
  traceOf,
  type Arguments,
  type CallError,
  type FinishedRun,
  type Log,
  type NewRun,
  type Outcome,
  type Principal,
  type Progress,
  type Run,
  type RunEvent,
  type RunId,
  type Span,
  type TraceContext,
} from '@holdfast/run';
import type { Store } from '@holdfast/store';
import { passedOnMeta } from '@holdfast/tools';
import type { ServedTool, ToolCatalogue, WithdrawnTool } from './catalogue.js';
import type { Limits } from './limits.js';
import type { CallObserver } from './observer.js';
import { RisingProgress } from './progress.js';
import type { RunWatch } from './run-watch.js';
import { markOf, type CallAnswer } from './call-result.js';
import { metaOf, type HostRequest } from './message.js';
import type { HandedCall, ResumePoint } from './request-state.js';
import { turnOf } from './sse.js';
import { ProtocolRefusal, type RequestId } from './wire-errors.js';

/** What a hook may look at. `principal` is the id of the caller; null when nobody authenticated. */
export interface HookRequest {
  readonly id: unknown;
  readonly _meta: Readonly<Record<string, unknown>> | undefined;
  readonly principal: string | null;
}

/** Functions of the deployment (`HOLDFAST_IDENTITY_MODULE`). One that throws is our fault: "internal error", no run. */
export interface IdentityHooks {
  /** Overrides who calls; null means nobody, and then a token is ignored (BEHAVIOURS 45, 63). */
  readonly identityFromRequest?: (request: HookRequest) => unknown;
  /** Gives the token of a call; null or undefined means a run of its own (BEHAVIOURS 44). */
  readonly idempotencyFromRequest?: (request: HookRequest) => unknown;
}

export interface CallSettings {
  readonly workflowPrefix: string;
  /** 0: no limit. */
  readonly waitTimeoutMs: number;
  /** 0: off. */
  readonly dedupeWindowMs: number;
  /** Silence longer than this is filled with progress of our own. */
  readonly keepAliveMs: number;
  /** The first makes run ids, the others are looked up too. */
  readonly runIdKeys: readonly [Uint8Array, ...Uint8Array[]];
}

/** Who waits for a run. */
export interface Waiter {
  /** Aborts when the host no longer waits. The run goes on. */
  readonly signal: AbortSignal;
  /** Given when the host asked for progress. `n` is that of the run's event; the last one's for a filler. */
  readonly onProgress?: (progress: Progress, n: number) => void;
  /** The host takes the call up elsewhere by itself when this gateway goes before the answer is there. */
  readonly canComeBack: boolean;
}

/** Who sends a request, and how: all that its message does not say. */
export interface Sender extends Waiter {
  readonly principal: Principal | null;
  /** What the headers of its request say, where it came by HTTP; its `_meta` goes before. */
  readonly trace?: TraceContext | undefined;
  /** The revision that its host speaks, where it says so. */
  readonly protocolVersion?: string | undefined;
  /** The run is accepted; from here on it is durable. */
  readonly onRun?: (run: Run) => void;
}

/** One `tools/call`, whatever era or transport it came by. */
export interface Call extends Sender {
  readonly id: RequestId;
  readonly name: unknown;
  /** As `parseJson` read them. */
  readonly arguments: unknown;
  readonly meta: Readonly<Record<string, unknown>> | undefined;
  /** A call that another gateway handed over: the run that answers it. */
  readonly handed?: HandedCall | undefined;
}

export function callOf({ id, params }: HostRequest, sender: Sender): Call {
  return { ...sender, id, name: params['name'], arguments: params['arguments'], meta: metaOf(params) };
}

/** A call cannot be waited for any longer because its host has gone. */
export class HostGone extends Error {}

/** This gateway goes before the answer is there; the host takes the call up elsewhere from here (drain:zero-loss). */
export class HandedOver extends Error implements HandedCall {
  readonly runId: RunId;
  readonly from: ResumePoint;

  constructor(runId: RunId, from: ResumePoint) {
    super('this gateway stops');
    this.runId = runId;
    this.from = from;
  }
}

export interface CallsParts {
  readonly store: Store;
  readonly catalogue: ToolCatalogue;
  readonly watch: RunWatch;
  readonly settings: CallSettings;
  readonly hooks: IdentityHooks;
  readonly log: Log;
  readonly observer: CallObserver;
  readonly limits: Limits;
}

/** Who calls, for the run and for its token. */
interface Caller {
  readonly principal: Principal | null;
  /** An identity function said "nobody": tokens are ignored. */
  readonly isNobody: boolean;
}

interface Accepted {
  readonly run: Run;
  /** `new`: this call made it; `repeat`: it was there; `same`: it is the run of this very call, taken up again. */
  readonly as: 'new' | 'repeat' | 'same';
  readonly from?: ResumePoint;
}

/**
 * The path of a tool call through a gateway (BEHAVIOURS R1): token rules, the caller's own run,
 * the tool, its arguments, submit, wait. A call that is no tool's failure throws `ProtocolRefusal`.
 */
export class Calls {
  readonly #parts: CallsParts;
  readonly #leaving = new AbortController();
  /** When the next call is handed over, and how much later the one after it. */
  #turn = { nextMs: 0, eachMs: 0 };
  #warnedOfSharedScope = false;

  constructor(parts: CallsParts) {
    this.#parts = parts;
  }

  /** Hands over every call that waits, one after another, and each that comes, as far as its host can come back. */
  handOver(withinMs = 0): void {
    this.#turn = { nextMs: 0, eachMs: turnOf(this.#parts.watch.waiting, withinMs) };
    this.#leaving.abort();
  }

  /** @throws ProtocolRefusal, HostGone, HandedOver, or a fault of ours */
  async call(call: Call): Promise<CallAnswer> {
    const { observer } = this.#parts;
    const startedAt = performance.now();
    observer.callStarted();
    const span = spanOf(call);
    let outcome: Outcome | 'left' = 'unknown';
    let errorType: string | undefined;
    let release: (() => void) | undefined;
    try {
      release = this.#parts.limits.holdCall(call.principal);
      const accepted = await this.#accept(call, traceOf(span));
      let answer: CallAnswer;
      if ('error' in accepted) answer = this.failed(call.name, accepted.error);
      else {
        this.#tell(accepted, span);
        call.onRun?.(accepted.run);
        answer = await this.#answer(accepted, call);
      }
      ({ outcome, name: errorType } = answer.kind === 'failed' ? answer.error : ranWell);
      return answer;
    } catch (error) {
      if (error instanceof HostGone) outcome = 'left';
      else if (error instanceof HandedOver) outcome = 'pending';
      else if (error instanceof ProtocolRefusal) {
        outcome = 'refused';
        errorType = String(error.code);
      } else errorType = 'InternalError';
      throw error;
    } finally {
      release?.();
      observer.callFinished({ outcome, seconds: (performance.now() - startedAt) / 1000 });
      span.setAttribute('holdfast.outcome', outcome);
      endSpan(span, { errorType });
    }
  }

  /** A call that joins a run has a trace of its own, linked to that of the run. */
  #tell({ run, as }: Accepted, span: Span): void {
    const isReattached = as === 'repeat';
    span.updateName(`tools/call ${run.tool}`);
    span.setAttributes({ ...runAttributes(run), 'holdfast.run.reattached': isReattached });
    if (as !== 'new') addLink(span, run.trace);
    this.#parts.log.debug(
      { runId: run.id, tool: run.tool, reattached: isReattached, traceId: traceIdOf(traceOf(span)) },
      'call accepted',
    );
  }

  /** The failure of a call that made no run. */
  failed(name: unknown, error: CallError): CallAnswer {
    return { kind: 'failed', error, listsOutput: this.#listsOutput(name) };
  }

  /** Whether hosts hold the results of a tool of that name, as far as it is known here, against an output schema. */
  #listsOutput(name: unknown): boolean {
    return typeof name === 'string' && this.#parts.catalogue.lastSeen(name)?.listsOutput === true;
  }

  /** Takes up a broken stream: what the run reported since, then its result. */
  resume(run: Run, from: ResumePoint, waiter: Waiter): Promise<CallAnswer> {
    return this.#answer({ run, as: 'same', from }, waiter);
  }

  async #accept(
    call: Call,
    trace: TraceContext | undefined,
  ): Promise<Accepted | { readonly error: CallError }> {
    if (typeof call.name !== 'string') {
      throw new ProtocolRefusal(codes.invalidParams, 'params.name must be a string: the name of a tool');
    }
    const caller = await this.#identify(call);
    const token = await this.#tokenOf(call, caller);
    if (token.kind === 'refused') return token;
    const args = readArguments(call.arguments);
    if (args.kind === 'refused') return args;
    const { catalogue, settings } = this.#parts;
    const workflow = settings.workflowPrefix + call.name;
    const ids =
      token.kind === 'token'
        ? settings.runIdKeys.map((key) => tokenRunId(key, caller.principal, workflow, token.token))
        : [];

    if (call.handed !== undefined) return this.#takeUp(call.handed, call.name, args);

    const tool = await catalogue.find(call.name);
    // A body reads doubles; an upstream gets the digits.
    const rounded = tool?.kind === 'local' ? args.rounded : undefined;
    const problems = rounded === undefined ? (tool?.check(args.value) ?? []) : [rounded];
    const isCallable = tool !== undefined && problems.length === 0;
    // A repeat gets its result even when the tool is gone or its schema is tighter now. Where the
    // tool is there and the arguments fit, submitting finds the run as well as a look-up would.
    for (const id of isCallable ? ids.slice(1) : ids) {
      const run = await this.#parts.store.runs.get(id);
      if (run !== undefined) return this.#attach(run, args);
    }
    const withdrawn = tool === undefined ? catalogue.withdrawn(call.name) : undefined;
    if (withdrawn !== undefined) return { error: withdrawnError(call.name, withdrawn) };
    if (tool === undefined) {
      throw new ProtocolRefusal(
        codes.invalidParams,
        `unknown tool: ${call.name.slice(0, 128)}; tools/list names the tools there are`,
      );
    }
    if (problems.length > 0) return invalidArguments(...problems);
    return this.#submit(call, tool, workflow, args, caller, ids[0], trace);
  }

  /** The call comes from a gateway that stopped: its run answers it, whatever became of token and tool meanwhile. */
  async #takeUp({ runId, from }: HandedCall, tool: string, args: Arguments): Promise<Accepted> {
    const run = await this.#parts.store.runs.get(runId);
    if (run === undefined || run.tool !== tool || run.digest !== args.digest) {
      throw new ProtocolRefusal(
        codes.invalidParams,
        'params.requestState is not of this call; call again without it',
      );
    }
    return { run, as: 'same', from };
  }

  async #identify(call: Call): Promise<Caller> {
    const { identityFromRequest } = this.#parts.hooks;
    if (identityFromRequest === undefined) return { principal: call.principal, isNobody: false };
    const identity = await identityFromRequest(hookRequest(call));
    if (identity === null || identity === undefined) return { principal: null, isNobody: true };
    if (!isPrincipalId(identity)) {
      throw new TypeError('identityFromRequest must return a string that is not blank, or null for nobody');
    }
    return { principal: { realm: 'override', id: identity }, isNobody: false };
  }

  async #tokenOf(call: Call, caller: Caller): Promise<ReturnType<typeof readToken>> {
    if (caller.isNobody) return { kind: 'none' };
    const { hooks, log } = this.#parts;
    const given =
      hooks.idempotencyFromRequest === undefined
        ? call.meta?.['idempotency_key']
        : ((await hooks.idempotencyFromRequest(hookRequest(call))) ?? undefined);
    const token = readToken(given);
    if (token.kind === 'token' && caller.principal === null && !this.#warnedOfSharedScope) {
      this.#warnedOfSharedScope = true;
      log.warn({}, 'a token arrived from a caller without identity: all such callers share one scope');
    }
    return token;
  }

  async #submit(
    call: Call,
    tool: ServedTool,
    workflow: string,
    args: Arguments,
    { principal, isNobody }: Caller,
    tokenId: RunId | undefined,
    trace: TraceContext | undefined,
  ): Promise<Accepted | { readonly error: CallError }> {
    const { store, settings, observer } = this.#parts;
    const { name, toolClass } = tool;
    const own = tool.kind === 'local' ? tool.definition.dedupeWindowMs : undefined;
    const dedupeWindowMs = own ?? settings.dedupeWindowMs;
    const isDerived = tokenId === undefined && dedupeWindowMs > 0 && !isNobody;
    const run: NewRun = {
      id: tokenId ?? freshRunId(Date.now()),
      tool: name,
      toolClass,
      principal,
      arguments: args.json,
      digest: args.digest,
      ...targetOf(call, tool, workflow),
      ...(trace && { trace }),
    };
    const repeat = { key: repeatKey(workflow, principal, args.digest), windowMs: dedupeWindowMs };
    const submission = await traced('submit', { kind: 'internal', parent: trace }, () =>
      store.runs.submit(run, isDerived ? { repeat } : {}),
    );
    if (submission.kind === 'expired') {
      return {
        error: {
          name: 'IdempotencyExpired',
          message:
            'this idempotency_key was used for a call whose result is no longer kept; use a new key for a new call',
          outcome: 'refused',
          retryable: false,
        },
      };
    }
    if (submission.kind === 'attached') return this.#attach(submission.run, args);
    observer.runSubmitted({ toolClass, reattached: false });
    return { run: submission.run, as: 'new' };
  }

  #attach(run: Run, args: Arguments): Accepted | { readonly error: CallError } {
    if (run.digest !== args.digest) {
      return {
        error: {
          name: 'IdempotencyConflict',
          message:
            'this idempotency_key was used with other arguments, and that call is unchanged; use a new key for a new call',
          outcome: 'refused',
          retryable: false,
        },
      };
    }
    this.#parts.observer.runSubmitted({ toolClass: run.toolClass, reattached: true });
    return { run, as: 'repeat' };
  }

  async #answer(accepted: Accepted, waiter: Waiter): Promise<CallAnswer> {
    const { run } = accepted;
    const reattached = accepted.as === 'repeat';
    const ended = await this.#wait(accepted, waiter);
    if (ended === 'too long') {
      const hasToken = run.id.startsWith('r1_');
      const comeBack = hasToken
        ? 'Call again with the same idempotency_key to get its result'
        : `It carried no idempotency_key, so its result is only at /api/runs/${run.id}`;
      const error = {
        name: 'WaitTimeout',
        message: `no result within ${this.#parts.settings.waitTimeoutMs} ms; the call goes on. ${comeBack}`,
        outcome: 'pending',
        retryable: hasToken,
      } as const;
      const latest = await this.#parts.store.runs.get(run.id).catch(() => undefined);
      return this.#failedRun(error, latest ?? run, reattached);
    }
    return ended.state === 'succeeded'
      ? { kind: 'recorded', result: ended.result, mark: markOf(ended, reattached) }
      : this.#failedRun(ended.error, ended, reattached);
  }

  #failedRun(error: CallError, run: Run, reattached: boolean): CallAnswer {
    // A tool that is gone may still be listed at the host, with whatever output schema it had.
    const isGone = run.upstream !== undefined && this.#parts.catalogue.lastSeen(run.tool) === undefined;
    const listsOutput = isGone || this.#listsOutput(run.tool);
    return { kind: 'failed', error, mark: markOf(run, reattached), listsOutput };
  }

  async #wait(
    { run, as, from }: Accepted,
    { signal, onProgress, canComeBack }: Waiter,
  ): Promise<FinishedRun | 'too long'> {
    const { settings, watch } = this.#parts;
    // Whoever repeats a call that has ended gets its result, not its history.
    if (isFinished(run) && from === undefined) return run;
    const patience = new AbortController();
    const leave = (): void => patience.abort(new HostGone('the host no longer waits'));
    signal.addEventListener('abort', leave, { once: true });
    if (signal.aborted) leave();
    const feed = onProgress && this.#feed(run, onProgress, from);
    const handOver = (): void => patience.abort(new HandedOver(run.id, feed?.position() ?? { after: 0 }));
    let turn: NodeJS.Timeout | undefined;
    const takeTurn = (): void => {
      const { nextMs, eachMs } = this.#turn;
      this.#turn.nextMs += eachMs;
      turn = setTimeout(handOver, nextMs);
    };
    if (canComeBack) this.#leaving.signal.addEventListener('abort', takeTurn, { once: true });
    if (canComeBack && this.#leaving.signal.aborted) handOver();
    const limit =
      settings.waitTimeoutMs > 0
        ? setTimeout(() => patience.abort(tooLong), settings.waitTimeoutMs)
        : undefined;
    try {
      return await watch.follow(run, {
        isNew: as === 'new',
        ...(from && { after: from.after }),
        onEvent: (event) => feed?.event(event),
        signal: patience.signal,
      });
    } catch (error) {
      if (error === tooLong) return 'too long';
      throw error;
    } finally {
      signal.removeEventListener('abort', leave);
      this.#leaving.signal.removeEventListener('abort', takeTurn);
      clearTimeout(turn);
      clearTimeout(limit);
      feed?.stop();
    }
  }

  /** Progress to the host: what the run reports, and a filler of our own after each silence. */
  #feed(
    run: Run,
    onProgress: NonNullable<Waiter['onProgress']>,
    from: ResumePoint | undefined,
  ): { event: (event: RunEvent) => void; position: () => ResumePoint; stop: () => void } {
    const rising = new RisingProgress(from?.last);
    const elapsed = (): number => Date.now() - run.submittedAt.getTime();
    let n = from?.after ?? 0;
    let last = from?.last;
    let isOver = false;
    const send = (progress: Progress): void => {
      last = progress.value;
      onProgress(progress, n);
    };
    const fill = async (): Promise<void> => {
      const message = await this.#describe(run);
      if (!isOver) send(rising.filler(message, elapsed()));
    };
    const silence = setInterval(() => void fill(), this.#parts.settings.keepAliveMs);
    return {
      event: (event) => {
        n = event.n;
        silence.refresh();
        send(rising.reported(event.progress, elapsed()));
      },
      position: () => ({ after: n, ...(last !== undefined && { last }) }),
      stop: () => {
        isOver = true;
        clearInterval(silence);
      },
    };
  }

  /** What is happening to a run, for the person at the host. */
  async #describe({ id, workflow, tool }: Run): Promise<string> {
    const { store } = this.#parts;
    try {
      const run = await store.runs.get(id);
      if (run?.state === 'running') return `running, attempt ${run.attempt}`;
      if (run?.state !== 'queued') return 'waiting';
      const serving = run.upstream === undefined ? [workflow] : [workflow, everyLane];
      const served = (await store.workers.live()).some(({ workflows }) =>
        serving.some((one) => workflows.includes(one)),
      );
      return served ? 'queued' : `queued: no live worker serves ${tool}`;
    } catch {
      return 'waiting';
    }
  }
}

const tooLong = new Error('the wait limit passed');
const ranWell = { outcome: 'ran', name: undefined } as const;

/** What a run that was accepted before ends with, too (`libs/engine/src/upstream-attempt.ts`). */
function withdrawnError(name: string, { server }: WithdrawnTool): CallError {
  return {
    name: 'ToolWithdrawn',
    message: `${server} does not offer ${name} any more; list the tools again`,
    outcome: 'not_sent',
    retryable: false,
  };
}

function hookRequest({ id, meta, principal }: Call): HookRequest {
  return { id, _meta: meta, principal: principal?.id ?? null };
}

/** Who executes a call: a worker that has the tool, or any on the lane of the upstream. */
function targetOf(
  { meta }: Call,
  tool: ServedTool,
  workflow: string,
): Pick<NewRun, 'workflow' | 'definition' | 'upstream'> {
  if (tool.kind === 'local') return { workflow, definition: tool.definition.digest };
  const passedOn = passedOnMeta(meta ?? {});
  return {
    workflow: laneOf(tool.server.key),
    definition: '',
    upstream: {
      server: tool.server.key,
      tool: tool.tool.name,
      fingerprint: tool.tool.fingerprint,
      ...(Object.keys(passedOn).length > 0 && { meta: passedOn }),
    },
  };
}

/** The step of a call at this gateway, in the trace of its host: what its `_meta` says, else its headers (F32, F198). */
function spanOf({ meta, trace, protocolVersion }: Call): Span {
  return startSpan('tools/call', {
    kind: 'server',
    parent: readTraceContext(meta ?? {}) ?? trace,
    attributes: {
      'mcp.method.name': 'tools/call',
      'gen_ai.operation.name': 'execute_tool',
      ...(protocolVersion !== undefined && { 'mcp.protocol.version': protocolVersion }),
    },
  });
}

/** What makes two calls without a token the same: caller, tool and arguments. */
function repeatKey(workflow: string, principal: Principal | null, digest: string): string {
  return createHash('sha256')
    .update(JSON.stringify([workflow, principal?.realm, principal?.id, digest]))
    .digest('hex');
}
