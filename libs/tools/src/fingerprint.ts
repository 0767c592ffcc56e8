import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import { writeJson } from '@holdfast/run';
import { takesObjects } from './listed-schema.js';
import { returnedMeta } from './meta.js';
import { isDeeperThan } from './nesting.js';
import { headerProblem } from './param-headers.js';
import { withoutFlaws } from './schema-flaws.js';
import { isSchema } from './schema-walk.js';
import type { JsonSchema } from './schema.js';
import type { UpstreamTool } from './server-catalogue.js';
import { readIcons, readMeta, type Tell } from './upstream-content.js';

/** The definition of one tool may be this long, in UTF-16 units of its JSON. */
const maxDefinitionLength = 512 * 1024;
/** And this deep: whoever walks it does so by recursion. */
const maxDefinitionDepth = 100;
/** A longer bare name is none; 128 is what MCP allows, and some go over it. */
const maxNameLength = 256;

/** Why an entry of a listing is no tool. */
export interface UnfitTool {
  /** Undefined: the entry has no name, so it is no entry at all and the listing is malformed. */
  readonly name: string | undefined;
  /** After the name it reads as a sentence; without a word of the upstream's text. */
  readonly problem: string;
}

/**
 * `m1_` + SHA-256 of the canonical JSON (RFC 8785) of what was published: the order of keys, spaces
 * and the way a number is written do not count, an absent field and an empty one differ (BEHAVIOURS
 * 204, R22).
 */
function fingerprintOf({
  name,
  title,
  description,
  inputSchema,
  outputSchema,
  annotations,
}: Omit<UpstreamTool, 'fingerprint'>): string {
  const published = { name, title, description, inputSchema, outputSchema, annotations };
  return `m1_${createHash('sha256').update(canonicalize(published)!).digest('hex')}`;
}

/** A tool that can be served, and what was taken out of its schemas so that it can. */
export interface FitTool {
  readonly tool: UpstreamTool;
  /** Path and keyword of each flaw, for the log. */
  readonly flaws: readonly string[];
}

/**
 * Reads one entry of an upstream's `tools/list`, as `parseJson` gave it; nothing in it is believed.
 * One that cannot be served is refused alone, and its siblings are served (F55, F60, F62, F66, F68). The
 * fingerprint is that of what was published; the schemas are kept without their flaws.
 */
export function readListedTool(raw: unknown): FitTool | UnfitTool {
  if (!isSchema(raw) || typeof raw['name'] !== 'string')
    return { name: undefined, problem: 'is no object with a name' };
  const { name } = raw;
  const unfit = (problem: string): UnfitTool => ({ name: name.slice(0, maxNameLength), problem });
  if (name.length > maxNameLength) return unfit(`has a name longer than ${maxNameLength} characters`);
  if (!name.isWellFormed()) return unfit('has a name that is not valid Unicode text');

  const read = readPublished(raw);
  if ('problem' in read) return unfit(read.problem);
  if (isSchema(raw['execution']) && raw['execution']['taskSupport'] === 'required')
    return unfit('can only be called as a task, and calls are not sent as tasks');
  const fingerprint = fingerprintOf({ ...read, name });
  const flaws: string[] = [];
  const repaired = (field: 'inputSchema' | 'outputSchema'): JsonSchema => {
    const { schema, flaws: found } = withoutFlaws(read[field]!);
    flaws.push(...found.map((flaw) => `${field}.${flaw}`));
    return schema;
  };
  if (!isSchema(read.inputSchema)) return unfit('has an inputSchema that is no schema of an object');
  const inputSchema = repaired('inputSchema');
  if (!takesObjects(inputSchema)) return unfit('has an inputSchema that is no schema of an object');
  const wrongHeader = headerProblem(inputSchema);
  if (wrongHeader !== undefined) return unfit(wrongHeader);
  const outputSchema = read.outputSchema && repaired('outputSchema');
  return { tool: { ...read, name, inputSchema, ...(outputSchema && { outputSchema }), fingerprint }, flaws };
}

interface Published {
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: JsonSchema;
  readonly outputSchema?: JsonSchema;
  readonly annotations?: JsonSchema;
  readonly otherFields?: JsonSchema;
}

/** What was published, as plain JSON: a number that was kept for its digits is one that schemas can use. */
function readPublished(raw: JsonSchema): Published | { readonly problem: string } {
  const { title, description, inputSchema, outputSchema, annotations } = raw;
  const known = { title, description, inputSchema, outputSchema, annotations };
  if (isDeeperThan(known, maxDefinitionDepth))
    return { problem: `has a definition nested deeper than ${maxDefinitionDepth} levels` };
  const others = otherFields(raw);
  const text = writeJson(known)!;
  if (text.length + JSON.stringify(others).length > maxDefinitionLength)
    return { problem: `has a definition longer than ${maxDefinitionLength / 1024} KiB` };
  const plain = JSON.parse(text) as Record<keyof typeof known, unknown>;
  if (!hasCanonicalForm(plain))
    return { problem: 'has a definition with a number or text that cannot be written again' };
  return {
    ...(typeof plain.title === 'string' && { title: plain.title }),
    ...(typeof plain.description === 'string' && { description: plain.description }),
    inputSchema: plain.inputSchema as JsonSchema,
    ...(isSchema(plain.outputSchema) && { outputSchema: plain.outputSchema }),
    ...(isSchema(plain.annotations) && { annotations: plain.annotations }),
    ...(Object.keys(others).length > 0 && { otherFields: others }),
  };
}

/** Fields that are read here; `execution` is about tasks, which are not served. */
const knownFields: ReadonlySet<string> = new Set([
  ...['name', 'title', 'description', 'inputSchema', 'outputSchema', 'annotations', 'execution'],
]);

/** What hosts are shown beside the known fields, each in a form that they take; what has none is dropped. */
function otherFields(raw: JsonSchema): JsonSchema {
  const ignore: Tell = () => {};
  const meta = readMeta(raw['_meta'], ignore);
  const read = { ...raw, icons: readIcons(raw['icons'], ignore), _meta: meta && returnedMeta(meta) };
  return Object.fromEntries(
    Object.entries(read)
      .filter(([name, value]) => !knownFields.has(name) && value !== undefined && value !== null)
      .filter(([, value]) => !isDeeperThan(value, maxDefinitionDepth))
      .map(([name, value]) => [name, JSON.parse(writeJson(value)!) as unknown] as const)
      .filter((field) => hasCanonicalForm(field)),
  );
}

/** Infinity (of 1e400) and lone surrogates have none. */
function hasCanonicalForm(value: unknown): boolean {
  try {
    return canonicalize(value) !== undefined;
  } catch {
    return false;
  }
}
