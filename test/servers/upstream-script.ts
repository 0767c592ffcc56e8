/**
 * The script of the scriptable upstream. Plain JSON, so that it can be sent over the control port.
 */
export interface UpstreamScript {
  /** The eras that it speaks. */
  era: 'legacy' | 'modern' | 'both';
  /** Revisions of the legacy era that it speaks, the preferred one first. */
  legacyVersions: string[];
  /** Whether `initialize` returns a session id that every later request needs. */
  sessions: boolean;
  /** How requests are answered. */
  answerAs: 'json' | 'sse';
  /** Whether it offers a stream of server-initiated messages. If not, GET is 405 and `subscriptions/listen` unknown. */
  streams: boolean;
  /** A header that every request must carry; 401 otherwise. */
  credential: { header: string; value: string } | null;
  /** The tools, page by page. */
  pages: ScriptedTool[][];
  /** The answer of `tools/list` instead, by cursor (`''` for the first page): a whole `result`. */
  listResults: Record<string, unknown> | null;
  /** `list_changed` notifications after each `tools/list`. */
  changesPerList: number;
}

export interface ScriptedTool {
  /** The definition that `tools/list` returns. */
  definition: { name: string; inputSchema: object; [key: string]: unknown };
  /** The `CallToolResult`; the arguments as text if omitted. */
  result?: unknown;
  /** The same as JSON text, for numbers that a double cannot hold. */
  rawResult?: string;
  /** A JSON-RPC error instead of a result. */
  error?: { code: number; message: string; data?: unknown };
  /** Milliseconds between the execution and the answer. */
  delayMs?: number;
  /** Progress notifications before the answer. */
  progress?: { value: number; total?: number; message?: string }[];
  /** `list_changed` notifications before the answer. */
  changes?: number;
}

/** A fault that affects requests of a method. */
export interface Fault {
  /** JSON-RPC method, or `GET` or `DELETE`. */
  on: string;
  /** Affects only calls of this tool. */
  tool?: string;
  /** Number of affected requests; all if omitted. */
  times?: number;
  do:
    | { kind: 'drop-after-receive' /* A call is executed, then the connection is reset. */ }
    | { kind: 'hang' /* A call is executed and never answered. */ }
    | {
        kind: 'drop-mid-stream';
        id?: string;
        retryMs?: number; /* Headers and maybe an event id, then an end. */
      }
    /** Nothing is executed. */
    | { kind: 'status'; status: number; headers?: Record<string, string>; body?: string }
    /** Nothing is executed. The target may contain `{self}`, the origin of the server. */
    | { kind: 'redirect'; status: number; location: string }
    /** The call is executed and answered with this; `{id}` becomes the id of the request. */
    | { kind: 'raw'; status?: number; headers?: Record<string, string>; body: string };
}

/** A received request. */
export interface LoggedRequest {
  readonly http: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The body as sent. */
  readonly body: string;
  /** JSON-RPC method, if any. */
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  /** The client disconnected before the answer was complete. */
  readonly wasAbandoned: boolean;
}

export function tool(
  name: string,
  rest: Omit<ScriptedTool, 'definition'> & { definition?: object } = {},
): ScriptedTool {
  return {
    ...rest,
    definition: { name, description: `does ${name}`, inputSchema: { type: 'object' }, ...rest.definition },
  };
}

export const defaultScript: UpstreamScript = {
  era: 'both',
  legacyVersions: ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'],
  sessions: true,
  answerAs: 'json',
  streams: true,
  credential: null,
  pages: [[tool('echo'), tool('look', { definition: { annotations: { readOnlyHint: true } } })]],
  listResults: null,
  changesPerList: 0,
};
