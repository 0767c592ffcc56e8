/** The `_meta` of a request or a result. */
export type Meta = Readonly<Record<string, unknown>>;

/** Keys of the protocol and of ours; they are made anew for each hop. */
function isReserved(key: string): boolean {
  return key.startsWith('io.modelcontextprotocol/') || key.startsWith('holdfast/');
}

/** Keys of a request that are read by whoever gets it, and told anew to the next one. */
const ofThisHop = new Set(['progressToken', 'idempotency_key', 'traceparent', 'tracestate']);

/** What of a host's `_meta` an upstream gets as it is: the keys of vendors (PROTOCOL.md). The token is only ours. */
export function passedOnMeta(meta: Meta): Meta {
  return without(meta, (key) => ofThisHop.has(key) || isReserved(key));
}

/** What of an upstream's `_meta` a host gets. */
export function returnedMeta(meta: Meta): Meta {
  return without(meta, isReserved);
}

function without(meta: Meta, isLeftOut: (key: string) => boolean): Meta {
  return Object.fromEntries(Object.entries(meta).filter(([key]) => !isLeftOut(key)));
}
