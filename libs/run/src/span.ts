/**
 * The steps of a call in its trace. Without an SDK (`libs/ops/src/tracing.ts`) a span records nothing and takes
 * the position of its parent, so that a host's trace still passes through.
 *
 * Names follow the OpenTelemetry conventions for MCP and RPC where these define one. No span contains an argument,
 * a result, a token or a principal: a person who may read traces may not be allowed to read runs.
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

/** The kind of a step: internal, answering a request, sending a request, or processing work from a queue. */
const spanKinds = {
  internal: SpanKind.INTERNAL,
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  consumer: SpanKind.CONSUMER,
} as const;

export interface SpanStart {
  readonly kind: keyof typeof spanKinds;
  /** If undefined, the span starts its own trace. */
  readonly parent: TraceContext | undefined;
  readonly attributes?: Attributes;
  /** For a step that is reported after it has ended. */
  readonly startTime?: Date;
}

const tracer = trace.getTracer('holdfast');

export function startSpan(name: string, { kind, parent, ...rest }: SpanStart): Span {
  const from =
    parent === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, toSpanContext(parent));
  return tracer.startSpan(name, { kind: spanKinds[kind], ...rest }, from);
}

/** The trace position to pass on with requests of a span; undefined without a trace. */
export function traceOf(span: Span): TraceContext | undefined {
  const { traceId, spanId, traceFlags, traceState } = span.spanContext();
  if (!trace.isSpanContextValid(span.spanContext())) return undefined;
  const tracestate = traceState?.serialize() ?? '';
  return {
    traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`,
    ...(tracestate !== '' && { tracestate }),
  };
}

/** Links a span to an event elsewhere, usually in another trace. */
export function addLink(span: Span, to: TraceContext | undefined): void {
  if (to !== undefined) span.addLink({ context: toSpanContext(to) });
}

/** @param errorType  a name of a closed list, if the step failed */
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

/** A step that ends when `work` ends; a rejection is a fault of Holdfast. */
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

/** Runs `work` as part of a span: its own spans are children of that span. */
export function withinSpan<T>(span: Span, work: () => T): T {
  return context.with(trace.setSpan(context.active(), span), work);
}

/** The attributes of every span about a run. */
export function runAttributes({ id, tool, toolClass }: Pick<Run, 'id' | 'tool' | 'toolClass'>): Attributes {
  return { 'holdfast.run.id': id, 'holdfast.tool.class': toolClass, 'gen_ai.tool.name': tool };
}

/** Versions after 00 have the fields of this one in the same places (W3C Trace Context §4). */
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
