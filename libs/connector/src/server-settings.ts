import type { StdioSettings } from '@holdfast/mcp-client';
import type { ServerRules } from '@holdfast/tools';

/** One upstream server as an operator wrote it, checked and with its defaults (BEHAVIOURS §4a). Placeholders are still in it. */
export interface ServerSettings {
  readonly id: string;
  readonly name: string;
  readonly enabled: boolean;
  /** A connector is not ready without it, and ends when its first tries to connect fail (BEHAVIOURS X7). */
  readonly required: boolean;
  readonly transport: HttpSettings | StdioSettings;
  readonly rules: ServerRules;
  readonly connectTimeoutMs: number;
  /** Tries in all to open a connection, the first included. */
  readonly connectRetries: number;
  /** After the first try; doubles with each. */
  readonly connectBackoffMs: number;
  readonly maxToolPages: number;
  readonly maxTools: number;
  /** How long a catalogue is served before it is listed again in the background; undefined: until the server says that it changed. */
  readonly cacheTtlMs?: number;
  /** Whether one connector owns it at a time, or each has a place of its own. */
  readonly placement: 'single' | 'every';
  /** Whether all callers share a connection, or each has one (BEHAVIOURS R15). */
  readonly sessionScope: 'server' | 'principal';
}

export interface HttpSettings {
  readonly kind: 'http' | 'sse';
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly allowedHosts?: readonly string[];
  readonly allowPrivate?: boolean;
  /** A module whose default export gives headers for a caller; then each caller has a connection of his own (BEHAVIOURS 121). */
  readonly credentialsModule?: string;
}
