import { messageOf, parseJson, writeJson } from '@holdfast/run';
import { contentProblem, toolResult, type ContentBlock } from './content.js';

/** The outcome of a body as it is recorded: a `CallToolResult` as JSON text, or the text of its error. */
export type RecordedResult = { readonly result: string } | { readonly error: string };

/**
 * Turns what a body returned into a tool result (BEHAVIOURS 30): a string is one text block;
 * an object with a `content` array is taken as it is; any other object is `structuredContent`
 * and its JSON as text; undefined is one empty text block; anything else is its JSON as text.
 *
 * An object with `content` and `isError: true` is a failure whose text is that of its blocks.
 */
export function recordResult(returned: unknown): RecordedResult {
  if (typeof returned === 'string') return textResult(returned);
  if (returned === undefined) return textResult('');
  let json: string | undefined;
  try {
    json = writeJson(returned);
  } catch (cause) {
    return { error: `the tool returned a value that cannot be written as JSON: ${messageOf(cause)}` };
  }
  if (json === undefined)
    return { error: `the tool returned a ${typeof returned}, which cannot be written as JSON` };
  if (!json.startsWith('{')) return textResult(json);
  if (!Array.isArray((JSON.parse(json) as { content?: unknown }).content)) {
    return { result: `{"content":[${textBlock(json)}],"structuredContent":${json}}` };
  }
  return recordBlocks(json);
}

/** A result that the body made itself: checked as a whole, and without fields that no result has. */
function recordBlocks(json: string): RecordedResult {
  const value = JSON.parse(json) as { content: ContentBlock[]; isError?: boolean };
  const problem = contentProblem(toolResult, value);
  if (problem !== undefined) return { error: `the tool returned malformed content: ${problem}` };
  if (value.isError === true) return { error: textOf(value.content) };
  // From the text, not from what was checked: a number keeps its digits.
  const { content, structuredContent, _meta } = parseJson(json) as Record<string, unknown>;
  return { result: writeJson({ content, structuredContent, _meta })! };
}

function textResult(text: string): RecordedResult {
  return { result: `{"content":[${textBlock(text)}]}` };
}

function textBlock(text: string): string {
  return `{"type":"text","text":${JSON.stringify(text)}}`;
}

function textOf(content: readonly ContentBlock[]): string {
  const texts = content.filter((block) => block.type === 'text').map((block) => block['text']);
  return texts.join('\n') || 'the tool reported an error without text';
}
