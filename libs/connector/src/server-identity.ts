import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import type { StdioSettings } from '@holdfast/mcp-client';
import type { HttpSettings } from './server-settings.js';

/**
 * SHA-256 in hex of what a server is: `type\nurl`, or `stdio\n` and the canonical JSON of
 * `[command, ...args]`, as the operator wrote them, placeholders and all (BEHAVIOURS R14). The same
 * for as long as an operator points it at the same thing.
 */
export function serverIdentity(transport: HttpSettings | StdioSettings): string {
  const text =
    transport.kind === 'stdio'
      ? `stdio\n${canonicalize([transport.command, ...transport.args])}`
      : `${transport.kind}\n${transport.url}`;
  return createHash('sha256').update(text).digest('hex');
}

/** What a server is called in one deployment: `<id>_<first 8 hex digits of its identity>`. */
export function serverKey(id: string, transport: HttpSettings | StdioSettings): string {
  return `${id}_${serverIdentity(transport).slice(0, 8)}`;
}
