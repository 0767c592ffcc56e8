import { z } from 'zod';
import type { ToolDefinition } from './define-tool.js';
import { isDeeperThan } from './nesting.js';
import type { ServerCatalogue } from './server-catalogue.js';

/** A value as it was kept, or what is wrong with it: a path and no value. */
export type Kept<Value> = { readonly value: Value } | { readonly problem: string };

/** Deeper values overflow the stack of whoever writes them as JSON. */
const maxNesting = 1_000;

const object = z.record(z.string(), z.unknown());
const count = z.number().nonnegative();
const toolClass = z.enum(['read', 'write']);
const names = z.array(z.string());

const toolDefinition: z.ZodType<ToolDefinition> = z.looseObject({
  name: z.string().min(1),
  title: z.string().optional(),
  description: z.string(),
  inputSchema: object,
  toolClass,
  dedupeWindowMs: count.optional(),
  digest: z.string(),
});

const serverCatalogue: z.ZodType<ServerCatalogue> = z.looseObject({
  key: z.string().min(1),
  id: z.string().min(1),
  name: z.string(),
  identity: z.string(),
  sharesId: z.boolean().optional(),
  rules: z.looseObject({
    timeoutMs: count,
    retry: count,
    concurrency: count,
    overrides: z.record(z.string(), toolClass),
    trustHints: z.boolean(),
    allow: names.optional(),
    deny: names.optional(),
    requiresApproval: names,
    autoApprove: names,
    approvalMode: z.enum(['guarded', 'ask', 'allow-reads', 'allow-all']),
    onCrash: z.enum(['rerun', 'unknown']).optional(),
    resultMode: z.enum(['passthrough', 'text']),
    maxResultBytes: count,
    descriptionPrefix: z.boolean(),
  }),
  tools: z.array(
    z.looseObject({
      name: z.string(),
      title: z.string().optional(),
      description: z.string().optional(),
      inputSchema: object,
      outputSchema: object.optional(),
      annotations: object.optional(),
      otherFields: object.optional(),
      fingerprint: z.string(),
    }),
  ),
  withdrawn: z.array(z.looseObject({ name: z.string(), annotations: object.optional() })).optional(),
});

/** Reads the definition of a tool that a worker registered. */
export const readKeptTool = (text: string): Kept<ToolDefinition> => read(toolDefinition, text);

/** Reads the catalogue of a server that a connector published. */
export const readKeptServer = (text: string): Kept<ServerCatalogue> => read(serverCatalogue, text);

/** The value itself, not a copy: a newer version may have kept fields that this one does not know. */
function read<Value>(schema: z.ZodType<Value>, text: string): Kept<Value> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { problem: 'it is not JSON' };
  }
  if (isDeeperThan(value, maxNesting)) return { problem: `it nests deeper than ${maxNesting} levels` };
  const { error } = schema.safeParse(value);
  if (error === undefined) return { value: value as Value };
  const { path, code } = error.issues[0]!;
  return { problem: `${path.join('.').slice(0, 200) || 'the whole'} does not fit the schema (${code})` };
}
