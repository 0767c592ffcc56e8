import { z } from 'zod';
import { formatPath, messageOf, parseJson, writeJson } from '@holdfast/run';

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
  const checked = toolResult.safeParse(JSON.parse(json));
  if (!checked.success) {
    const problems = checked.error.issues.map(
      ({ path, message }) => `${formatPath(path as string[])}: ${message}`,
    );
    return { error: `the tool returned malformed content: ${problems.slice(0, 3).join('; ')}` };
  }
  if (checked.data.isError === true) return { error: textOf(checked.data.content as TextBlock[]) };
  // From the text, not from what was checked: a number keeps its digits.
  const { content, structuredContent, _meta } = parseJson(json) as Record<string, unknown>;
  return { result: writeJson({ content, structuredContent, _meta })! };
}

interface TextBlock {
  readonly type: string;
  readonly text?: string;
}

function textResult(text: string): RecordedResult {
  return { result: `{"content":[${textBlock(text)}]}` };
}

function textBlock(text: string): string {
  return `{"type":"text","text":${JSON.stringify(text)}}`;
}

function textOf(content: readonly TextBlock[]): string {
  const texts = content.filter((block) => block.type === 'text').map((block) => block.text);
  return texts.join('\n') || 'the tool reported an error without text';
}

const anyObject = z.record(z.string(), z.unknown());

/** What every block may carry (MCP schema, Annotations). */
const carried = {
  annotations: z
    .looseObject({
      audience: z.array(z.enum(['user', 'assistant'])).optional(),
      priority: z.number().min(0).max(1).optional(),
      lastModified: z.string().optional(),
    })
    .optional(),
  _meta: anyObject.optional(),
};
const base64 = z.string().regex(/^[A-Za-z0-9+/]*={0,2}$/, 'must be base64');
const contents = { uri: z.string(), mimeType: z.string().optional(), _meta: anyObject.optional() };

/** The result of a tool call (MCP schema, CallToolResult and ContentBlock). */
const toolResult = z.looseObject({
  content: z.array(
    z.discriminatedUnion('type', [
      z.looseObject({ type: z.literal('text'), text: z.string(), ...carried }),
      z.looseObject({ type: z.literal('image'), data: base64, mimeType: z.string(), ...carried }),
      z.looseObject({ type: z.literal('audio'), data: base64, mimeType: z.string(), ...carried }),
      z.looseObject({
        type: z.literal('resource_link'),
        uri: z.string(),
        name: z.string(),
        title: z.string().optional(),
        description: z.string().optional(),
        mimeType: z.string().optional(),
        size: z.number().optional(),
        ...carried,
      }),
      z.looseObject({
        type: z.literal('resource'),
        resource: z.union([
          z.looseObject({ ...contents, text: z.string() }),
          z.looseObject({ ...contents, blob: base64 }),
        ]),
        ...carried,
      }),
    ]),
  ),
  structuredContent: anyObject.optional(),
  _meta: anyObject.optional(),
  isError: z.boolean().optional(),
});
