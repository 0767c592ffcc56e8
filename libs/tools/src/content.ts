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

const base64 = z.string().regex(/^[A-Za-z0-9+/]*={0,2}$/, 'must be base64');

/** The blocks of MCP (schema, ContentBlock). */
const block = z.discriminatedUnion('type', [
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
]);

/** The result that a tool of ours makes itself (MCP schema, CallToolResult). */
export const toolResult = z.looseObject({
  content: z.array(block),
  structuredContent: anyObject.optional(),
  _meta: anyObject.optional(),
  isError: z.boolean().optional(),
});

/** What is wrong with a value, path first, in words that quote nothing of it; undefined when it fits. */
export function contentProblem(schema: z.ZodType, value: unknown): string | undefined {
  const { error } = schema.safeParse(value);
  return error?.issues
    .slice(0, 3)
    .map(({ path, message }) => `${formatPath(path as (string | number)[])}: ${message}`)
    .join('; ');
}
