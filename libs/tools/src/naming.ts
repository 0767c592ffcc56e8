import { createHash } from 'node:crypto';
import type { ServerCatalogue } from './server-catalogue.js';

/** How the tools of upstreams are called by hosts (BEHAVIOURS X2). */
export const namingStyles = ['double-underscore', 'mcp-prefix', 'dotted'] as const;
export type NamingStyle = (typeof namingStyles)[number];

/** The longest name that every provider of models takes; and the least that leaves room for the digits of a hash. */
export const longestName = 64;
export const leastLongestName = 40;

/** What of a server decides about the names of its tools. */
export type NamedServer = Pick<ServerCatalogue, 'key' | 'id' | 'identity' | 'sharesId'> & {
  readonly tools: readonly { readonly name: string }[];
};

export interface NamingInput {
  /** Names of the tools that workers registered. They stay as they are. */
  readonly localNames: readonly string[];
  /** Every server with all its tools, whoever may see them: a name depends on nothing else. */
  readonly servers: readonly NamedServer[];
  readonly style: NamingStyle;
  /** No name is longer; for hosts that put a prefix of their own before it. 40 to 64. */
  readonly maxLength?: number;
}

export interface ProjectedNames {
  /** The name that hosts see, by key of the server and bare name. */
  readonly exposed: ReadonlyMap<string, ReadonlyMap<string, string>>;
  /** Tools that no legal name can be made for. */
  readonly leftOut: readonly LeftOutName[];
}

export interface LeftOutName {
  /** Key of the server. */
  readonly server: string;
  /** The bare name. */
  readonly tool: string;
  readonly reason: string;
}

/** A tool on its way to a name. */
interface Candidate {
  readonly server: NamedServer;
  readonly tool: string;
  /** Its name in the style, legal or not. */
  readonly styled: string;
  /** The hex digits that its suffix is taken from. */
  hash: string;
  /** How many digits of them it carries. */
  digits: 0 | 8 | 16 | 32;
}

/**
 * The names under which hosts see the tools of upstreams (BEHAVIOURS 169-175, R14): a pure function
 * of all definitions together, so every process makes the same names in whatever order it learnt
 * of them, and no two tools ever share one.
 *
 * A name that is legal is not touched. One that is not has its bad characters replaced by `_` and
 * ends in eight digits of its hash. Servers of one id each carry digits of their identity. Of
 * tools that would still meet, every one carries digits, more of them until they no longer do.
 */
export function projectNames({
  localNames,
  servers,
  style,
  maxLength = longestName,
}: NamingInput): ProjectedNames {
  const leftOut: LeftOutName[] = [];
  const candidates: Candidate[] = [];
  const prefixes = prefixesOf(servers);
  for (const server of servers) {
    const prefix = prefixes.get(server)!;
    for (const { name: tool } of server.tools) {
      if (tool === '') {
        leftOut.push({ server: server.key, tool, reason: 'it has no name' });
        continue;
      }
      const styled = styledName(style, prefix, tool);
      const digits = isLegal(styled, style, maxLength) ? 0 : 8;
      candidates.push({ server, tool, styled, hash: sha256(`${prefix}__${tool}`), digits });
    }
  }
  tellApart(candidates);
  const exposed = settle(candidates, new Set(localNames), style, maxLength, leftOut);
  leftOut.sort((a, b) => (a.server + a.tool < b.server + b.tool ? -1 : 1));
  return { exposed, leftOut };
}

/** Two pairs of server and tool may spell one text (`a__b` + `c`, `a` + `b__c`): their hash is made of the parts. */
function tellApart(candidates: readonly Candidate[]): void {
  for (const alike of groups(candidates, ({ hash }) => hash).values()) {
    if (alike.length === 1) continue;
    for (const candidate of alike) candidate.hash = sha256(`${candidate.server.key}\n${candidate.tool}`);
  }
}

/** Gives all that meet, or that take the name of a local tool, more digits, until none do. */
function settle(
  candidates: readonly Candidate[],
  taken: ReadonlySet<string>,
  style: NamingStyle,
  maxLength: number,
  leftOut: LeftOutName[],
): Map<string, Map<string, string>> {
  let open = candidates;
  for (;;) {
    const met = [...groups(open, (candidate) => nameOf(candidate, style, maxLength))]
      .filter(([name, parties]) => parties.length > 1 || taken.has(name))
      .flatMap(([, parties]) => parties);
    if (met.length === 0) break;
    const given = met.filter(({ digits }) => digits < 32);
    for (const candidate of given)
      candidate.digits = candidate.digits === 0 ? 8 : candidate.digits === 8 ? 16 : 32;
    if (given.length > 0) continue;
    for (const { server, tool } of met)
      leftOut.push({ server: server.key, tool, reason: 'its name cannot be told from that of another tool' });
    open = open.filter((candidate) => !met.includes(candidate));
  }
  const exposed = new Map<string, Map<string, string>>();
  for (const candidate of open) {
    const { key } = candidate.server;
    if (!exposed.has(key)) exposed.set(key, new Map());
    exposed.get(key)!.set(candidate.tool, nameOf(candidate, style, maxLength));
  }
  return exposed;
}

/** The id of each server; of servers that share one, with digits of their identity (BEHAVIOURS 172). */
function prefixesOf(servers: readonly NamedServer[]): Map<NamedServer, string> {
  const prefixes = new Map(servers.map((server) => [server, server.id]));
  // A server without tools may be one that is gone: it takes nobody's name.
  const named = servers.filter(({ tools }) => tools.length > 0);
  for (const alike of groups(named, ({ id }) => id).values()) {
    // The settings decide, so that a name does not change when the other server is listed.
    if (alike.length === 1 && alike[0]!.sharesId !== true) continue;
    const short = new Set(alike.map(({ identity }) => identity.slice(0, 8)));
    const digits = short.size === alike.length ? 8 : 16;
    for (const server of alike) prefixes.set(server, `${server.id}_${server.identity.slice(0, digits)}`);
  }
  return prefixes;
}

function styledName(style: NamingStyle, prefix: string, tool: string): string {
  switch (style) {
    case 'double-underscore':
      return `${prefix}__${tool}`;
    case 'dotted':
      return `${prefix}.${tool}`;
    case 'mcp-prefix':
      return withoutBad(`mcp_${prefix}_${tool}`.toLowerCase(), style);
  }
}

function isLegal(name: string, style: NamingStyle, maxLength: number): boolean {
  const legal = style === 'dotted' ? /^[a-zA-Z0-9_.-]+$/ : /^[a-zA-Z0-9_-]+$/;
  return legal.test(name) && name.length <= maxLength && !isReservedName(name);
}

/** Whether a name is kept for tools of our own (BEHAVIOURS 175). */
export function isReservedName(name: string): boolean {
  return /^(mcp|holdfast)__/.test(name);
}

function nameOf({ styled, hash, digits }: Candidate, style: NamingStyle, maxLength: number): string {
  if (digits === 0) return styled;
  const rewritten = withoutBad(styled, style).replace(/^(mcp|holdfast)__+/, '$1-');
  return `${rewritten.slice(0, maxLength - digits - 1)}_${hash.slice(0, digits)}`;
}

function withoutBad(name: string, style: NamingStyle): string {
  return name.replace(style === 'dotted' ? /[^a-zA-Z0-9_.-]/gu : /[^a-zA-Z0-9_-]/gu, '_');
}

function groups<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const byKey = new Map<string, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = byKey.get(key);
    if (group === undefined) byKey.set(key, [item]);
    else group.push(item);
  }
  return byKey;
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
