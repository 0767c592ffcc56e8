import { z } from 'zod';
import { formatPath } from '@holdfast/run';

/** A block of a tool's result, as far as every kind of it is alike. */
export interface ContentBlock {
  readonly type: string;
  readonly [field: string]: unknown;
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
const contents = { uri: z.string(), mimeType: z.string().optional(), _meta: anyObject.optional() };

/** The blocks of MCP (schema, ContentBlock), by their type. */
function blocksWith(base64: z.ZodType<string>) {
  return {
    text: z.looseObject({ type: z.literal('text'), text: z.string(), ...carried }),
    image: z.looseObject({ type: z.literal('image'), data: base64, mimeType: z.string(), ...carried }),
    audio: z.looseObject({ type: z.literal('audio'), data: base64, mimeType: z.string(), ...carried }),
    resource_link: z.looseObject({
      type: z.literal('resource_link'),
      uri: z.string(),
      name: z.string(),
      title: z.string().optional(),
      description: z.string().optional(),
      mimeType: z.string().optional(),
      size: z.number().optional(),
      ...carried,
    }),
    resource: z.looseObject({
      type: z.literal('resource'),
      resource: z.union([
        z.looseObject({ ...contents, text: z.string() }),
        z.looseObject({ ...contents, blob: base64 }),
      ]),
      ...carried,
    }),
  };
}

const ours = blocksWith(z.string().regex(/^[A-Za-z0-9+/]*={0,2}$/, 'must be base64'));
/** Encoders of others break lines, and hosts take that. */
const theirs = blocksWith(z.string().regex(/^[A-Za-z0-9+/=\s]*$/, 'must be base64'));

const resultOf = <Block extends z.ZodType>(block: Block) =>
  z.looseObject({
    content: z.array(block),
    structuredContent: anyObject.optional(),
    _meta: anyObject.optional(),
    isError: z.boolean().optional(),
  });

/** The result that a tool of ours makes itself (MCP schema, CallToolResult). */
export const toolResult = resultOf(
  z.discriminatedUnion('type', [ours.text, ours.image, ours.audio, ours.resource_link, ours.resource]),
);

/** The blocks of an upstream's result. A kind that we have not heard of is for the host to know. */
export const upstreamContent = z.array(
  z.looseObject({ type: z.string() }).check((ctx) => {
    const { type } = ctx.value;
    if (!Object.hasOwn(theirs, type)) return;
    const { error } = theirs[type as keyof typeof theirs].safeParse(ctx.value);
    for (const issue of error?.issues ?? []) ctx.issues.push({ ...issue, input: undefined } as never);
  }),
);

/** What is wrong with a value, path first, in words that quote nothing of it; undefined when it fits. */
export function contentProblem(schema: z.ZodType, value: unknown): string | undefined {
  const { error } = schema.safeParse(value);
  return error?.issues
    .slice(0, 3)
    .map(({ path, message }) => `${formatPath(path as (string | number)[])}: ${message}`)
    .join('; ');
}
