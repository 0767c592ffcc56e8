import { describe, expect, test } from '@jest/globals';
import type { Connection } from '@holdfast/mcp-client';
import { listTools, type Listing, type ReadDefinitions } from './listing.js';

/** A connection to a server that publishes these pages, by cursor. */
const serving = (pages: Readonly<Record<string, object>>): Connection =>
  ({ listPage: async (cursor: string | undefined) => pages[cursor ?? 'first'] }) as unknown as Connection;
const limits = { maxPages: 10, maxTools: 1_000, timeoutMs: 10_000 };
const list = (tools: readonly object[], known?: ReadDefinitions): Promise<Listing> =>
  listTools(serving({ first: { tools } }), 'up', limits, known);
const named = (name: string, more: object = {}): object => ({
  name,
  inputSchema: { type: 'object' },
  ...more,
});
const names = ({ tools }: Listing): string[] => tools.map(({ name }) => name);

test('G64: a tool that is listed twice is served once, and its siblings are served', async () => {
  const listing = await list([named('b', { title: '1' }), named('a'), named('b', { title: '2' })]);
  expect(names(listing)).toEqual(['a', 'b']);
  expect(listing.tools[1]!.title).toBe('1');
  expect(listing.leftOut).toEqual([{ name: 'b', problem: 'is listed twice; the first one is served' }]);
});

test('G64: of two tools of one name the one that can be served is', async () => {
  const listing = await list([{ name: 'a', inputSchema: 7 }, named('a')]);
  expect(names(listing)).toEqual(['a']);
  expect(listing.leftOut).toHaveLength(1);
});

test('G46: a tool that can only be called as a task is left out, and said', async () => {
  const listing = await list([named('a', { execution: { taskSupport: 'required' } }), named('b', { execution: { taskSupport: 'optional' } })]); // prettier-ignore
  expect(names(listing)).toEqual(['b']);
  expect(listing.leftOut).toEqual([
    { name: 'a', problem: expect.stringMatching(/^can only be called as a task/) },
  ]);
});

test('G07: a tool with flaws is served, and its flaws are named', async () => {
  const listing = await list([named('a', { inputSchema: { properties: [], required: true } }), named('b')]);
  expect(names(listing)).toEqual(['a', 'b']);
  expect(listing.flawed).toEqual([
    {
      name: 'a',
      flaws: ['inputSchema.properties is not an object', 'inputSchema.required is not a list of names'],
    },
  ]);
});

test('G60: an empty cursor leads to the next page', async () => {
  const pages = {
    first: { tools: [named('a')], nextCursor: '' },
    '': { tools: [named('b')], nextCursor: null },
  };
  expect(names(await listTools(serving(pages), 'up', limits))).toEqual(['a', 'b']);
  const endless = { first: { tools: [], nextCursor: '' }, '': { tools: [], nextCursor: '' } };
  await expect(listTools(serving(endless), 'up', limits)).rejects.toThrow(/its cursor repeats/);
});

test('G79: neither the order of tools nor that of keys is a change', async () => {
  const one = await list([named('a', { inputSchema: { type: 'object', properties: {} } }), named('b')]);
  const other = await list([named('b'), named('a', { inputSchema: { properties: {}, type: 'object' } })]);
  expect(other.tools).toEqual(one.tools);
  expect(other.tools.map(({ fingerprint }) => fingerprint)).toEqual(
    one.tools.map(({ fingerprint }) => fingerprint),
  );
});

describe('G25: a listing without end', () => {
  test('of long definitions fails at 8 MiB of them', async () => {
    const long = (count: number): object[] =>
      Array.from({ length: count }, (_, i) => named(`t${i}`, { description: 'x'.repeat(400_000) }));
    await expect(list(long(100))).rejects.toThrow(/its definitions are longer than 8 MiB together/);
    expect(names(await list(long(20)))).toHaveLength(20);
  });

  test('stops between tools when its time is over', async () => {
    const endless = Array.from({ length: 900 }, (_, i) => named(`t${i}`));
    // What is read here blocks the loop for longer than the listing has.
    const slow = { ...named('slow'), get inputSchema() { const until = performance.now() + 40; while (performance.now() < until); return { type: 'object' }; } }; // prettier-ignore
    const connection = serving({ first: { tools: [slow, ...endless] } });
    await expect(listTools(connection, 'up', { ...limits, timeoutMs: 20 })).rejects.toThrow(
      /not done within 20 ms/,
    );
  });

  test('takes what has the same bytes as before from the last one', async () => {
    const first = await list([named('a'), named('b', { title: '1' }), { name: 'c', inputSchema: 7 }]);
    const second = await list(
      [named('a'), named('b', { title: '2' }), { name: 'c', inputSchema: 7 }],
      first.read,
    );
    expect(second.tools[0]).toBe(first.tools[0]);
    expect(second.tools[1]).not.toBe(first.tools[1]);
    expect(second.leftOut).toEqual(first.leftOut);
    expect(second.read.size).toBe(3);
  });
});
