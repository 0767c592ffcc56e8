/**
 * A call of a tool that an upstream MCP server publishes: what a run keeps of it, what a worker
 * asks the connector for, and what the connector found out. Facts only; `retry.ts` decides.
 */
import type { CallErrorName } from './errors.js';
import type { Principal } from './principal.js';
import type { Progress } from './progress.js';
import type { RunId } from './run-id.js';
import type { ToolClass } from './tool-class.js';

/**
 * The workflow of every call to one upstream: workers claim by it, and one slow upstream holds up
 * nobody else's calls.
 *
 * @param server its key in this deployment
 */
export function laneOf(server: string): string {
  return `server:${server}`;
}

/**
 * What a connector owns by a lease in the store: a server, or of one that every connector may serve
 * (`placement: every`) a place of its own.
 *
 * @param server    its key in this deployment
 * @param connector the id of the connector, for a place of its own
 */
export function leaseName(server: string, connector?: string): string {
  return connector === undefined ? server : `${server}#${connector}`;
}

/** The key of the server that a lease is about. */
export function serverOfLease(lease: string): string {
  return lease.split('#', 1)[0]!;
}

/** A worker that joins with this among its workflows serves every lane. */
export const everyLane = laneOf('*');

/** Which tool of which upstream a run calls; recorded when it is submitted. */
export interface UpstreamTarget {
  /** Key of the server in this deployment (`ServerCatalogue.key`). */
  readonly server: string;
  /** The bare name, as the upstream published it. */
  readonly tool: string;
  /** Digest of the definition that the call was checked against. */
  readonly fingerprint: string;
  /** Of the host's `_meta` what passes on: the keys of vendors. */
  readonly meta?: Readonly<Record<string, unknown>>;
}

/** One call as a worker hands it to the connector. */
export interface UpstreamRequest {
  readonly server: string;
  readonly tool: string;
  readonly runId: RunId;
  /** The arguments as JSON text, passed on as they are. */
  readonly arguments: string;
  /** The keys of vendors, and `traceparent` and `tracestate` of the step that asks. */
  readonly meta: Readonly<Record<string, unknown>>;
  readonly principal: Principal | null;
  /** The fence of the attempt; the dispatch mark is made on it. */
  readonly claim: { readonly seq: number; readonly token: string };
  /** A write is sent only with the dispatch mark on its claim (BEHAVIOURS X11). */
  readonly toolClass: ToolClass;
  /** Whether it may be sent though the mark was there before: again, when its outcome is not known. */
  readonly isResendable: boolean;
  /** From the first byte to the answer, in milliseconds. Waiting in the connector's queue does not count. */
  readonly timeoutMs: number;
}

/** Who waits for one call. */
export interface UpstreamWaiter {
  /** Aborts when nobody waits any more; the server is told. */
  readonly signal: AbortSignal;
  readonly onProgress: (progress: Progress) => void;
}

/** What became of one call, as far as the connector can know. */
export type UpstreamOutcome =
  | {
      readonly kind: 'ran';
      /** A `CallToolResult` as JSON text, as it is recorded. */
      readonly result: string;
      /** The text of a result that says `isError`. */
      readonly error?: string;
    }
  /** The upstream, or the connector, said no: nothing ran. */
  | {
      readonly kind: 'refused';
      readonly name: CallErrorName;
      readonly message: string;
      /** The upstream asked to wait this long. */
      readonly retryAfterMs?: number;
    }
  /** It certainly never left. */
  | { readonly kind: 'not_sent'; readonly name: CallErrorName; readonly message: string }
  /** It may have run. */
  | {
      readonly kind: 'unknown';
      readonly why: 'timeout' | 'dropped' | 'aborted';
      /** What was seen, for people: `the connection was lost after the call was sent`. */
      readonly message: string;
    };
