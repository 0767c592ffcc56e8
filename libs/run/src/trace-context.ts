/** A position in a trace, as W3C Trace Context writes it: the origin of a call or of one of its steps. */
export interface TraceContext {
  readonly traceparent: string;
  readonly tracestate?: string;
}

/** Version, trace, parent and flags, none of them all zeros; a later version may add fields (W3C Trace Context §3.2). */
const traceparentForm =
  /^(?!ff)(?:00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}|(?!00)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-[\x21-\x7e]{0,128})?)$/;
/** Members `key=value`, separated by commas (§3.3); longer values may be dropped. */
const tracestateForm = /^[a-z0-9][^,=]{0,255}=[^,=]{0,256}(?:,[^,=]{1,256}=[^,=]{0,256}){0,31}$/;
const longestTracestate = 512;

/** Reads the trace from the headers or the `_meta` of a request; undefined unless it is well-formed (F198). */
export function readTraceContext(from: { readonly [name: string]: unknown }): TraceContext | undefined {
  const { traceparent, tracestate } = from;
  if (typeof traceparent !== 'string' || !traceparentForm.test(traceparent)) return undefined;
  const isStateGood =
    typeof tracestate === 'string' &&
    tracestate.length <= longestTracestate &&
    /^[\t\x20-\x7e]+$/.test(tracestate) &&
    tracestateForm.test(tracestate);
  return { traceparent, ...(isStateGood && { tracestate }) };
}

/** The id that joins spans and log lines of a trace: 32 hex digits; undefined without a trace. */
export function traceIdOf(trace: TraceContext | undefined): string | undefined {
  return trace?.traceparent.split('-', 2)[1];
}

/** Returns `meta` with the trace of the next hop instead of any other (MCP `_meta`, SEP-414). */
export function withTrace(
  { traceparent: _parent, tracestate: _state, ...rest }: Readonly<Record<string, unknown>>,
  trace: TraceContext | undefined,
): Readonly<Record<string, unknown>> {
  return { ...rest, ...trace };
}
