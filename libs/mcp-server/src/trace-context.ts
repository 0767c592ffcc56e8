/** Where a call comes from in the trace of its host, as W3C Trace Context writes it. */
export interface TraceContext {
  readonly traceparent: string;
  readonly tracestate?: string;
}

/** Version, trace, parent and flags, none of them all zeros; a later version may say more (W3C Trace Context §3.2). */
const traceparentForm =
  /^(?!ff)(?:00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}|(?!00)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-[\x21-\x7e]{0,128})?)$/;
/** Members `key=value`, separated by commas (§3.3); longer ones may be dropped. */
const tracestateForm = /^[a-z0-9][^,=]{0,255}=[^,=]{0,256}(?:,[^,=]{1,256}=[^,=]{0,256}){0,31}$/;
const longestTracestate = 512;

/** What the headers or the `_meta` of a request say of its trace; undefined unless it is well-formed (F198). */
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
