const maxMs = 24 * 3600 * 1000;

/** Milliseconds that a `Retry-After` header asks for, at most a day; undefined when it asks for nothing that can be read. */
export function retryAfterMs(header: string | undefined, now: Date): number | undefined {
  if (header === undefined) return undefined;
  const text = header.trim();
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now.getTime();
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), maxMs);
}
