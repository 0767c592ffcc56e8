import { isInexactNumber, writeJson } from '@holdfast/run';
import { contentProblem, upstreamContent, type ContentBlock } from './content.js';
import { cutToBytes, cutToCodePoints } from './cut-text.js';
import { returnedMeta, type Meta } from './meta.js';
import { isDeeperThan } from './nesting.js';
import { isSchema } from './schema-walk.js';
import type { SchemaCheck } from './schema.js';
import type { ServerRules } from './server-catalogue.js';

/** The longest text for models, and the longest text of an error, which a host is told three times; in code points. */
export const maxModelText = 12_000;
/** Whoever walks a result does so by recursion. */
const maxDepth = 200;
/** Kept for the words about what was left out, in bytes. */
const lastWords = 256;

export interface UpstreamResultRules extends Pick<ServerRules, 'resultMode' | 'maxResultBytes'> {
  /** The output schema of the tool, compiled; undefined when it has none. */
  readonly checkOutput?: SchemaCheck | undefined;
}

/** The outcome of a call that ran, as it is recorded; or what is wrong with what came in place of a result. */
export type RecordedUpstreamResult =
  | {
      readonly kind: 'recorded';
      /** A `CallToolResult` as JSON text. */
      readonly result: string;
      /** The text of a result that is a failure. */
      readonly error?: string;
    }
  | { readonly kind: 'malformed'; readonly problem: string };

interface UpstreamResult {
  readonly content: readonly ContentBlock[];
  readonly structuredContent: unknown;
  readonly meta: Meta | undefined;
  readonly isError: boolean;
}

/**
 * Turns what an upstream answered to `tools/call`, as `parseJson` gave it, into what is recorded
 * (BEHAVIOURS 97-101, X12, X13).
 *
 * In `passthrough` its blocks, kinds that nobody knows included, its structured content and the
 * vendors' keys of its `_meta` are kept as they are, numbers digit by digit. In `text` they become one
 * text as models read it. What is longer than allowed is cut here, with words that say so, so that
 * a result is the same whenever it is read. U+0000 and lone surrogates are kept: recorded JSON
 * writes them as escapes.
 */
export function recordUpstreamResult(raw: unknown, rules: UpstreamResultRules): RecordedUpstreamResult {
  const read = readResult(raw);
  if ('problem' in read) return { kind: 'malformed', problem: read.problem };
  const error = read.isError ? errorText(read) : outputProblem(read, rules);
  const recorded =
    rules.resultMode === 'text'
      ? fitted({ content: [textBlock(cutToCodePoints(modelText(read), maxModelText))] }, rules)
      : passedOn(read, rules);
  if ('error' in recorded)
    return { kind: 'recorded', result: recorded.result, error: error ?? recorded.error };
  return { kind: 'recorded', result: recorded.result, ...(error !== undefined && { error }) };
}

function readResult(raw: unknown): UpstreamResult | { readonly problem: string } {
  if (!isSchema(raw) || isInexactNumber(raw)) return { problem: 'the result is no object' };
  const { content, structuredContent, _meta: meta, isError, resultType } = raw;
  if (resultType !== undefined && resultType !== 'complete')
    return { problem: 'the result is of a type that was not asked for' };
  if (isDeeperThan(raw, maxDepth)) return { problem: `the result is nested deeper than ${maxDepth} levels` };
  if (typeof (isError ?? false) !== 'boolean') return { problem: 'isError is no boolean' };
  if (meta !== undefined && meta !== null && !isSchema(meta)) return { problem: '_meta is no object' };
  const blocks = content ?? [];
  // A number that was kept for its digits is one to us, and an object to the check.
  const problem =
    contentProblem(upstreamContent, blocks) &&
    contentProblem(upstreamContent, JSON.parse(writeJson(blocks)!));
  if (problem !== undefined) return { problem: `the content is malformed: ${problem}` };
  return {
    content: blocks as ContentBlock[],
    structuredContent: structuredContent ?? undefined,
    meta: isSchema(meta) ? returnedMeta(meta) : undefined,
    isError: isError === true,
  };
}

/** A result that breaks what the tool promised is a failure of a call that ran (BEHAVIOURS 101). */
function outputProblem(
  { structuredContent }: UpstreamResult,
  { checkOutput, resultMode }: UpstreamResultRules,
): string | undefined {
  if (checkOutput === undefined) return undefined;
  if (structuredContent === undefined) {
    // Without it a host refuses the result of a tool that lists an output schema.
    return resultMode === 'passthrough'
      ? 'the result has no structured content, which the output schema of the tool promises'
      : undefined;
  }
  const [problem] = checkOutput(JSON.parse(writeJson(structuredContent)!));
  return problem === undefined
    ? undefined
    : `the structured content does not fit the output schema of the tool, at ${cutToCodePoints(problem.split(': ')[0]!, 100)}`;
}

function passedOn(
  { content, structuredContent, meta, isError }: UpstreamResult,
  rules: UpstreamResultRules,
): { readonly result: string; readonly error?: string } {
  const isObject = isSchema(structuredContent) && !isInexactNumber(structuredContent);
  // Hosts from before 2026-07-28 take objects only; anything else is told as text.
  const isUntold = structuredContent !== undefined && !isObject && !content.some(hasText);
  return fitted(
    {
      content: isUntold ? [...content, textBlock(sortedJson(structuredContent))] : content,
      ...(isObject && { structuredContent }),
      ...(meta !== undefined && Object.keys(meta).length > 0 && { _meta: meta }),
      ...(isError && { isError }),
    },
    rules,
  );
}

interface Recorded {
  readonly content: readonly ContentBlock[];
  readonly structuredContent?: unknown;
  readonly _meta?: Meta;
  readonly isError?: boolean;
}

/** The result as JSON of at most `maxResultBytes`, what does not fit left out block by block (BEHAVIOURS X13). */
function fitted(
  recorded: Recorded,
  { maxResultBytes, checkOutput }: UpstreamResultRules,
): { readonly result: string; readonly error?: string } {
  const json = writeJson(recorded)!;
  const bytes = Buffer.byteLength(json);
  if (bytes <= maxResultBytes) return { result: json };

  const { content, structuredContent, _meta: meta, ...rest } = recorded;
  let left = maxResultBytes - lastWords;
  const take = (value: unknown, most: number): boolean => {
    const size = value === undefined ? 0 : bytesOf(value) + 1;
    if (size > most) return false;
    left -= size;
    return true;
  };
  const isMetaKept = take(meta, maxResultBytes / 4);
  const isStructuredKept = take(structuredContent, left - lastWords);
  const structuredBytes = isStructuredKept ? 0 : bytesOf(structuredContent);
  const notes = isStructuredKept
    ? []
    : [textBlock(`[structured content left out: ${structuredBytes} bytes]`)];
  const result = writeJson({
    content: [...notes, ...fittingBlocks(content, left)],
    ...(isStructuredKept && structuredContent !== undefined && { structuredContent }),
    ...(isMetaKept && meta !== undefined && { _meta: meta }),
    ...rest,
  })!;
  // Without its structured content a host refuses the result of a tool that lists an output schema.
  return !isStructuredKept && checkOutput !== undefined
    ? {
        result,
        error: `the structured content is ${structuredBytes} bytes long, and ${maxResultBytes} are kept`,
      }
    : { result };
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

function placeholder(block: ContentBlock): string {
  switch (block.type) {
    case 'image':
    case 'audio':
      return `[${block.type}: ${String(block['mimeType'])}]`;
    case 'resource_link':
      return `[resource link: ${String(block['uri'])}]`;
    case 'resource': {
      const { uri, mimeType } = block['resource'] as { readonly uri: string; readonly mimeType?: string };
      return mimeType === undefined ? `[resource: ${uri}]` : `[resource: ${uri} (${mimeType})]`;
    }
    default:
      return `[${block.type}]`;
  }
}

function textBlock(text: string): ContentBlock {
  return { type: 'text', text };
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
