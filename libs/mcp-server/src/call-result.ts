import { isDeepStrictEqual } from 'node:util';
import { isInexactNumber, parseJson, writeJson, type CallError, type Run } from '@holdfast/run';

/** Which run answered, and how, in `_meta["holdfast/run"]`. */
export interface RunMark {
  readonly id: string;
  readonly attempt: number;
  readonly reattached: boolean;
}

export function markOf(run: Run, reattached: boolean): RunMark {
  return { id: run.id, attempt: run.attempt, reattached };
}

/** How a call ended, before it takes the form of an era. */
export type CallAnswer =
  | {
      readonly kind: 'recorded';
      /** A `CallToolResult` as JSON text. */
      readonly result: string;
      readonly mark: RunMark;
    }
  | {
      readonly kind: 'failed';
      readonly error: CallError;
      /** Absent where the call made no run. */
      readonly mark?: RunMark;
      /** Whether hosts check results of the tool against an output schema. */
      readonly listsOutput: boolean;
    };

/** The result that hosts from before 2026-07-28 read. */
export function legacyResult(answer: CallAnswer): string {
  return answer.kind === 'failed'
    ? failure(answer, {})
    : withMeta(withStructureAsText(answer.result), markMeta(answer));
}

/** The result that hosts of 2026-07-28 read. */
export function modernResult(answer: CallAnswer, serverInfo: object): string {
  const meta = { 'io.modelcontextprotocol/serverInfo': serverInfo };
  const json =
    answer.kind === 'failed'
      ? failure(answer, meta)
      : withMeta(answer.result, { ...markMeta(answer), ...meta });
  return `${json.slice(0, -1)},"resultType":"complete"}`;
}

function markMeta({ mark }: { readonly mark?: RunMark }): object {
  return mark === undefined ? {} : { 'holdfast/run': mark };
}

/** Keeps the recorded text as it is. Only a `_meta` in it has to be read, because ours is added there. */
function withMeta(result: string, meta: object): string {
  if (!result.includes('"_meta"')) return `${result.slice(0, -1)},"_meta":${JSON.stringify(meta)}}`;
  const read = parseJson(result) as Record<string, unknown>;
  return JSON.stringify({ ...read, _meta: { ...(read['_meta'] as object | undefined), ...meta } });
}

/**
 * Older hosts take only objects as `structuredContent`. Any other value becomes a text block, unless
 * a text block says it already.
 */
function withStructureAsText(result: string): string {
  // Inside of a string the quotes would be escaped.
  if (!/"structuredContent":[^{]/.test(result)) return result;
  const { structuredContent, ...rest } = parseJson(result) as Record<string, unknown>;
  if (structuredContent === undefined || isObject(structuredContent)) return result;
  const content = rest['content'] as readonly { readonly type?: unknown; readonly text?: unknown }[];
  const isSaid =
    structuredContent === null ||
    content.some(({ type, text }) => type === 'text' && says(text, structuredContent));
  const added = isSaid ? [] : [{ type: 'text', text: writeJson(structuredContent) }];
  return JSON.stringify({ ...rest, content: [...content, ...added] });
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isInexactNumber(value);
}

function says(text: unknown, value: unknown): boolean {
  if (typeof text !== 'string') return false;
  if (text === value) return true;
  try {
    return isDeepStrictEqual(parseJson(text), value);
  } catch {
    return false;
  }
}

/**
 * A tool error: readable by a model, and the same as data for a program (docs/connecting-hosts.md). Where a tool
 * lists an output schema the data is only in `_meta`: hosts throw away structured content that breaks it.
 */
function failure(answer: Extract<CallAnswer, { kind: 'failed' }>, meta: object): string {
  const { mark, listsOutput } = answer;
  const { name, message, retryable, outcome, data } = answer.error;
  const error = { name, message, run_id: mark?.id ?? null, retryable, outcome, data };
  return JSON.stringify({
    content: [{ type: 'text', text: `${name}: ${message}${whereToLook(answer)}` }],
    ...(!listsOutput && { structuredContent: { error } }),
    isError: true,
    _meta: { ...markMeta(answer), 'holdfast/error': error, ...meta },
  });
}

/** Of an error only the text reaches a model, and the run of an open outcome is what it has to look at. */
function whereToLook({ error, mark }: Extract<CallAnswer, { kind: 'failed' }>): string {
  const isOpen = error.outcome === 'unknown' || error.outcome === 'pending';
  if (mark === undefined || !isOpen || error.message.includes(mark.id)) return '';
  return ` (run ${mark.id}; its state is at /api/runs/${mark.id})`;
}
