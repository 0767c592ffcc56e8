import type { Store } from '@holdfast/store';
import {
  compileSchema,
  type JsonSchema,
  type Problem,
  type SchemaCheck,
  type ToolDefinition,
} from '@holdfast/tools';

/** A tool as hosts see it. */
export interface ServedTool {
  readonly definition: ToolDefinition;
  /** Problems of a call's arguments by the tool's JSON Schema; empty when they fit. */
  check(args: unknown): Problem[];
}

/**
 * The tools that workers registered, as this process last saw them. Read from the store again
 * when a signal says that they changed, and when they were read longer than `maxAgeMs` ago.
 */
export class ToolCatalogue {
  readonly #store: Store;
  readonly #maxAgeMs: number;
  readonly #unsubscribe: () => void;
  #tools = new Map<string, ServedTool>();
  #listed = '';
  #revision: number | undefined;
  #readAt = -Infinity;
  #changed = false;
  #reading: Promise<void> | undefined;
  readonly #listeners = new Set<() => void>();

  constructor(store: Store, maxAgeMs: number) {
    this.#store = store;
    this.#maxAgeMs = maxAgeMs;
    this.#unsubscribe = store.subscribe(({ kind }) => {
      if (kind !== 'tools' && kind !== 'everything') return;
      this.#changed = true;
      // Who listens learns of a change by itself; what cannot be read now is found at the next look.
      if (this.#listeners.size > 0) this.#refresh(this.#maxAgeMs).catch(() => {});
    });
  }

  /** Calls `listener` after each change of the list, until the returned function is called. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  close(): void {
    this.#unsubscribe();
  }

  /** The tool of that name. A name that is not known is looked for once more in the store before it is unknown. */
  async find(name: string): Promise<ServedTool | undefined> {
    await this.#refresh(this.#maxAgeMs);
    const tool = this.#tools.get(name);
    if (tool !== undefined) return tool;
    await this.#refresh(0);
    return this.#tools.get(name);
  }

  /** The `tools` of `tools/list` as JSON: ordered by name, the same on every replica (BEHAVIOURS 22, 23, 26). */
  async list(): Promise<string> {
    await this.#refresh(this.#maxAgeMs);
    return this.#listed;
  }

  async #refresh(maxAgeMs: number): Promise<void> {
    if (!this.#changed && performance.now() - this.#readAt < maxAgeMs) return;
    this.#reading ??= this.#read().finally(() => (this.#reading = undefined));
    await this.#reading;
  }

  async #read(): Promise<void> {
    const startedAt = performance.now();
    // Hosts may have the list from another replica: a change counts though this one reads for the first time.
    const isChange = this.#changed || this.#revision !== undefined;
    this.#changed = false;
    const catalogue = await this.#store.tools.list(this.#revision);
    this.#readAt = startedAt;
    if (catalogue === undefined) return;
    this.#revision = catalogue.revision;
    const sorted = [...catalogue.tools].sort((a, b) => (a.name < b.name ? -1 : 1));
    this.#tools = new Map(sorted.map((definition) => [definition.name, served(definition)]));
    this.#listed = JSON.stringify(
      sorted.map(({ name, title, description, inputSchema, toolClass }) => ({
        name,
        ...(title !== undefined && { title }),
        description,
        inputSchema: withoutHeaderWishes(inputSchema),
        annotations: { readOnlyHint: toolClass === 'read' },
      })),
    );
    if (isChange) for (const listener of this.#listeners) listener();
  }
}

function served(definition: ToolDefinition): ServedTool {
  let compiled: SchemaCheck | undefined;
  return { definition, check: (args) => (compiled ??= compileSchema(definition.inputSchema))(args) };
}

/**
 * Hosts owe us no `Mcp-Param-*` header, so the wish for one is not listed (BEHAVIOURS X21). It is
 * a string; an argument of that name has a schema.
 */
function withoutHeaderWishes(schema: JsonSchema): JsonSchema {
  const text = JSON.stringify(schema);
  if (!text.includes('"x-mcp-header"')) return schema;
  return JSON.parse(text, (key, value: unknown) =>
    key === 'x-mcp-header' && typeof value === 'string' ? undefined : value,
  ) as JsonSchema;
}
