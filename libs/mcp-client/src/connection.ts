import type { Progress } from '@holdfast/run';
import type { ServerInfo } from './era.js';
import type { RpcError } from './json-rpc.js';

/** What every kind of connection is to the rest of this library: Streamable HTTP, HTTP+SSE and stdio. */
export interface Connection {
  /** The revision that both ends agreed on. */
  readonly protocolVersion: string;
  readonly serverInfo: ServerInfo | undefined;
  /** Whether requests of this connection can go out. False once it was lost or closed; it never comes back. */
  readonly isOpen: boolean;

  /**
   * One page of `tools/list`, as it came.
   * @throws ConnectionFault
   */
  listPage(cursor: string | undefined, signal: AbortSignal): Promise<unknown>;

  /**
   * Asks for the credentials of the caller anew, where he may have some: they go with everything from then on.
   * @throws ConnectionFault
   */
  renewCredentials?(signal: AbortSignal): Promise<void>;

  /** Sends one `tools/call`, at most once. Never rejects, but for what `beforeSend` threw. */
  send(call: OutgoingCall, options: SendOptions): Promise<Sent>;

  /** Calls `listener` when the server says that its tools changed. */
  onToolsChanged(listener: () => void): void;

  /** Lets go of the session, sockets or child process. Never rejects; a second call does nothing. */
  close(): Promise<void>;
}

export interface OutgoingCall {
  readonly tool: string;
  /** The arguments as JSON text, passed on as they are. */
  readonly arguments: string;
  /** Goes into `_meta`, beside what the protocol itself wants there. */
  readonly meta: Readonly<Record<string, unknown>>;
  /** The schema's `x-mcp-header` wishes, by header name, for a server of 2026-07-28 (BEHAVIOURS X21). */
  readonly paramHeaders: Readonly<Record<string, string>>;
}

export interface SendOptions {
  /** Awaited when everything is ready, just before the first byte leaves. When it throws nothing is sent, and `send` rejects with that. */
  readonly beforeSend: () => Promise<void>;
  /** Ends the wait; the server is told by `notifications/cancelled`, or by the end of the stream. */
  readonly signal: AbortSignal;
  /** From the first byte to the answer. */
  readonly timeoutMs: number;
  readonly onProgress: (progress: Progress) => void;
}

/** What is known of one send: facts only (BEHAVIOURS R16). */
export type Sent =
  /** A JSON-RPC result, read by `parseJson` so that numbers keep their digits. */
  | { readonly kind: 'result'; readonly result: unknown }
  /** A JSON-RPC error: the server's definite answer. */
  | ({ readonly kind: 'error' } & RpcError)
  /** An HTTP status that says that nothing ran. */
  | {
      readonly kind: 'status';
      readonly status: number;
      /** What the server said of it. */
      readonly reason?: string;
      readonly retryAfterMs?: number;
    }
  /** The server no longer has the session that the call named (404, or 400 of an older one), and ran nothing. */
  | { readonly kind: 'session-lost' }
  /** No byte left. */
  | { readonly kind: 'not-sent'; readonly reason: string }
  /** Sent, and no answer came that tells what happened. */
  | { readonly kind: 'lost'; readonly why: 'timeout' | 'dropped' | 'aborted'; readonly reason: string };

/** Why there is no connection, or no list. The message names no secret; of a body it quotes a JSON-RPC error alone. */
export class ConnectionFault extends Error {
  readonly code: ConnectionFaultCode;

  constructor(code: ConnectionFaultCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ConnectionFault';
    this.code = code;
  }
}

export type ConnectionFaultCode =
  /** 401 or 403. */
  | 'auth'
  /** Refused by the address guard, or by the settings; trying again does not help. */
  | 'blocked'
  /** Not reached, or it broke: trying again may help. */
  | 'unreachable'
  /** It answers, but not as an MCP server of a revision that we speak. */
  | 'protocol'
  /** Its tools cannot be read to their end (BEHAVIOURS 85). */
  | 'listing'
  /** A variable that its settings name is not there, or may not be read. */
  | 'variable';

/** The same fault, with the name of its server in the message. */
export function naming(server: string, fault: ConnectionFault): ConnectionFault {
  const { code, message } = fault;
  return message.includes(server)
    ? fault
    : new ConnectionFault(code, `${server}: ${message}`, { cause: fault });
}
