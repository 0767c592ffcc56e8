import type { Connection, ConnectionFault, Sent } from '@holdfast/mcp-client';
import { modernVersion } from '@holdfast/protocol';
import {
  endSpan,
  parseJson,
  readTraceContext,
  startSpan,
  traceOf,
  withTrace,
  type CallErrorName,
  type Log,
  type Span,
  type UpstreamOutcome,
  type UpstreamRequest,
  type UpstreamWaiter,
} from '@holdfast/run';
import {
  compileOutputSchema,
  paramHeadersOf,
  readErrorData,
  recordUpstreamResult,
  type JsonSchema,
  type SchemaCheck,
  type ServerRules,
  type UpstreamTool,
} from '@holdfast/tools';
import type { Pool } from './pool.js';
import { Turns } from './turns.js';

export interface SendParts {
  readonly pool: Pool;
  /** The server's id, as the settings have it. */
  readonly id: string;
  /** The server's name, for people. */
  readonly name: string;
  readonly rules: ServerRules;
  /** The tool as the server publishes it now; undefined when it does not. */
  readonly toolOf: (name: string) => UpstreamTool | undefined;
  readonly log: Log;
}

export interface CallOptions extends UpstreamWaiter {
  /**
   * Makes the dispatch mark, and makes sure that the server is still ours. Awaited just before the first byte
   * of a call leaves.
   */
  readonly mark: () => Promise<'won' | 'lost' | 'stale'>;
  /** Throws when the server is no longer ours, or takes no more calls. */
  readonly assertOwned: () => void;
  /** Whether the server is ours still, so that nobody else sends to it. Asks the store where our own clock does not tell. */
  readonly isStillOwned: () => Promise<boolean>;
}

/** Why a call that was ready did not leave. */
class NotMarked extends Error {
  readonly why: 'lost' | 'stale' | 'late';

  constructor(why: 'lost' | 'stale' | 'late') {
    super('the call is not ours to send');
    this.why = why;
  }

  outcome(server: string): UpstreamOutcome {
    switch (this.why) {
      case 'stale':
        return notSent('MCPConnectionError', 'another attempt has the call');
      case 'late':
        return notSent('MCPServerUnavailable', `${server} went to another connector; the call was not sent`);
      case 'lost':
        return { kind: 'unknown', why: 'dropped', message: 'an earlier attempt may have sent the call' };
    }
  }
}

/**
 * Sends calls to one server: in turn, reconnecting before a send where the connection is gone, and each
 * at most once, but for the one resend of a call that a lost session refused (BEHAVIOURS 127–136, R16).
 */
export class Sender {
  readonly #parts: SendParts;
  readonly #turns: Turns;

  constructor(parts: SendParts) {
    this.#parts = parts;
    this.#turns = new Turns(parts.rules.concurrency);
  }

  /** How many calls are under way. */
  get underWay(): number {
    return this.#turns.inside;
  }

  /** Sends away the calls that wait for their turn. */
  turnAway(): void {
    this.#turns.turnAway();
  }

  /** Rejects only with what `assertOwned` or `mark` threw. */
  async call(request: UpstreamRequest, options: CallOptions): Promise<UpstreamOutcome> {
    const leave = await this.#turns.enter(options.signal);
    if (leave === undefined && !options.signal.aborted) options.assertOwned();
    if (leave === undefined)
      return notSent('MCPConnectionError', 'the call was given up before its turn came');
    try {
      return await this.#send(request, options);
    } finally {
      leave();
    }
  }

  async #send(request: UpstreamRequest, options: CallOptions): Promise<UpstreamOutcome> {
    const { pool, name, toolOf } = this.#parts;
    let isMarked = false;
    const beforeSend = async (): Promise<void> => {
      if (!isMarked) options.assertOwned();
      if (request.toolClass === 'read') return;
      if (!isMarked) {
        const mark = await options.mark();
        if (mark === 'stale' || (mark === 'lost' && !request.isResendable)) throw new NotMarked(mark);
        isMarked = true;
      }
      // The mark may have taken longer than the server stays ours. A connector that drains sends what it has marked.
      if (!(await options.isStillOwned())) throw new NotMarked('late');
    };
    let sessionsLost = 0;
    for (let tries = 1; ; tries++) {
      let connection: Connection;
      try {
        connection = await pool.get(request.principal);
      } catch (fault) {
        // It may have gone to another connector, which can be reached from there.
        if (!isMarked) options.assertOwned();
        return noConnection(fault as ConnectionFault);
      }
      const tool = toolOf(request.tool);
      if (tool === undefined)
        return notSent(
          'ToolWithdrawn',
          `${name} does not publish ${request.tool} any more; list the tools again`,
        );
      let sent: Sent;
      const release = pool.hold(connection);
      try {
        await connection.renewCredentials?.(options.signal);
      } catch (fault) {
        release();
        return noConnection(fault as ConnectionFault);
      }
      const span = sendSpan(this.#parts.id, request, connection);
      try {
        sent = await connection.send(
          {
            tool: request.tool,
            arguments: request.arguments,
            meta: { ...withTrace(request.meta, traceOf(span)), idempotency_key: request.runId },
            paramHeaders: paramHeadersOf(tool.inputSchema, () => parseJson(request.arguments)),
          },
          {
            beforeSend,
            signal: options.signal,
            timeoutMs: request.timeoutMs,
            onProgress: options.onProgress,
          },
        );
        endSendSpan(span, sent);
      } catch (error) {
        endSpan(span, { errorType: error instanceof NotMarked ? 'not_marked' : 'InternalError' });
        if (error instanceof NotMarked) return error.outcome(name);
        throw error;
      } finally {
        release();
      }
      switch (sent.kind) {
        case 'result':
          return this.#ended(request, tool, sent.result);
        case 'error':
          return refusedByError(name, sent);
        case 'status': {
          // The next call begins with a new handshake, and reads its credentials again (BEHAVIOURS 123).
          if (sent.status === 401 || sent.status === 403) pool.drop(connection);
          return refusedStatus(name, sent);
        }
        case 'session-lost':
          pool.drop(connection);
          if (++sessionsLost > 1)
            return refused('MCPConnectionError', `${name} refused a new session as well; nothing ran`);
          continue;
        case 'not-sent':
          if (!options.signal.aborted) pool.drop(connection);
          if (options.signal.aborted || tries >= 2)
            return notSent(
              'MCPConnectionError',
              `${name} cannot be reached: ${sent.reason}; nothing was sent`,
            );
          continue;
        case 'lost':
          // An answer that cannot be read costs its own call and no other (F49).
          if (!connection.isOpen) pool.drop(connection);
          return { kind: 'unknown', why: sent.why, message: `${name}: ${sent.reason}` };
      }
    }
  }

  /** What came as a result ran, whatever it looks like, so nothing is sent again because of it. */
  #ended(
    { runId }: UpstreamRequest,
    { name: tool, outputSchema }: UpstreamTool,
    raw: unknown,
  ): UpstreamOutcome {
    const { id, name, rules, log } = this.#parts;
    const checkOutput =
      outputSchema && rules.resultMode === 'passthrough' ? checkOf(outputSchema) : undefined;
    const recorded = recordUpstreamResult(raw, { ...rules, checkOutput });
    if (recorded.kind === 'malformed') {
      const error = `${name} answered with what is no tool result: ${recorded.problem}`;
      return { kind: 'ran', result: '{"content":[]}', error };
    }
    const { result, error, flaws } = recorded;
    if (flaws.length > 0) log.warn({ server: id, tool, runId, flaws }, 'parts of a result were replaced');
    return { kind: 'ran', result, ...(error !== undefined && { error }) };
  }
}

/** One send of a call, a child of whatever asked for it; the upstream's own spans are below it. */
function sendSpan(
  id: string,
  { tool, toolClass, runId, meta }: UpstreamRequest,
  { protocolVersion }: Connection,
): Span {
  return startSpan(`tools/call ${tool}`, {
    kind: 'client',
    parent: readTraceContext(meta),
    attributes: {
      'mcp.method.name': 'tools/call',
      'mcp.protocol.version': protocolVersion,
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': tool,
      'holdfast.run.id': runId,
      'holdfast.tool.class': toolClass,
      'holdfast.server': id,
      'holdfast.era': protocolVersion < modernVersion ? 'legacy' : 'modern',
    },
  });
}

/** What is known of the send, and nothing that the upstream said. */
function endSendSpan(span: Span, sent: Sent): void {
  span.setAttribute('holdfast.outcome', outcomes[sent.kind]);
  if (sent.kind === 'status') span.setAttribute('http.response.status_code', sent.status);
  if (sent.kind === 'error') span.setAttribute('rpc.response.status_code', String(sent.code));
  endSpan(span, { errorType: errorTypeOf(sent) });
}

const outcomes: Readonly<Record<Sent['kind'], UpstreamOutcome['kind']>> = {
  result: 'ran',
  error: 'refused',
  status: 'refused',
  'session-lost': 'refused',
  'not-sent': 'not_sent',
  lost: 'unknown',
};

/** Undefined for a call that went well. A result that says `isError` is a `tool_error` by the conventions for MCP. */
function errorTypeOf(sent: Sent): string | undefined {
  switch (sent.kind) {
    case 'result':
      return (sent.result as { isError?: unknown } | null)?.isError === true ? 'tool_error' : undefined;
    case 'error':
      return String(sent.code);
    case 'status':
      return String(sent.status);
    case 'lost':
      return sent.why;
    case 'session-lost':
    case 'not-sent':
      return sent.kind;
  }
}

const checks = new WeakMap<JsonSchema, SchemaCheck>();

/** Compiled once for as long as a catalogue holds the schema. */
function checkOf(schema: JsonSchema): SchemaCheck {
  let check = checks.get(schema);
  if (check === undefined) checks.set(schema, (check = compileOutputSchema(schema)));
  return check;
}

function noConnection(fault: ConnectionFault): UpstreamOutcome {
  if (fault.code === 'auth') return refused('MCPAuthError', fault.message);
  return notSent('MCPConnectionError', `${fault.message}; nothing was sent`);
}

/** The server's own words, and what it said beside them: short for people, whole for programs. */
function refusedByError(
  name: string,
  { code, message, data: raw }: Extract<Sent, { kind: 'error' }>,
): UpstreamOutcome {
  const { data, text } = readErrorData(raw);
  const words = `${name} answered with error ${code}: ${message}`;
  return {
    ...refused('MCPToolError', text === '' || message.includes(text) ? words : `${words} (${text})`),
    ...(data !== undefined && { data }),
  };
}

function refusedStatus(
  name: string,
  { status, reason, retryAfterMs }: Extract<Sent, { kind: 'status' }>,
): UpstreamOutcome {
  const said = reason === undefined ? '' : ` (${reason})`;
  if (status === 401 || status === 403) {
    return refused(
      'MCPAuthError',
      `${name} refused the credentials (${status})${said}; nothing ran. Correct them and call again`,
    );
  }
  const message = `${name} refused the call with HTTP status ${status}${said}; nothing ran`;
  return { ...refused('MCPConnectionError', message), ...(retryAfterMs !== undefined && { retryAfterMs }) };
}

function refused(name: CallErrorName, message: string): Extract<UpstreamOutcome, { kind: 'refused' }> {
  return { kind: 'refused', name, message };
}

function notSent(name: CallErrorName, message: string): UpstreamOutcome {
  return { kind: 'not_sent', name, message };
}
