import type { OnCrash, ToolClass } from '@holdfast/run';
import type { JsonSchema } from './schema.js';

/**
 * What gateways and workers know of an upstream server: plain JSON without a secret, published by
 * the connector that owns it. A server that is gone keeps its entry, without tools, so that runs
 * which wait for it come to an end.
 */
export interface ServerCatalogue {
  /** Unique in the deployment: the id and eight hex digits of the identity. */
  readonly key: string;
  /** The operator's word for the server, part of each tool name: 1 to 32 of `a-z 0-9 - _`. */
  readonly id: string;
  /** For people. */
  readonly name: string;
  /** SHA-256 in hex of `type\nurl`, or of `stdio\n` and the canonical JSON of `[command, ...args]` (BEHAVIOURS R14). */
  readonly identity: string;
  /** Whether the settings name another server of this id: the names of both carry a suffix, listed or not. */
  readonly sharesId?: boolean;
  readonly rules: ServerRules;
  readonly tools: readonly UpstreamTool[];
  /** Tools that it no longer publishes: under a name of these a tool is held to the hints of before. */
  readonly withdrawn?: readonly Pick<UpstreamTool, 'name' | 'annotations'>[];
}

/** What an operator says about the calls of a server (BEHAVIOURS 145-147). */
export interface ServerRules {
  readonly timeoutMs: number;
  /** Sends after the first, of calls that may be sent again. */
  readonly retry: number;
  /** Calls in flight at once. */
  readonly concurrency: number;
  /** By bare name; beats every hint. */
  readonly overrides: Readonly<Record<string, ToolClass>>;
  readonly trustHints: boolean;
  /** Bare names; only these are offered. */
  readonly allow?: readonly string[];
  /** Bare names; all but these are offered. */
  readonly deny?: readonly string[];
  readonly requiresApproval: readonly string[];
  readonly autoApprove: readonly string[];
  readonly approvalMode: ApprovalMode;
  /** What becomes of a call whose worker died: unset takes `unknown` for what may not be sent again. */
  readonly onCrash?: OnCrash;
  readonly resultMode: 'passthrough' | 'text';
  readonly maxResultBytes: number;
  /** Whether descriptions begin with `[MCP <name>] `. */
  readonly descriptionPrefix: boolean;
}

/** The rules of a server whose operator says nothing (BEHAVIOURS 145-147). */
export const defaultRules: ServerRules = {
  timeoutMs: 60_000,
  retry: 2,
  concurrency: 16,
  overrides: {},
  trustHints: true,
  requiresApproval: [],
  autoApprove: [],
  approvalMode: 'guarded',
  resultMode: 'passthrough',
  maxResultBytes: 4 * 1024 * 1024,
  descriptionPrefix: true,
};

export type ApprovalMode = 'guarded' | 'ask' | 'allow-reads' | 'allow-all';

/** A tool as an upstream published it, in the parts that we use. */
export interface UpstreamTool {
  /** The bare name. */
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: JsonSchema;
  readonly outputSchema?: JsonSchema;
  /** Of the hints the strictest that it ever published. */
  readonly annotations?: Readonly<Record<string, unknown>>;
  /** What else it published, `icons` and `_meta` among it, in a form that every host takes. */
  readonly otherFields?: Readonly<Record<string, unknown>>;
  /** Digest of the known fields as they were published last (BEHAVIOURS 204). */
  readonly fingerprint: string;
}
