import { isInexactNumber, writeJson } from '@holdfast/run';
import type { ContentBlock } from './content.js';
import { cutToBytes, cutToCodePoints } from './cut-text.js';
import { returnedMeta, type Meta } from './meta.js';
import { isDeeperThan } from './nesting.js';
import { isSchema } from './schema-walk.js';
import type { SchemaCheck } from './schema.js';
import type { ServerRules } from './server-catalogue.js';
import {
  isFields,
  maxDepth,
  placeholder,
  readContent,
  readMeta,
  textBlock,
  type Tell,
} from './upstream-content.js';

/** The longest text for models, and the longest text of an error, which a host is told three times; in code points. */
export const maxModelText = 12_000;
/** Kept for the words about what was left out, in bytes. */
const lastWords = 256;

export interface UpstreamResultRules extends Pick<ServerRules, 'resultMode' | 'maxResultBytes'> {
  /** The output schema of the tool, compiled; undefined when it has none. */
  readonly checkOutput?: SchemaCheck | undefined;
}

/** The outcome of a call that ran, as it is recorded; or what is wrong with an answer that is no outcome. */
export type RecordedUpstreamResult =
  | {
      readonly kind: 'recorded';
      /** A `CallToolResult` as JSON text. */
      readonly result: string;
      /** The text of a result that is a failure. */
      readonly error?: string;
      /** What could not be carried as it came, for the log: paths and reasons, nothing of what came. */
      readonly flaws: readonly string[];
    }
  | { readonly kind: 'malformed'; readonly problem: string };

interface UpstreamResult {
  readonly content: readonly ContentBlock[];
  readonly structuredContent: unknown;
  readonly meta: Meta | undefined;
  readonly isError: boolean;
  /** The fields that no revision of MCP knows, as they came. */
  readonly unknownFields: Readonly<Record<string, unknown>>;
}

/** At most this many flaws of one result are reported. */
const maxFlaws = 10;
/** Fields of results that are read here, or that ask the host for something. */
const knownFields: ReadonlySet<string> = new Set([
  ...['content', 'structuredContent', '_meta', 'isError', 'resultType'],
  ...['inputRequests', 'requestState', 'task', 'taskId'],
]);

/**
 * Turns what an upstream answered to `tools/call`, as `parseJson` gave it, into what is recorded
 * (BEHAVIOURS 97-101, X12, X13).
 *
 * In `passthrough` its blocks, unknown types included, its structured content whatever JSON value it is, its
 * unknown fields and the vendors' keys of its `_meta` are kept as they are, numbers digit by digit. In
 * `text` they become one text as models read it. What is longer than allowed is cut here, with words that
 * say so, so that a result is the same whenever it is read. U+0000 and lone surrogates are kept:
 * recorded JSON writes them as escapes.
 *
 * The call ran, so a part that cannot be carried is replaced alone. Only a result that asks the host for
 * something that nobody offered is malformed.
 */
export function recordUpstreamResult(raw: unknown, rules: UpstreamResultRules): RecordedUpstreamResult {
  const flaws: string[] = [];
  const tell: Tell = (flaw) => void (flaws.length < maxFlaws && flaws.push(flaw));
  const read = readResult(raw, tell);
  if ('problem' in read) return { kind: 'malformed', problem: read.problem };
  const error = read.isError ? errorText(read) : outputProblem(read, rules);
  const recorded = fitted(
    rules.resultMode === 'text'
      ? { content: [textBlock(cutToCodePoints(modelText(read), maxModelText))] }
      : passedOn(read),
    rules,
    tell,
  );
  const problem =
    error ?? (recorded.problem === undefined ? undefined : withTexts(recorded.problem, read.content));
  return {
    kind: 'recorded',
    result: recorded.result,
    flaws,
    ...(problem !== undefined && { error: problem }),
  };
}

function readResult(raw: unknown, tell: Tell): UpstreamResult | { readonly problem: string } {
  if (!isFields(raw)) {
    tell('the result is not an object');
    return readResult({ content: raw }, tell);
  }
  const { content, resultType, isError } = raw;
  if (typeof resultType === 'string' && resultType !== 'complete' && !Array.isArray(content))
    return { problem: 'the result is of a type that was not asked for' };
  const isDeep = isDeeperThan(raw, maxDepth);
  const take = (field: string, value: unknown): unknown => {
    if (!isDeep || !isDeeperThan(value, maxDepth)) return value ?? undefined;
    tell(`${field} is nested deeper than ${maxDepth} levels`);
    return undefined;
  };
  const structuredContent = take('structuredContent', raw['structuredContent']);
  const meta = readMeta(take('_meta', raw['_meta']), tell);
  const blocks = readContent(content, tell);
  const isLeftOut = structuredContent === undefined && (raw['structuredContent'] ?? undefined) !== undefined;
  return {
    content: isLeftOut
      ? [textBlock(`[structured content left out: nested deeper than ${maxDepth} levels]`), ...blocks]
      : blocks,
    structuredContent,
    meta: meta && returnedMeta(meta),
    isError: readFlag(isError, tell),
    unknownFields: Object.fromEntries(
      Object.entries(raw)
        .filter(([key]) => !knownFields.has(key))
        .map(([key, value]) => [key, isDeep && isDeeperThan(value, maxDepth) ? undefined : value]),
    ),
  };
}

/** Servers write flags as text or as 0 and 1 too. What cannot be read as a flag is not set. */
function readFlag(raw: unknown, tell: Tell): boolean {
  if (typeof raw === 'boolean' || raw === undefined || raw === null) return raw === true;
  tell('isError is not a boolean');
  return raw === 1 || (typeof raw === 'string' && /^\s*(true|1|yes)\s*$/i.test(raw));
}

/** A result that breaks what the tool promised is a failure of a call that ran (BEHAVIOURS 101). */
function outputProblem(
  { structuredContent, content }: UpstreamResult,
  { checkOutput, resultMode }: UpstreamResultRules,
): string | undefined {
  if (checkOutput === undefined) return undefined;
  if (structuredContent === undefined) {
    // Without it a host refuses the result of a tool that lists an output schema.
    return resultMode === 'passthrough'
      ? withTexts(
          'the result has no structured content, which the output schema of the tool promises',
          content,
        )
      : undefined;
  }
  const [problem] = checkOutput(JSON.parse(writeJson(structuredContent)!));
  return problem === undefined
    ? undefined
    : withTexts(
        `the structured content does not fit the output schema of the tool, at ${cutToCodePoints(problem.split(': ')[0]!, 100)}`,
        content,
      );
}

/** A problem, and below it the texts of the result: hosts show only this of a failure. */
function withTexts(problem: string, content: readonly ContentBlock[]): string {
  return cutToCodePoints(
    [problem, ...content.flatMap((block) => textIn(block) ?? [])].join('\n'),
    maxModelText,
  );
}

function passedOn({ content, structuredContent, meta, isError, unknownFields }: UpstreamResult): Recorded {
  return {
    content,
    ...(structuredContent !== undefined && { structuredContent }),
    ...(meta !== undefined && Object.keys(meta).length > 0 && { _meta: meta }),
    ...(isError && { isError }),
    ...(Object.keys(unknownFields).length > 0 && { unknownFields }),
  };
}

interface Recorded {
  readonly content: readonly ContentBlock[];
  readonly structuredContent?: unknown;
  readonly _meta?: Meta;
  readonly isError?: boolean;
  readonly unknownFields?: Readonly<Record<string, unknown>>;
}

/** The result as JSON of at most `maxResultBytes`, what does not fit left out block by block (BEHAVIOURS X13). */
function fitted(
  { content, structuredContent, _meta: meta, isError, unknownFields }: Recorded,
  { maxResultBytes, checkOutput }: UpstreamResultRules,
  tell: Tell,
): { readonly result: string; readonly problem?: string } {
  const write = (parts: Recorded): string =>
    writeJson({
      content: parts.content,
      structuredContent: parts.structuredContent,
      _meta: parts._meta,
      isError,
      ...parts.unknownFields,
    })!;
  const json = write({
    content,
    structuredContent,
    ...(meta && { _meta: meta }),
    ...(unknownFields && { unknownFields }),
  });
  const bytes = Buffer.byteLength(json);
  if (bytes <= maxResultBytes) return { result: json };

  tell(`the result is ${bytes} bytes long, and ${maxResultBytes} are kept`);
  let left = maxResultBytes - lastWords;
  const take = (value: unknown, most: number): boolean => {
    const size = value === undefined ? 0 : bytesOf(value) + 1;
    if (size > most) return false;
    left -= size;
    return true;
  };
  const isMetaKept = take(meta, maxResultBytes / 4);
  const areUnknownKept = take(unknownFields, maxResultBytes / 4);
  const isStructuredKept = take(structuredContent, left - lastWords);
  const structuredBytes = isStructuredKept ? 0 : bytesOf(structuredContent);
  const notes = isStructuredKept
    ? []
    : [textBlock(`[structured content left out: ${structuredBytes} bytes]`)];
  const result = write({
    content: [...notes, ...fittingBlocks(content, left)],
    ...(isStructuredKept && { structuredContent }),
    ...(isMetaKept && meta && { _meta: meta }),
    ...(areUnknownKept && unknownFields && { unknownFields }),
  });
  // Without its structured content a host refuses the result of a tool that lists an output schema.
  return isStructuredKept || checkOutput === undefined
    ? { result }
    : {
        result,
        problem: `the structured content is ${structuredBytes} bytes long, and ${maxResultBytes} are kept`,
      };
}

function fittingBlocks(content: readonly ContentBlock[], budget: number): ContentBlock[] {
  const kept: ContentBlock[] = [];
  let left = budget;
  let leftOut = 0;
  for (const block of content) {
    const fitting = bytesOf(block) + 1 <= left ? block : shortened(block, left - 1);
    if (fitting === undefined) leftOut++;
    else {
      kept.push(fitting);
      left -= bytesOf(fitting) + 1;
    }
  }
  return leftOut === 0 ? kept : [...kept, textBlock(`[blocks left out: ${leftOut}]`)];
}

/** A block in `budget` bytes: a text cut, anything else as a placeholder. Undefined when not even that fits. */
function shortened(block: ContentBlock, budget: number): ContentBlock | undefined {
  const { resource } = block as { readonly resource?: Readonly<Record<string, unknown>> };
  let shorter: ContentBlock;
  if (block.type === 'text') {
    const text = cutToBytes(block['text'] as string, budget - bytesOf({ ...block, text: '' }));
    if (text === undefined) return undefined;
    shorter = { ...block, text };
  } else if (block.type === 'resource' && typeof resource?.['text'] === 'string') {
    const frame = { ...block, resource: { ...resource, text: '' } };
    const text = cutToBytes(resource['text'], budget - bytesOf(frame));
    if (text === undefined) return undefined;
    shorter = { ...block, resource: { ...resource, text } };
  } else {
    const data = block['data'] ?? resource?.['blob'];
    const bytes = typeof data === 'string' ? Buffer.byteLength(data, 'base64') : bytesOf(block);
    shorter = textBlock(`${cutToCodePoints(placeholder(block), 200).slice(0, -1)}; ${bytes} bytes]`);
  }
  return bytesOf(shorter) <= budget ? shorter : undefined;
}

/** The form that models read (BEHAVIOURS 97-99). */
function modelText({ content, structuredContent }: UpstreamResult): string {
  const parts = content.map((block) => textIn(block) ?? placeholder(block));
  if (structuredContent !== undefined && !content.some(hasText)) parts.push(sortedJson(structuredContent));
  return parts.join('\n');
}

function errorText(result: UpstreamResult): string {
  const texts = result.content.filter(({ type }) => type === 'text').map((block) => block['text']);
  const text = texts.length > 0 ? texts.join('\n') : modelText(result);
  return cutToCodePoints(text, maxModelText) || 'the tool reported an error without text';
}

/** The text of a text block, or that of an embedded resource. */
function textIn(block: ContentBlock): string | undefined {
  const text =
    block.type === 'text'
      ? block['text']
      : block.type === 'resource' && (block['resource'] as { readonly text?: unknown }).text;
  return typeof text === 'string' ? text : undefined;
}

function hasText(block: ContentBlock): boolean {
  return textIn(block) !== undefined;
}

function bytesOf(value: unknown): number {
  return Buffer.byteLength(writeJson(value) ?? '');
}

/** Compact JSON with the keys of each object in order, as JCS has it (UTF-16 units), and every digit of its numbers. */
function sortedJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(sortedJson).join(',')}]`;
  if (!isSchema(value) || isInexactNumber(value)) return writeJson(value)!;
  const members = Object.keys(value)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${sortedJson(value[key])}`);
  return `{${members.join(',')}}`;
}
