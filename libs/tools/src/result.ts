import { writeJson } from '@holdfast/run';

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
    return { error: `the tool returned a value that cannot be written as JSON: ${(cause as Error).message}` };
  }
  if (json === undefined)
    return { error: `the tool returned a ${typeof returned}, which cannot be written as JSON` };
  if (!json.startsWith('{')) return textResult(json);
  const { content, isError } = JSON.parse(json) as { content?: unknown; isError?: unknown };
  if (!Array.isArray(content))
    return { result: `{"content":[${textBlock(json)}],"structuredContent":${json}}` };
  const problem = content.map(blockProblem).find((found) => found !== undefined);
  if (problem !== undefined) return { error: `the tool returned malformed content: ${problem}` };
  if (isError === true) return { error: textOf(content as TextBlock[]) };
  return { result: json };
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

/** What each kind of block must hold (MCP schema, ContentBlock). */
const requiredFields: Readonly<Record<string, readonly [field: string, type: 'string' | 'object'][]>> = {
  text: [['text', 'string']],
  image: [
    ['data', 'string'],
    ['mimeType', 'string'],
  ],
  audio: [
    ['data', 'string'],
    ['mimeType', 'string'],
  ],
  resource_link: [
    ['uri', 'string'],
    ['name', 'string'],
  ],
  resource: [['resource', 'object']],
};

function blockProblem(block: unknown, index: number): string | undefined {
  const at = `content[${index}]`;
  if (typeof block !== 'object' || block === null) return `${at} is not an object`;
  const fields = block as Record<string, unknown>;
  const type = fields['type'];
  if (typeof type !== 'string' || !Object.hasOwn(requiredFields, type)) {
    return `${at}.type must be one of ${Object.keys(requiredFields).join(', ')}`;
  }
  const missing = requiredFields[type]!.find(
    ([field, kind]) => typeof fields[field] !== kind || fields[field] === null,
  );
  return missing === undefined
    ? undefined
    : `${at}.${missing[0]} must be a${missing[1] === 'object' ? 'n object' : ' string'}`;
}
