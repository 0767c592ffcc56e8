import type { Log, ToolClass } from '@holdfast/run';
import type { Catalogue, Store } from '@holdfast/store';
import {
  classOf,
  compileSchema,
  isOffered,
  listedAnnotations,
  listedOutputSchema,
  listedSchema,
  projectNames,
  withoutHeaderWishes,
  type JsonSchema,
  type LeftOutName,
  type NamingStyle,
  type Problem,
  type SchemaCheck,
  type ServerCatalogue,
  type ToolDefinition,
  type UpstreamTool,
} from '@holdfast/tools';

/** A tool as hosts see it: one of the workers, or one of an upstream. */
export type ServedTool = ServedLocalTool | ServedUpstreamTool;

interface Served {
  /** As hosts call it. */
  readonly name: string;
  readonly toolClass: ToolClass;
  /** Whether hosts hold its results against an output schema. */
  readonly listsOutput: boolean;
  /** Problems of a call's arguments by the tool's own JSON Schema; empty when they fit. */
  check(args: unknown): Problem[];
}

interface ServedLocalTool extends Served {
  readonly kind: 'local';
  readonly definition: ToolDefinition;
}

interface ServedUpstreamTool extends Served {
  readonly kind: 'upstream';
  readonly server: ServerCatalogue;
  readonly tool: UpstreamTool;
}

/** A tool of an upstream that was listed here and is not any more. */
export interface WithdrawnTool {
  readonly listsOutput: boolean;
  /** The name of its server, for people. */
  readonly server: string;
}

/** The longest memory of withdrawn tools; the oldest are forgotten first. */
const maxWithdrawn = 10_000;

/** What hosts of 2026-07-28 and older ones read of a list. */
type Era = 'modern' | 'legacy';

export interface CatalogueSettings {
  /** How upstream tools are called. */
  readonly naming: NamingStyle;
  readonly nameLength: number;
}

export interface CatalogueParts {
  readonly store: Store;
  readonly settings: CatalogueSettings;
  readonly maxAgeMs: number;
  readonly log: Log;
}

/**
 * The tools of workers and upstreams, as this process last saw them in the store. Read again
 * when a signal says that they changed, and when they were read longer than `maxAgeMs` ago. A list
 * never depends on a worker, a connector or an upstream being there.
 */
export class ToolCatalogue {
  readonly #parts: CatalogueParts;
  readonly #unsubscribe: () => void;
  #tools: ReadonlyMap<string, ServedTool> = new Map();
  readonly #withdrawn = new Map<string, WithdrawnTool>();
  #listed: Readonly<Record<Era, string>> = { modern: '', legacy: '' };
  #revision: number | undefined;
  #readAt = -Infinity;
  #changed = false;
  #reading: Promise<void> | undefined;
  /** What was said last, by message. */
  readonly #reported = new Map<string, string>();
  readonly #listeners = new Set<() => void>();

  constructor(parts: CatalogueParts) {
    this.#parts = parts;
    this.#unsubscribe = parts.store.subscribe(({ kind }) => {
      if (kind !== 'tools' && kind !== 'everything') return;
      this.#changed = true;
      // Who listens learns of a change by itself; what cannot be read now is found at the next look.
      if (this.#listeners.size > 0) this.#refresh(parts.maxAgeMs).catch(() => {});
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
    await this.#refresh(this.#parts.maxAgeMs);
    const tool = this.#tools.get(name);
    if (tool !== undefined) return tool;
    await this.#refresh(0);
    return this.#tools.get(name);
  }

  /** The tool of that name as it was last seen here, without a look at the store. */
  lastSeen(name: string): Pick<ServedTool, 'listsOutput'> | undefined {
    return this.#tools.get(name) ?? this.#withdrawn.get(name);
  }

  /** The upstream's tool of that name, where hosts may have it from an older list of this process. */
  withdrawn(name: string): WithdrawnTool | undefined {
    return this.#withdrawn.get(name);
  }

  /** The `tools` of `tools/list` as JSON: ordered by name, the same on every replica (BEHAVIOURS 22, 23, 26, 27). */
  async list(era: Era): Promise<string> {
    await this.#refresh(this.#parts.maxAgeMs);
    return this.#listed[era];
  }

  async #refresh(maxAgeMs: number): Promise<void> {
    if (!this.#changed && performance.now() - this.#readAt < maxAgeMs) return;
    this.#reading ??= this.#read().finally(() => (this.#reading = undefined));
    await this.#reading;
  }

  async #read(): Promise<void> {
    const startedAt = performance.now();
    // Hosts may have the list from another replica: a change counts though this one reads for the first time.
    const mayBeChange = this.#changed || this.#revision !== undefined;
    this.#changed = false;
    const catalogue = await this.#parts.store.tools.list(this.#revision);
    this.#readAt = startedAt;
    if (catalogue === undefined) return;
    this.#revision = catalogue.revision;
    const { entries, leftOut } = entriesOf(catalogue, this.#parts.settings);
    const tools = new Map(entries.map(({ served }) => [served.name, served]));
    this.#withdraw(tools);
    this.#tools = tools;
    const modern = listOf(entries.map(({ json }) => json));
    const legacy = listOf(entries.map(({ json, legacyJson = json }) => legacyJson));
    // A server that publishes the same again is no news to hosts (F77).
    const isChange = mayBeChange && (modern !== this.#listed.modern || legacy !== this.#listed.legacy);
    this.#listed = { modern, legacy: legacy === modern ? modern : legacy };
    this.#report('tools left out of the list', 'tools', leftOut);
    this.#report('rows of the store cannot be read; left out of the list', 'rows', catalogue.unreadable);
    if (isChange) for (const listener of this.#listeners) listener();
  }

  /** Remembers the tools of upstreams that are not among `tools` any more. */
  #withdraw(tools: ReadonlyMap<string, ServedTool>): void {
    for (const [name, tool] of this.#tools) {
      if (tool.kind === 'upstream' && !tools.has(name))
        this.#withdrawn.set(name, { listsOutput: tool.listsOutput, server: tool.server.name });
    }
    for (const name of this.#withdrawn.keys())
      if (tools.has(name) || this.#withdrawn.size > maxWithdrawn) this.#withdrawn.delete(name);
  }

  /** Says what is left out, when it is not what was said before. */
  #report(message: string, field: 'tools' | 'rows', leftOut: readonly object[]): void {
    const all = JSON.stringify(leftOut);
    if (leftOut.length > 0 && all !== this.#reported.get(message))
      this.#parts.log.warn({ [field]: leftOut.slice(0, 20), count: leftOut.length }, message);
    this.#reported.set(message, all);
  }
}

/** A tool with its entry in `tools/list`, as JSON. */
interface Entry {
  readonly served: ServedTool;
  readonly json: string;
  /** For hosts from before 2026-07-28, where it is another. */
  readonly legacyJson?: string;
}

function listOf(entries: readonly string[]): string {
  return `[${entries.join(',')}]`;
}

function entriesOf(
  { tools, servers }: Catalogue,
  { naming, nameLength }: CatalogueSettings,
): { readonly entries: readonly Entry[]; readonly leftOut: readonly LeftOutName[] } {
  const { exposed, leftOut } = projectNames({
    localNames: tools.map(({ name }) => name),
    servers,
    style: naming,
    maxLength: nameLength,
  });
  const entries = [
    ...tools.map(localEntry),
    ...servers.flatMap((server) =>
      server.tools.flatMap((tool) => {
        const name = exposed.get(server.key)?.get(tool.name);
        return name !== undefined && isOffered(tool.name, server.rules)
          ? upstreamEntry(name, server, tool)
          : [];
      }),
    ),
  ];
  entries.sort((a, b) => (a.served.name < b.served.name ? -1 : 1));
  return { entries, leftOut };
}

function localEntry(definition: ToolDefinition): Entry {
  const { name, title, description, inputSchema, toolClass } = definition;
  return {
    served: {
      kind: 'local',
      name,
      toolClass,
      definition,
      listsOutput: false,
      check: compiledAtFirstUse(() => compileSchema(inputSchema)),
    },
    json: JSON.stringify({
      name,
      title,
      description,
      // Its author's own words: hosts that take less are the author's to know.
      inputSchema: withoutHeaderWishes(inputSchema),
      annotations: { readOnlyHint: toolClass === 'read' },
    }),
  };
}

function upstreamEntry(name: string, server: ServerCatalogue, tool: UpstreamTool): Entry {
  const { rules } = server;
  const { schema, note } = listedSchema(tool.inputSchema);
  // As text there is no structured content that could fit it (BEHAVIOURS X12).
  const isPassedOn = rules.resultMode === 'passthrough' && tool.outputSchema !== undefined;
  const outputSchema = isPassedOn ? listedOutputSchema(tool.outputSchema!) : undefined;
  const write = (output: JsonSchema | undefined): string =>
    JSON.stringify({
      ...tool.otherFields,
      name,
      title: tool.title,
      description: withNote(describe(server, tool), note),
      inputSchema: schema,
      outputSchema: output,
      annotations: listedAnnotations(tool, rules),
    });
  return {
    served: {
      kind: 'upstream',
      name,
      toolClass: classOf(tool, rules),
      server,
      tool,
      listsOutput: outputSchema !== undefined,
      check: compiledAtFirstUse(() => compileSchema(tool.inputSchema)),
    },
    json: write(outputSchema),
    // Older hosts take output schemas of objects only, and then none of the list.
    ...(outputSchema !== undefined && outputSchema['type'] !== 'object' && { legacyJson: write(undefined) }),
  };
}

/** What a model reads: behind the operator's name of the server, unless that is switched off (BEHAVIOURS X17). */
function describe({ name, rules }: ServerCatalogue, tool: UpstreamTool): string | undefined {
  return rules.descriptionPrefix ? `[MCP ${name}] ${tool.description ?? tool.name}` : tool.description;
}

function withNote(description: string | undefined, note: string | undefined): string | undefined {
  return note === undefined ? description : [description, note].filter(Boolean).join(' ');
}

/** Most tools of a list are never called. */
function compiledAtFirstUse(compile: () => SchemaCheck): SchemaCheck {
  let compiled: SchemaCheck | undefined;
  return (args) => (compiled ??= compile())(args);
}
