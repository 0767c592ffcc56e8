import { expect, test } from '@jest/globals';
import type { Store } from '@holdfast/store';
import { defineTool, type ToolDefinition } from '@holdfast/tools';
import { ToolCatalogue } from './catalogue.js';
import { afterTest, changed, deaf, definitions, memoryStore, until } from './test-gateway.js';

const day = 86_400_000;

function catalogueOf(store: Store, maxAgeMs = day): ToolCatalogue {
  const catalogue = new ToolCatalogue(store, maxAgeMs);
  afterTest(() => catalogue.close());
  return catalogue;
}

const tool = (name: string, input: object, title?: string): ToolDefinition =>
  defineTool({ name, description: `${name}!`, input: { type: 'object', ...input }, ...(title && { title }), run: () => '' }).definition; // prettier-ignore

test('the list is ordered by name and says of every tool whether it only reads', async () => {
  const listed = JSON.parse(await catalogueOf(await memoryStore()).list()) as object[];
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
  expect(await catalogueOf(one).list()).toBe(await catalogueOf(other).list());
});

test('a wish for a header is not listed, and all else of the schema is (BEHAVIOURS X21)', async () => {
  const store = await memoryStore();
  const schema = (wish: object) => ({
    properties: { region: { type: 'string', ...wish }, deep: { properties: { at: { enum: ['x-mcp-header'], ...wish } } } },
  }); // prettier-ignore
  await store.tools.register('default', [tool('t', schema({ 'x-mcp-header': 'Region' }), 'T')]);
  expect(JSON.parse(await catalogueOf(store).list())).toEqual([
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
  expect(JSON.parse(await catalogueOf(store).list())[0].inputSchema.properties).toEqual(properties);
});

test('a tool that was registered a moment ago is found, also by who has not heard of it', async () => {
  const store = await memoryStore();
  const catalogue = catalogueOf(deaf(store));
  expect(await catalogue.find('later')).toBeUndefined();
  await store.tools.register('other', [tool('later', {})]);
  expect((await catalogue.find('later'))?.definition.name).toBe('later');
});

test('a change is seen at the next look, and without one the store is not asked', async () => {
  const store = await memoryStore();
  let reads = 0;
  const list: Store['tools']['list'] = (known) => (reads++, store.tools.list(known));
  const catalogue = catalogueOf(changed(store, { tools: changed(store.tools, { list }) }));
  await Promise.all([catalogue.list(), catalogue.list(), catalogue.find('work')]);
  await catalogue.find('work');
  expect(reads).toBe(1);
  await store.tools.register('default', []);
  expect(await catalogue.list()).toBe('[]');
  expect(await catalogue.find('work')).toBeUndefined();
});

test('who listens learns of each change, of the first too, and of nothing else', async () => {
  const store = await memoryStore();
  const [fresh, used] = [catalogueOf(store), catalogueOf(store)];
  const heard: string[] = [];
  fresh.onChange(() => heard.push('fresh'));
  const stop = used.onChange(() => heard.push('used'));
  await used.list();
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
  await catalogue.list();
  await store.tools.register('default', []);
  expect(await catalogue.list()).toBe('[]');
});

test('what is wrong with arguments is told by path', async () => {
  const found = await catalogueOf(await memoryStore()).find('refund_order');
  expect(found!.check({ order_id: 'o' })).toEqual([]);
  expect(found!.check({ lines: [{}] })).toEqual(['order_id: is required', 'lines[0].price: is required']);
});
