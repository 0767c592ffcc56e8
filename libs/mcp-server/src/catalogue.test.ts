import { describe, expect, test } from '@jest/globals';
import type { Store } from '@holdfast/store';
import { defineTool, type ServerCatalogue, type ServerRules, type ToolDefinition } from '@holdfast/tools';
import { publish } from '../../../test/support/publish.ts';
import { ToolCatalogue, type CatalogueSettings } from './catalogue.js';
import {
  afterTest,
  changed,
  deaf,
  definitions,
  memoryStore,
  quiet,
  serverOf,
  until,
} from './test-gateway.js';

const day = 86_400_000;
const naming = { naming: 'double-underscore', nameLength: 64 } as const;

function catalogueOf(store: Store, maxAgeMs = day): ToolCatalogue {
  const catalogue = new ToolCatalogue({ store, settings: naming, maxAgeMs, log: quiet });
  afterTest(() => catalogue.close());
  return catalogue;
}

const tool = (name: string, input: object, title?: string): ToolDefinition =>
  defineTool({ name, description: `${name}!`, input: { type: 'object', ...input }, ...(title && { title }), run: () => '' }).definition; // prettier-ignore

test('the list is ordered by name and says of every tool whether it only reads', async () => {
  const listed = JSON.parse(await catalogueOf(await memoryStore()).list('modern')) as object[];
  expect(listed).toEqual([
    expect.objectContaining({ name: 'lookup_order', annotations: { readOnlyHint: true } }),
    expect.objectContaining({ name: 'refund_order', annotations: { readOnlyHint: false } }),
    expect.objectContaining({ name: 'work', annotations: { readOnlyHint: false } }),
  ]);
  expect(Object.keys(listed[1]!)).toEqual(['name', 'description', 'inputSchema', 'annotations']);
});

test('two replicas give the same list, however the tools were registered', async () => {
  const [one, other] = [await memoryStore(), await memoryStore()];
  await other.tools.register('default', [...definitions].reverse());
  expect(await catalogueOf(one).list('modern')).toBe(await catalogueOf(other).list('modern'));
});

test('a wish for a header is not listed, and all else of the schema is (BEHAVIOURS X21)', async () => {
  const store = await memoryStore();
  const schema = (wish: object) => ({
    properties: { region: { type: 'string', ...wish }, deep: { properties: { at: { enum: ['x-mcp-header'], ...wish } } } },
  }); // prettier-ignore
  await store.tools.register('default', [tool('t', schema({ 'x-mcp-header': 'Region' }), 'T')]);
  expect(JSON.parse(await catalogueOf(store).list('modern'))).toEqual([
    {
      name: 't',
      title: 'T',
      description: 't!',
      inputSchema: { type: 'object', ...schema({}) },
      annotations: { readOnlyHint: false },
    },
  ]);
});

test('an argument that is named as the wish stays', async () => {
  const store = await memoryStore();
  const properties = { 'x-mcp-header': { type: 'string' } };
  await store.tools.register('default', [tool('t', { properties })]);
  expect(JSON.parse(await catalogueOf(store).list('modern'))[0].inputSchema.properties).toEqual(properties);
});

test('a tool that was registered a moment ago is found, also by who has not heard of it', async () => {
  const store = await memoryStore();
  const catalogue = catalogueOf(deaf(store));
  expect(await catalogue.find('later')).toBeUndefined();
  await store.tools.register('other', [tool('later', {})]);
  expect((await catalogue.find('later'))?.name).toBe('later');
});

test('a change is seen at the next look, and without one the store is not asked', async () => {
  const store = await memoryStore();
  let reads = 0;
  const list: Store['tools']['list'] = (known) => (reads++, store.tools.list(known));
  const catalogue = catalogueOf(changed(store, { tools: changed(store.tools, { list }) }));
  await Promise.all([catalogue.list('modern'), catalogue.list('modern'), catalogue.find('work')]);
  await catalogue.find('work');
  expect(reads).toBe(1);
  await store.tools.register('default', []);
  expect(await catalogue.list('modern')).toBe('[]');
  expect(await catalogue.find('work')).toBeUndefined();
});

test('who listens learns of each change, of the first too, and of nothing else', async () => {
  const store = await memoryStore();
  const [fresh, used] = [catalogueOf(store), catalogueOf(store)];
  const heard: string[] = [];
  fresh.onChange(() => heard.push('fresh'));
  const stop = used.onChange(() => heard.push('used'));
  await used.list('modern');
  expect(heard).toEqual([]);
  await store.tools.register('default', []);
  await until(() => heard.length === 2);
  stop();
  await store.tools.register('default', definitions);
  await until(() => heard.length === 3);
  expect([...heard].sort()).toEqual(['fresh', 'fresh', 'used']);
});

test('a change that nobody told of is seen when the list is too old', async () => {
  const store = await memoryStore();
  const catalogue = catalogueOf(deaf(store), 0);
  await catalogue.list('modern');
  await store.tools.register('default', []);
  expect(await catalogue.list('modern')).toBe('[]');
});

test('what is wrong with arguments is told by path', async () => {
  const found = await catalogueOf(await memoryStore()).find('refund_order');
  expect(found!.check({ order_id: 'o' })).toEqual([]);
  expect(found!.check({ lines: [{}] })).toEqual(['order_id: is required', 'lines[0].price: is required']);
});

const docs = [
  { name: 'search.docs', description: 'Searches.', annotations: { readOnlyHint: true, title: 'S' } },
  {
    name: 'write',
    title: 'W',
    description: '',
    annotations: { destructiveHint: true, idempotentHint: true },
  },
  { name: 'bare' },
];
/** The entries of the list, by name. */
const listOf = async (
  server: ServerCatalogue,
  settings: CatalogueSettings = naming,
): Promise<Record<string, unknown>[]> => {
  const store = await memoryStore();
  await publish(store, server);
  const catalogue = new ToolCatalogue({ store, settings, maxAgeMs: day, log: quiet });
  afterTest(() => catalogue.close());
  const all = JSON.parse(await catalogue.list('modern')) as { name: string }[];
  expect(all.map(({ name }) => name)).toEqual(all.map(({ name }) => name).sort());
  const own = new Set(definitions.map(({ name }) => name));
  return all.filter(({ name }) => !own.has(name));
};

describe('the tools of an upstream', () => {
  test('are listed among our own, by name, with our word for their class (BEHAVIOURS 27, 28, X17)', async () => {
    expect(await listOf(serverOf(docs))).toEqual([
      { name: 'docs__bare', description: '[MCP Docs] bare', inputSchema: { type: 'object' }, annotations: { readOnlyHint: false } },
      { name: 'docs__search_docs_31310365', description: '[MCP Docs] Searches.', inputSchema: { type: 'object' }, annotations: { title: 'S', readOnlyHint: true } },
      { name: 'docs__write', title: 'W', description: '[MCP Docs] ', inputSchema: { type: 'object' }, annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true } },
    ]); // prettier-ignore
  });

  test('have names in the style of the deployment', async () => {
    const names = (await listOf(serverOf(docs), { naming: 'dotted', nameLength: 64 })).map(
      ({ name }) => name,
    );
    expect(names).toEqual(['docs.bare', 'docs.search.docs', 'docs.write']);
  });

  test('have their own description where the prefix is switched off', async () => {
    const listed = await listOf(serverOf(docs, { rules: { descriptionPrefix: false } }));
    expect(listed.map(({ description }) => description)).toEqual([undefined, 'Searches.', '']);
  });

  test('are offered as the filters say, and are called the same with and without them', async () => {
    const names = async (rules: Partial<ServerRules>): Promise<unknown[]> =>
      (await listOf(serverOf([...docs, { name: 'search docs' }], { rules }))).map(({ name }) => name);
    expect(await names({ allow: ['search.docs'] })).toEqual(['docs__search_docs_31310365']);
    expect(await names({ deny: ['search.docs', 'write'] })).toEqual([
      'docs__bare',
      'docs__search_docs_4ad94742',
    ]);
  });

  test('list an output schema only where their results are passed on (BEHAVIOURS X12)', async () => {
    const outputSchema = { type: 'object', properties: { n: { type: 'integer' } } };
    const listed = async (schema: object, rules: Partial<ServerRules> = {}): Promise<unknown> =>
      (await listOf(serverOf([{ name: 't', outputSchema: schema }], { rules })))[0]!['outputSchema'];
    expect(await listed(outputSchema)).toEqual(outputSchema);
    expect(await listed(outputSchema, { resultMode: 'text' })).toBeUndefined();
  });

  test('F60 are listed in a form that every host takes, and checked by their own schema', async () => {
    const store = await memoryStore();
    const inputSchema = {
      oneOf: [
        { properties: { id: { type: 'string', 'x-mcp-header': 'Id' } }, required: ['id'] },
        { properties: { url: { type: 'string' } }, required: ['url'] },
      ],
    };
    const plain = JSON.parse(JSON.stringify(inputSchema).replace(',"x-mcp-header":"Id"', '')) as object;
    await publish(store, serverOf([{ name: 't', inputSchema: plain }]));
    const catalogue = catalogueOf(store);
    const [listed] = JSON.parse(await catalogue.list('modern')) as { inputSchema: object }[];
    expect(listed!.inputSchema).toEqual({
      type: 'object',
      properties: { id: { type: 'string' }, url: { type: 'string' } },
    });
    const found = await catalogue.find('docs__t');
    expect(found!.check({ id: 'a' })).toEqual([]);
    expect(found!.check({ id: 'a', url: 'b' })).not.toEqual([]);
    expect(found!.check({})).not.toEqual([]);
  });

  test('whose schema is too long say so, and are checked by it', async () => {
    const inputSchema = { type: 'object', properties: { a: { enum: ['x'.repeat(300_000)] } } };
    const [listed] = await listOf(serverOf([{ name: 't', description: 'T.', inputSchema }]));
    expect(listed).toMatchObject({
      description: expect.stringMatching(
        /^\[MCP Docs\] T\. \(Its parameters are not listed: .* KiB long\.\)$/,
      ),
      inputSchema: { type: 'object' },
    });
  });

  test('F55 one that cannot be named is left out alone and reported once', async () => {
    const store = await memoryStore();
    const lines: unknown[] = [];
    const log = { ...quiet, warn: (fields: object, message: string) => void lines.push([message, fields]) };
    await publish(store, serverOf([{ name: '' }, { name: 'good' }]));
    const catalogue = new ToolCatalogue({ store, settings: naming, maxAgeMs: day, log });
    afterTest(() => catalogue.close());
    expect((await catalogue.find('docs__good'))?.kind).toBe('upstream');
    await store.tools.register('default', []);
    expect(JSON.parse(await catalogue.list('modern'))).toHaveLength(1);
    const tool = { server: 'docs_5e5e5e5e', tool: '', reason: 'it has no name' };
    expect(lines).toEqual([['tools left out of the list', { tools: [tool], count: 1 }]]);
  });

  test('G10: a row of the store that cannot be read takes no other tool away, and is reported once', async () => {
    const store = await memoryStore();
    const lines: unknown[] = [];
    const log = { ...quiet, warn: (fields: object, message: string) => void lines.push([message, fields]) };
    const damaged = { ...serverOf(docs, { key: 'bad_5e5e5e5e' }), toJSON: () => ({ key: 'bad_5e5e5e5e' }) };
    await publish(store, damaged);
    await publish(store, serverOf([{ name: 'good' }]));
    const catalogue = new ToolCatalogue({ store, settings: naming, maxAgeMs: day, log });
    afterTest(() => catalogue.close());
    expect((await catalogue.find('docs__good'))?.kind).toBe('upstream');
    expect((await catalogue.find('work'))?.kind).toBe('local');
    await store.tools.register('another', []);
    await catalogue.list('modern');
    const row = { kind: 'server', name: 'bad_5e5e5e5e', problem: expect.any(String) };
    expect(lines).toEqual([
      ['rows of the store cannot be read; left out of the list', { rows: [row], count: 1 }],
    ]);
  });

  test('F77 hosts are told of a change once, and not when the list is equal', async () => {
    const store = await memoryStore();
    await publish(store, serverOf(docs));
    const catalogue = catalogueOf(store);
    let heard = 0;
    catalogue.onChange(() => heard++);
    await catalogue.list('modern');
    await publish(store, serverOf(docs, { rules: { timeoutMs: 1_000 } }));
    await until(async () => {
      const found = await catalogue.find('docs__bare');
      return found?.kind === 'upstream' && found.server.rules.timeoutMs === 1_000;
    });
    expect(heard).toBe(0);
    await publish(store, serverOf([]));
    await until(() => heard === 1);
    expect(await catalogue.find('docs__bare')).toBeUndefined();
  });

  test('two thousand of them are listed', async () => {
    const store = await memoryStore();
    for (let i = 0; i < 50; i++) {
      const tools = Array.from({ length: 40 }, (_, n) => ({ name: `tool_${n}` }));
      await publish(store, serverOf(tools, { key: `s${i}_5e5e5e5e`, id: `s${i}` }));
    }
    const catalogue = catalogueOf(store);
    expect(JSON.parse(await catalogue.list('modern'))).toHaveLength(2_000 + definitions.length);
  });
});
