import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { tool, type ScriptableUpstream } from '../servers/index.ts';
import { openHost, textOf, type Host } from './host.ts';
import { startGateway, stopEverything } from './service.ts';
import { keys } from './fleet.ts';
import { toolsOf, UpstreamFleet } from './upstream-fleet.ts';

const legal = /^[a-zA-Z0-9_-]{1,64}$/;
const server = 'a-server-with-thirty-letters--';
const lengths = [40, 63, 64, 65, 128, 200];

/** Names that are alike for as long as a cut would leave of them. */
const named = (length: number): string => `tool-${'x'.repeat(length - 8)}-${length}`.padEnd(length, 'z');

let own: UpstreamFleet;
let host: Host;
let upstream: ScriptableUpstream;
beforeAll(async () => {
  own = await UpstreamFleet.start('postgres', {}, { gateways: 2, workers: 1, connectors: 1 });
  host = await own.fleet.host('modern');
  upstream = await own.upstream({ pages: [lengths.map((length) => tool(named(length)))] });
  await own.connect({ id: server, url: upstream.url }, host);
});
afterAll(async () => {
  await own.dispose();
  await stopEverything();
});

/** The bare name of the tool that a call of `name` reached. */
async function reached(by: Host, name: string, at = upstream): Promise<string> {
  const before = at.executions.all.length;
  expect(textOf(await by.call(name, { n: 1 }))).toBe('{"n":1}');
  expect(at.executions.all).toHaveLength(before + 1);
  return at.executions.all.at(-1)!.tool;
}

async function reachedByAll(names: readonly string[], by = host): Promise<string[]> {
  const bare: string[] = [];
  for (const name of names) bare.push(await reached(by, name));
  return bare.sort();
}

describe('tools whose names are long', () => {
  test('F51 are listed by 64 legal characters at most, the same on each replica and after a restart, and reached', async () => {
    const names = await own.listed(host, server);
    expect(names).toHaveLength(lengths.length);
    expect(new Set(names).size).toBe(lengths.length);
    for (const name of names) expect(name).toMatch(legal);
    expect(await reachedByAll(names)).toEqual(lengths.map(named).sort());

    const other = await own.fleet.host('modern', { gateway: 1 });
    expect(await own.listed(other, server)).toEqual(names);
    await own.fleet.restart();
    host = await own.fleet.host('modern');
    expect(await own.listed(host, server)).toEqual(names);
    expect(await reachedByAll(names)).toEqual(lengths.map(named).sort());
  });

  test('F51 variant: as are names with characters that are not legal, which stay apart', async () => {
    const odd = ['search docs', 'search.docs', 'search/docs', 'suche:größe', '検索', '\u{1f50d}', ' ', '..'];
    const strange = await own.upstream({ pages: [odd.map((name) => tool(name))] });
    const names = await own.connect({ id: 'odd', url: strange.url }, host);
    expect(names).toHaveLength(odd.length);
    for (const name of names) expect(name).toMatch(legal);
    const bare: string[] = [];
    for (const name of names) bare.push(await reached(host, name, strange));
    expect(bare.sort()).toEqual([...odd].sort());
  });
});

describe('a host that puts a prefix of its own before each name', () => {
  test.each([
    ['F53 with 64 for both', 'mcp__gateway__', 50, 64],
    ['F53 variant: with 60 for its name of the gateway and the tool', 'gateway', 53, 60],
  ])('%s has names that stay short enough, told apart by a hash', async (_title, prefix, limit, total) => {
    const { base } = await startGateway({ ...own.fleet.env, HOLDFAST_NAME_LENGTH: String(limit) });
    const short = await openHost('modern', `${base}/mcp`, keys.desk);
    const names = await own.listed(short, server);
    for (const name of names) expect((prefix + name).length).toBeLessThanOrEqual(total);
    expect(names.every((name) => /_[0-9a-f]{8}$/.test(name))).toBe(true);
    expect(new Set(names).size).toBe(lengths.length);
    expect(await reachedByAll(names, short)).toEqual(lengths.map(named).sort());
    // The gateway beside it has the same tools by its own names.
    expect(await own.listed(host, server)).toHaveLength(lengths.length);
  });
});

describe('a tool that nobody could use', () => {
  const twenty = Array.from({ length: 20 }, (_, i) => tool(`good-${i}`));

  test('F55 that has no name is left out alone and reported, and the other twenty are served', async () => {
    const mixed = await own.upstream({ pages: [[...twenty, tool('')]] });
    expect(await own.connect({ id: 'mixed', url: mixed.url }, host)).toHaveLength(20);
    const said = (): boolean =>
      own.fleet.services.some(({ log }) => JSON.stringify(log).includes('left out'));
    expect(said()).toBe(true);
    expect(await reached(host, 'mixed__good-7', mixed)).toBe('good-7');
  });

  test('F55 variant: that takes no object, or asks for a header that cannot be, is left out alone too', async () => {
    const bad = [
      tool('takes-text', { definition: { inputSchema: { type: 'string' } } }),
      tool('header', {
        definition: {
          inputSchema: {
            type: 'object',
            properties: { a: { type: 'string', 'x-mcp-header': 'bad header\r\n' } },
          },
        },
      }),
    ];
    const mixed = await own.upstream({ era: 'modern', pages: [[...bad, ...twenty]] });
    const names = await own.connect({ id: 'mixed-more', url: mixed.url }, host);
    expect(names.filter((name) => name.includes('good-'))).toHaveLength(20);
    expect(names.some((name) => name.includes('header'))).toBe(false);
    expect(await own.diagnostic('mixed-more', /"header"/)).toMatch(/left out/);
    for (const { name, inputSchema } of await toolsOf(host)) {
      expect(name).toMatch(legal);
      expect(inputSchema['type']).toBe('object');
    }
  });
});
