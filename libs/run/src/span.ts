/**
 * The steps of a call in its trace. Where no SDK is set up (`libs/ops/src/tracing.ts`) a span records nothing and
 * stands where its parent stands, so that a host's trace passes through all the same.
 *
 * Names follow the OpenTelemetry conventions for MCP and RPC where these have one. No span holds an argument, a
 * result, a token or a principal: whoever reads traces is not whoever may read runs.
 */
import {
  context,
  createTraceState,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  type Attributes,
  type Span,
  type SpanContext,
} from '@opentelemetry/api';
import type { Run } from './run.js';
import type { TraceContext } from './trace-context.js';

export type { Span };

/** What a step is: of ours alone, an answer to somebody, a question to somebody, or work taken from a queue. */
const spanKinds = {
  internal: SpanKind.INTERNAL,
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  consumer: SpanKind.CONSUMER,
} as const;

export interface SpanStart {
  readonly kind: keyof typeof spanKinds;
  /** A trace of its own when undefined. */
  readonly parent: TraceContext | undefined;
  readonly attributes?: Attributes;
  /** For a step that is told when it is over. */
  readonly startTime?: Date;
}

const tracer = trace.getTracer('holdfast');

export function startSpan(name: string, { kind, parent, ...rest }: SpanStart): Span {
  const from =
    parent === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, toSpanContext(parent));
  return tracer.startSpan(name, { kind: spanKinds[kind], ...rest }, from);
}

/** Where what a span asks for comes from; undefined when there is no trace. */
export function traceOf(span: Span): TraceContext | undefined {
  const { traceId, spanId, traceFlags, traceState } = span.spanContext();
  if (!trace.isSpanContextValid(span.spanContext())) return undefined;
  const tracestate = traceState?.serialize() ?? '';
  return {
    traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`,
    ...(tracestate !== '' && { tracestate }),
  };
}

/** Says that a span has to do with what happened elsewhere, mostly in another trace. */
export function addLink(span: Span, to: TraceContext | undefined): void {
  if (to !== undefined) span.addLink({ context: toSpanContext(to) });
}

/** @param errorType  a name of a closed list, when the step failed */
export function endSpan(
  span: Span,
  { errorType, endTime }: { readonly errorType?: string | undefined; readonly endTime?: Date } = {},
): void {
  if (errorType !== undefined) {
    span.setAttribute('error.type', errorType);
    span.setStatus({ code: SpanStatusCode.ERROR });
  }
  span.end(endTime);
}

/** A step that is over when `work` is; one that rejects is our fault. */
export async function traced<T>(name: string, start: SpanStart, work: () => Promise<T>): Promise<T> {
  const span = startSpan(name, start);
  try {
    const result = await work();
    endSpan(span);
    return result;
  } catch (error) {
    endSpan(span, { errorType: 'InternalError' });
    throw error;
  }
}

/** Does `work` as part of a span: what it traces by itself is below that. */
export function withinSpan<T>(span: Span, work: () => T): T {
  return context.with(trace.setSpan(context.active(), span), work);
}

/** What every span about a run says of it. */
export function runAttributes({ id, tool, toolClass }: Pick<Run, 'id' | 'tool' | 'toolClass'>): Attributes {
  return { 'holdfast.run.id': id, 'holdfast.tool.class': toolClass, 'gen_ai.tool.name': tool };
}

/** A version after 00 says what this one does in the same places (W3C Trace Context §4). */
function toSpanContext({ traceparent, tracestate }: TraceContext): SpanContext {
  const [, traceId, spanId, flags] = traceparent.split('-', 4) as [string, string, string, string];
  return {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16),
    isRemote: true,
    ...(tracestate !== undefined && { traceState: createTraceState(tracestate) }),
  };
}
