import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { tool } from '../servers/index.ts';
import { keys } from './fleet.ts';
import { eras, textOf, type Host } from './host.ts';
import { toolsOf, UpstreamFleet } from './upstream-fleet.ts';

let own: UpstreamFleet;
let host: Host;
beforeAll(async () => {
  own = await UpstreamFleet.start('standalone');
  host = await own.fleet.host('modern');
});
afterAll(() => own.dispose());

const page = (tools: readonly string[], nextCursor?: string): object => ({
  tools: tools.map((name) => tool(name).definition),
  ...(nextCursor !== undefined && { nextCursor }),
});

describe('an upstream whose cursor never advances', () => {
  test('F72 is not connected, after three pages at most, and its neighbour is left alone', async () => {
    const good = await own.upstream({ pages: [[tool('fine')]] });
    await own.connect({ id: 'good', url: good.url }, host);
    const listsOfGood = good.requests('tools/list').length;
    const eight = Array.from({ length: 8 }, (_, i) => `tool-${i}`);
    const listResults = { '': page(eight, '8'), '8': page(eight, '8') };
    const stuck = await own.upstream({ era: 'legacy', listResults });
    own.set({ id: 'stuck', name: 'Server that is stuck', url: stuck.url });
    expect(await own.diagnostic('stuck')).toMatch(/Server that is stuck/);
    expect(stuck.requests('tools/list').length).toBeLessThanOrEqual(3);
    const names = (await toolsOf(host)).map(({ name }) => name);
    expect(names.filter((name) => name.startsWith('stuck'))).toEqual([]);
    expect(textOf(await host.call('good__fine', { n: 1 }))).toBe('{"n":1}');
    expect(good.requests('tools/list')).toHaveLength(listsOfGood);
  });

  test('F72 variant: by turns, with other tools on each page, or with a cursor that is no text', async () => {
    const bad: Record<string, Record<string, unknown>> = {
      'by-turns': { '': page(['a'], '1'), '1': page(['b'], '2'), '2': page(['c'], '1') },
      'other-tools': { '': page(['a'], '8'), '8': page(['b'], '8') },
      'a-number': { '': { ...page(['a']), nextCursor: 8 } },
    };
    for (const [id, listResults] of Object.entries(bad)) {
      const stuck = await own.upstream({ era: 'legacy', listResults });
      own.set({ id, name: `Server ${id}`, url: stuck.url });
      expect(await own.diagnostic(id)).toMatch(`the tools of Server ${id} cannot be read to their end`);
      expect(stuck.requests('tools/list').length).toBeLessThanOrEqual(3);
    }
    const names = (await toolsOf(host)).map(({ name }) => name);
    expect(names.filter((name) => /^(by-turns|other-tools|a-number)_/.test(name))).toEqual([]);
  });
});

describe.each(eras)('a %s host that asks for pages', (era) => {
  const many = Array.from({ length: 250 }, (_, i) => `tool-${i}`);

  test('F74 gets all tools once on one page, and no cursor is good: not a made-up one, not that of another', async () => {
    const upstream = await own.upstream({ pages: [many.map((name) => tool(name))] });
    const [id, asking] = [`many-${era}`, await own.fleet.host(era)];
    const names = await own.connect({ id, url: upstream.url }, asking);
    expect(names).toHaveLength(many.length);
    expect(new Set(names).size).toBe(many.length);
    const { messages } = await asking.send('tools/list').answer;
    expect(messages[0]!.result).not.toHaveProperty('nextCursor');
    const other = await own.fleet.host(era, { key: keys.ci });
    for (const cursor of ['2', '', Buffer.from('{"offset":100}').toString('base64'), many[0]]) {
      const { messages } = await other.send('tools/list', { cursor }).answer;
      expect(messages[0]!.error?.code).toBe(-32602);
      expect(JSON.stringify(messages)).not.toContain('many-');
    }
  });

  test('F74 variant: a cursor that is no text is refused too, and none at all is a first page', async () => {
    const asking = await own.fleet.host(era);
    for (const cursor of [1, {}, [], true]) {
      const { messages } = await asking.send('tools/list', { cursor }).answer;
      expect(messages[0]!.error?.code).toBe(-32602);
    }
    expect((await toolsOf(asking)).length).toBeGreaterThan(0);
  });
});
