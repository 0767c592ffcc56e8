/**
 * A call of a tool that an upstream MCP server publishes: the part that a run keeps, the request of a worker
 * to the connector, and the findings of the connector. Only facts; `retry.ts` decides.
 */
import type { CallErrorName } from './errors.js';
import type { Principal } from './principal.js';
import type { Progress } from './progress.js';
import type { RunId } from './run-id.js';
import type { ToolClass } from './tool-class.js';

/**
 * The workflow of every call to one upstream. Workers claim by it, so one slow upstream does not delay
 * calls to others.
 *
 * @param server its key in this deployment
 */
export function laneOf(server: string): string {
  return `server:${server}`;
}

/**
 * The subject of a connector lease in the store: a server, or the place of one connector at a server
 * that every connector may serve (`placement: every`).
 *
 * @param server    its key in this deployment
 * @param connector the id of the connector, for its own place
 */
export function leaseName(server: string, connector?: string): string {
  return connector === undefined ? server : `${server}#${connector}`;
}

/** The key of the server of a lease. */
export function serverOfLease(lease: string): string {
  return lease.split('#', 1)[0]!;
}

/** A worker that registers with this workflow serves every lane. */
export const everyLane = laneOf('*');

/** The upstream and tool that a run calls; recorded at its submission. */
export interface UpstreamTarget {
  /** Key of the server in this deployment (`ServerCatalogue.key`). */
  readonly server: string;
  /** The bare name, as the upstream published it. */
  readonly tool: string;
  /** Digest of the definition that the call was checked against. */
  readonly fingerprint: string;
  /** The part of the host's `_meta` that is passed on: the keys of vendors. */
  readonly meta?: Readonly<Record<string, unknown>>;
}

/** One call as a worker passes it to the connector. */
export interface UpstreamRequest {
  readonly server: string;
  readonly tool: string;
  readonly runId: RunId;
  /** The arguments as JSON text, passed on unchanged. */
  readonly arguments: string;
  /** The keys of vendors, and `traceparent` and `tracestate` of the calling step. */
  readonly meta: Readonly<Record<string, unknown>>;
  readonly principal: Principal | null;
  /** The fence of the attempt; the dispatch mark is made on it. */
  readonly claim: { readonly seq: number; readonly token: string };
  /** A write is sent only with the dispatch mark on its claim (BEHAVIOURS X11). */
  readonly toolClass: ToolClass;
  /** Whether the call may be sent although the mark already exists, that is, again after an unknown outcome. */
  readonly isResendable: boolean;
  /** Time limit from the first byte to the answer, in milliseconds. Time in the connector's queue does not count. */
  readonly timeoutMs: number;
}

/** The caller that waits for one call. */
export interface UpstreamWaiter {
  /** Aborts when nobody waits any more; the server is notified. */
  readonly signal: AbortSignal;
  readonly onProgress: (progress: Progress) => void;
}

/** The end of one call, as far as the connector can know it. */
export type UpstreamOutcome =
  | {
      readonly kind: 'ran';
      /** A `CallToolResult` as JSON text, recorded unchanged. */
      readonly result: string;
      /** The text of a result with `isError`. */
      readonly error?: string;
    }
  /** The upstream or the connector rejected the call: nothing ran. */
  | {
      readonly kind: 'refused';
      readonly name: CallErrorName;
      readonly message: string;
      /** The pause that the upstream asked for. */
      readonly retryAfterMs?: number;
      /** What the upstream said beside its message, bounded. */
      readonly data?: unknown;
    }
  /** The call certainly never left. */
  | { readonly kind: 'not_sent'; readonly name: CallErrorName; readonly message: string }
  /** The call may have run. */
  | {
      readonly kind: 'unknown';
      readonly why: 'timeout' | 'dropped' | 'aborted';
      /** The observation, for people: `the connection was lost after the call was sent`. */
      readonly message: string;
    };
