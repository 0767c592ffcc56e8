/** Revisions of MCP by their manner of speaking (PROTOCOL.md): with a handshake, or each request for itself. */
export type Era = 'legacy' | 'modern';

export const modernVersion = '2026-07-28';

/** Revisions with a handshake, the one we ask for first (BEHAVIOURS 91). */
export const legacyVersions = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'] as const;

const prefix = 'io.modelcontextprotocol/';

/** What `_meta` of every request of the modern era carries. We declare no capability (BEHAVIOURS 90). */
export function modernMeta(clientVersion: string): Record<string, unknown> {
  return {
    [`${prefix}protocolVersion`]: modernVersion,
    [`${prefix}clientCapabilities`]: {},
    [`${prefix}clientInfo`]: { name: clientName, version: clientVersion },
  };
}

export const clientName = 'holdfast';
export const serverInfoKey = `${prefix}serverInfo`;

/** What a server says of itself, cut to what people read; undefined when it is not the two texts it should be. */
export function readServerInfo(info: unknown): { name: string; version: string } | undefined {
  if (typeof info !== 'object' || info === null) return undefined;
  const { name, version } = info as Record<string, unknown>;
  if (typeof name !== 'string' || typeof version !== 'string') return undefined;
  return { name: name.slice(0, 200), version: version.slice(0, 100) };
}
