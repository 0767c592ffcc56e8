import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { type Connection, ConnectionFault, naming } from '@holdfast/mcp-client';
import { writeJson } from '@holdfast/run';
import { readListedTool, type FitTool, type UnfitTool, type UpstreamTool } from '@holdfast/tools';

export interface ListingLimits {
  readonly maxPages: number;
  readonly maxTools: number;
  /** For the whole listing. */
  readonly timeoutMs: number;
}

/** All definitions of a server together, in bytes of their JSON: each host gets them with every list. */
const maxCatalogueBytes = 8 * 1024 * 1024;

/** Definitions that were read already, by digest of their JSON. */
export type ReadDefinitions = ReadonlyMap<string, FitTool | UnfitTool>;

export interface Listing {
  /** By name, whatever order the server gives them in. */
  readonly tools: readonly UpstreamTool[];
  /** Tools left out alone, each with its reason: no host or model could use them (BEHAVIOURS X21, F55). */
  readonly leftOut: readonly { readonly name: string; readonly problem: string }[];
  /** Tools without the flaws of their schemas: path and keyword of each. */
  readonly flawed: readonly { readonly name: string; readonly flaws: readonly string[] }[];
  /** What the next listing need not read again. */
  readonly read: ReadDefinitions;
  /** For how long the server says that its list holds, the least of its pages; Infinity where it does not say. */
  readonly ttlMs: number;
}

/**
 * Reads the tools of a server to their end, or not at all (BEHAVIOURS 84, 85).
 *
 * @param known definitions that an earlier listing read; those that come again byte by byte are taken from there
 * @throws ConnectionFault `listing` for what cannot be read to its end; whatever the connection threw otherwise
 */
export async function listTools(
  connection: Connection,
  server: string,
  limits: ListingLimits,
  known: ReadDefinitions = new Map(),
): Promise<Listing> {
  const tools = new Map<string, UpstreamTool>();
  const names = new Set<string>();
  const leftOut: { name: string; problem: string }[] = [];
  const flawed: { name: string; flaws: readonly string[] }[] = [];
  const definitions = new Map<string, FitTool | UnfitTool>();
  let bytes = 0;
  const cursors = new Set<string>();
  const patience = AbortSignal.timeout(limits.timeoutMs);
  const fail = (what: string): ConnectionFault =>
    new ConnectionFault('listing', `the tools of ${server} cannot be read to their end: ${what}`);
  let cursor: string | undefined;
  let pages = 0;
  let ttlMs = Infinity;
  const tooLate = (): ConnectionFault =>
    fail(`not done within ${limits.timeoutMs} ms (${pages} pages read); raise connect_timeout`);
  do {
    const page = readPage(await pageOf(connection, cursor, patience, server, tooLate));
    if (typeof page === 'string') throw fail(`page ${pages + 1} ${page}`);
    pages++;
    ttlMs = Math.min(ttlMs, page.ttlMs);
    for (const entry of page.tools) {
      if (patience.aborted) throw tooLate();
      const { text, digest } = written(entry);
      const read = (digest === undefined ? undefined : known.get(digest)) ?? readListedTool(entry);
      if (digest !== undefined) definitions.set(digest, read);
      const name = 'problem' in read ? read.name : read.tool.name;
      if (name === undefined) throw fail(`page ${pages} lists what is no tool`);
      const shown = name.slice(0, 128);
      if ('problem' in read) leftOut.push({ name: shown, problem: read.problem });
      else if (tools.has(name))
        leftOut.push({ name: shown, problem: 'is listed twice; the first one is served' });
      else {
        tools.set(name, read.tool);
        bytes += Buffer.byteLength(text);
        if (read.flaws.length > 0) flawed.push({ name: shown, flaws: read.flaws });
      }
      names.add(name);
      if (names.size > limits.maxTools)
        throw fail(`it has more than ${limits.maxTools} tools; raise max_tools`);
      if (bytes > maxCatalogueBytes)
        throw fail(`its definitions are longer than ${maxCatalogueBytes / 1024 / 1024} MiB together`);
      // A long definition takes a moment to read: calls of other servers go in between.
      await setImmediate();
    }
    cursor = page.nextCursor;
    if (cursor === undefined) break;
    if (cursors.has(cursor)) throw fail(`its cursor repeats after ${pages} pages`);
    cursors.add(cursor);
    if (pages >= limits.maxPages)
      throw fail(`it has more than ${limits.maxPages} pages; raise max_tool_pages`);
  } while (true);
  const sorted = [...tools.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  return { tools: sorted, leftOut, flawed, read: definitions, ttlMs };
}

/** An entry as JSON, and the digest of that. One that nests too deeply to be written is read anew each time. */
function written(entry: object): { readonly text: string; readonly digest: string | undefined } {
  let text = '';
  try {
    text = writeJson(entry)!;
  } catch {
    return { text, digest: undefined };
  }
  return { text, digest: createHash('sha256').update(text).digest('base64') };
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
    // An empty cursor is one (BEHAVIOURS 85).
    nextCursor: nextCursor ?? undefined,
    ttlMs: typeof ttlMs === 'number' && ttlMs > 0 ? ttlMs : Infinity,
  };
}
