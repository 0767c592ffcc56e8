import { setImmediate } from 'node:timers/promises';
import { type Connection, ConnectionFault, naming } from '@holdfast/mcp-client';
import { readListedTool, type UpstreamTool } from '@holdfast/tools';

export interface ListingLimits {
  readonly maxPages: number;
  readonly maxTools: number;
  /** For the whole listing. */
  readonly timeoutMs: number;
}

export interface Listing {
  readonly tools: readonly UpstreamTool[];
  /** Tools left out alone, each with its reason: no host or model could use them (BEHAVIOURS X21, F55). */
  readonly leftOut: readonly { readonly name: string; readonly problem: string }[];
  /** For how long the server says that its list holds, the least of its pages; Infinity where it does not say. */
  readonly ttlMs: number;
}

/**
 * Reads the tools of a server to their end, or not at all (BEHAVIOURS 84, 85).
 *
 * @throws ConnectionFault `listing` for what cannot be read to its end; whatever the connection threw otherwise
 */
export async function listTools(
  connection: Connection,
  server: string,
  limits: ListingLimits,
): Promise<Listing> {
  const tools = new Map<string, UpstreamTool>();
  const names = new Set<string>();
  const leftOut: { name: string; problem: string }[] = [];
  const cursors = new Set<string>();
  const patience = AbortSignal.timeout(limits.timeoutMs);
  const fail = (what: string): ConnectionFault =>
    new ConnectionFault('listing', `the tools of ${server} cannot be read to their end: ${what}`);
  let cursor: string | undefined;
  let pages = 0;
  let ttlMs = Infinity;
  do {
    const page = readPage(
      await pageOf(connection, cursor, patience, server, () =>
        fail(`not done within ${limits.timeoutMs} ms (${pages} pages read)`),
      ),
    );
    if (typeof page === 'string') throw fail(`page ${pages + 1} ${page}`);
    pages++;
    ttlMs = Math.min(ttlMs, page.ttlMs);
    for (const entry of page.tools) {
      const read = readListedTool(entry);
      const { name } = entry as { readonly name?: string };
      if (read.name === undefined || name === undefined) throw fail(`page ${pages} lists what is no tool`);
      if (names.has(name)) throw fail(`${JSON.stringify(name.slice(0, 128))} is listed twice`);
      names.add(name);
      if (names.size > limits.maxTools)
        throw fail(`it has more than ${limits.maxTools} tools; raise max_tools`);
      if ('problem' in read) leftOut.push({ name: name.slice(0, 128), problem: read.problem });
      else tools.set(name, read);
      // A schema takes up to a second to compile: calls of other servers go in between.
      await setImmediate();
    }
    cursor = page.nextCursor;
    if (cursor === undefined) break;
    if (cursors.has(cursor)) throw fail(`its cursor repeats after ${pages} pages`);
    cursors.add(cursor);
    if (pages >= limits.maxPages)
      throw fail(`it has more than ${limits.maxPages} pages; raise max_tool_pages`);
  } while (true);
  return { tools: [...tools.values()], leftOut, ttlMs };
}

async function pageOf(
  connection: Connection,
  cursor: string | undefined,
  patience: AbortSignal,
  server: string,
  tooLate: () => ConnectionFault,
): Promise<unknown> {
  try {
    return await connection.listPage(cursor, patience);
  } catch (error) {
    if (patience.aborted) throw tooLate();
    throw error instanceof ConnectionFault ? naming(server, error) : error;
  }
}

interface Page {
  readonly tools: readonly object[];
  readonly nextCursor: string | undefined;
  /** Infinity where it does not say, or says 0, which is no time after which to ask again. */
  readonly ttlMs: number;
}

/** A page, or what is wrong with it. */
function readPage(page: unknown): Page | string {
  if (typeof page !== 'object' || page === null || Array.isArray(page)) return 'is no object';
  const { tools, nextCursor, ttlMs } = page as { tools?: unknown; nextCursor?: unknown; ttlMs?: unknown };
  if (!Array.isArray(tools)) return 'has no list of tools';
  if (!tools.every((tool) => typeof tool === 'object' && tool !== null)) return 'lists what is no tool';
  if (nextCursor !== undefined && nextCursor !== null && typeof nextCursor !== 'string')
    return 'has a cursor that is no text';
  return {
    tools: tools as object[],
    nextCursor: nextCursor === null || nextCursor === '' ? undefined : nextCursor,
    ttlMs: typeof ttlMs === 'number' && ttlMs > 0 ? ttlMs : Infinity,
  };
}
