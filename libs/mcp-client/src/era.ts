import { legacyVersions, metaKeys, modernVersion } from '@holdfast/protocol';
import { isObject } from './is-object.js';

/** Revisions of MCP by their manner of speaking (PROTOCOL.md): with a handshake, or each request for itself. */
export type Era = 'legacy' | 'modern';

const clientName = 'holdfast';

/** What `initialize` says of us. We declare no capability (BEHAVIOURS 90). */
export function initializeParams(clientVersion: string): Record<string, unknown> {
  return {
    protocolVersion: legacyVersions[0],
    capabilities: {},
    clientInfo: { name: clientName, version: clientVersion },
  };
}

/** What `_meta` of every request of the modern era carries; the same as `initialize` says. */
export function modernMeta(clientVersion: string): Record<string, unknown> {
  return {
    [metaKeys.protocolVersion]: modernVersion,
    [metaKeys.clientCapabilities]: {},
    [metaKeys.clientInfo]: { name: clientName, version: clientVersion },
  };
}

/** What a server says of itself, for people. */
export interface ServerInfo {
  readonly name: string;
  readonly version: string;
}

/** Cut to what people read; undefined when it is not the two texts it should be. */
export function readServerInfo(info: unknown): ServerInfo | undefined {
  if (!isObject(info)) return undefined;
  const { name, version } = info;
  if (typeof name !== 'string' || typeof version !== 'string') return undefined;
  return { name: name.slice(0, 200), version: version.slice(0, 100) };
}

/** The same of a server of the modern era, out of the `_meta` of a result. */
export function readModernServerInfo(meta: unknown): ServerInfo | undefined {
  return readServerInfo(isObject(meta) ? meta[metaKeys.serverInfo] : undefined);
}

/** Whether the capabilities of a server name tools. */
export function hasTools(capabilities: unknown): boolean {
  return isObject(capabilities) && capabilities['tools'] != null;
}

/** A revision as an upstream names it, where it looks like one: no text of an upstream goes into a message. */
export function revisionName(version: unknown): string {
  return typeof version === 'string' && /^[\w.-]{1,40}$/.test(version) ? version : 'an unknown revision';
}

/** Of a server that speaks none of them: what would do. */
export const knownRevisions = `known are ${legacyVersions.join(', ')} and ${modernVersion}`;
