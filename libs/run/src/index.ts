export { endsOfCancel, type CancelEnds } from './cancel.js';
export { systemClock, type Clock } from './clock.js';
export {
  callErrorNames,
  ensureError,
  isOutage,
  messageOf,
  RunError,
  type CallError,
  type CallErrorName,
  type Outcome,
  type RunErrorCode,
} from './errors.js';
export { invalidArguments, readArguments, readToken, type Arguments, type Token } from './idempotency.js';
export { formatPath, isInexactNumber, parseJson, writeJson } from './json.js';
export { measureJson, type JsonBounds, type JsonSize } from './json-size.js';
export type { Log, ServiceLog } from './log.js';
export { isPrincipalId, samePrincipal, type Principal } from './principal.js';
export type { Progress } from './progress.js';
export { onceEvery, type RepeatedFault } from './repeated-fault.js';
export {
  afterLostAttempt,
  afterLostUpstreamAttempt,
  afterUpstream,
  type AfterUpstream,
  type OnCrash,
  type UpstreamAttempt,
  type UpstreamCall,
} from './retry.js';
export { freshRunId, isRunId, tokenRunId, type RunId } from './run-id.js';
export {
  isFinished,
  runStates,
  type FinishedRun,
  type NewRun,
  type Run,
  type RunEnd,
  type RunEvent,
  type RunState,
} from './run.js';
export type { ToolClass } from './tool-class.js';
export {
  addLink,
  endSpan,
  runAttributes,
  startSpan,
  traced,
  traceOf,
  withinSpan,
  type Span,
} from './span.js';
export { readTraceContext, traceIdOf, withTrace, type TraceContext } from './trace-context.js';
export {
  everyLane,
  laneOf,
  leaseName,
  serverOfLease,
  type UpstreamOutcome,
  type UpstreamRequest,
  type UpstreamTarget,
  type UpstreamWaiter,
} from './upstream.js';
