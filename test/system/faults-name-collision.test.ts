import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { tool } from '../servers/index.ts';
import { errorNameOf, textOf, type Host } from './host.ts';
import { toolsOf, UpstreamFleet } from './upstream-fleet.ts';

let own: UpstreamFleet;
let host: Host;
const servers: Server[] = [];
beforeAll(async () => {
  own = await UpstreamFleet.start('standalone');
  host = await own.fleet.host('modern');
});
afterAll(async () => {
  await own.dispose();
  for (const server of servers) server.close().closeAllConnections();
});

const answering = (name: string, text: string): ReturnType<typeof tool> =>
  tool(name, { result: { content: [{ type: 'text', text }] } });

/** Connects servers with one tool each, and gives what each of their names answers. */
async function answers(
  pairs: readonly (readonly [server: string, tool: string])[],
): Promise<Record<string, string>> {
  const before = new Set((await toolsOf(host)).map(({ name }) => name));
  for (const [id, name] of pairs) {
    const upstream = await own.upstream({ pages: [[answering(name, `${id} + ${name}`)]] });
    own.set({ id, url: upstream.url });
  }
  const all = async (): Promise<string[]> =>
    (await toolsOf(host)).map(({ name }) => name).filter((name) => !before.has(name));
  let names: string[] = [];
  while (names.length < pairs.length) names = await all();
  const told: Record<string, string> = {};
  for (const name of names) told[name] = textOf(await host.call(name, {}));
  return told;
}

describe('servers and tools whose names spell the same together', () => {
  test.each([
    [
      ['acme_', 'status'],
      ['acme', '_status'],
    ],
    [
      ['a__b', 'c'],
      ['a', 'b__c'],
    ],
  ] as const)(
    'F56 %j and %j have names of their own, and a call reaches the one it names',
    async (...pairs) => {
      const told = await answers(pairs);
      expect(Object.values(told).sort()).toEqual(pairs.map(([id, name]) => `${id} + ${name}`).sort());
      for (const [id, name] of pairs) own.remove(`${id} + ${name}`);
    },
  );

  test('F56 variant: the names of three, one of which is written as the shortened name of another', async () => {
    const told = await answers([
      ['docs', 'search.docs'],
      ['docs-2', 'search docs'],
      ['docs-3', 'search_docs'],
    ]);
    expect(told).toEqual({
      [Object.keys(told).find((name) => name.startsWith('docs__'))!]: 'docs + search.docs',
      [Object.keys(told).find((name) => name.startsWith('docs-2__'))!]: 'docs-2 + search docs',
      'docs-3__search_docs': 'docs-3 + search_docs',
    });
    const hashed = Object.keys(told).find((name) => name.startsWith('docs__'))!;
    const taken = hashed.slice('docs__'.length);
    const more = await answers([['docs-4', taken]]);
    expect(Object.values(more)).toEqual([`docs-4 + ${taken}`]);
    expect(textOf(await host.call(hashed, {}))).toBe('docs + search.docs');
  });
});

describe('a server that serves few at a time', () => {
  /** A way to an upstream that answers 503 to whoever is one too many. */
  async function narrow(url: string, most: number): Promise<{ url: string; busiest(): number }> {
    let inside = 0;
    let busiest = 0;
    const server = createServer((req, res) => {
      const isCall = req.headers['mcp-method'] === 'tools/call';
      if (isCall && inside >= most) {
        req.resume();
        res.writeHead(503).end('busy');
        return;
      }
      if (isCall) {
        busiest = Math.max(busiest, ++inside);
        res.once('close', () => inside--);
      }
      const on = request(url, { method: req.method, headers: req.headers }, (answer) => {
        res.writeHead(answer.statusCode!, answer.headers);
        answer.pipe(res);
      });
      on.on('error', () => res.destroy());
      req.pipe(on);
    });
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return {
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
      busiest: () => busiest,
    };
  }
  const twenty = Array.from({ length: 20 }, (_, n) => n);

  test('F59 gets twenty calls two by two where its operator says so, and all of them succeed', async () => {
    const upstream = await own.upstream({ era: 'modern', pages: [[tool('slow', { delayMs: 20 })]] });
    const way = await narrow(upstream.url, 2);
    const [name] = await own.connect({ id: 'narrow', url: way.url, concurrency: 2 }, host);
    const results = await Promise.all(twenty.map((n) => host.call(name!, { n })));
    expect(results.map(textOf)).toEqual(twenty.map((n) => `{"n":${n}}`));
    expect(way.busiest()).toBe(2);
  });

  test('F59 variant: one that is busy is told as such, and its tool is never unknown', async () => {
    const upstream = await own.upstream({ era: 'modern', pages: [[tool('slow', { delayMs: 200 })]] });
    const way = await narrow(upstream.url, 2);
    const [name] = await own.connect({ id: 'busy', url: way.url }, host);
    const results = await Promise.all(twenty.map((n) => host.call(name!, { n })));
    const failed = results.filter(({ isError }) => isError);
    expect(failed.length).toBeGreaterThan(0);
    for (const result of failed) {
      expect(errorNameOf(result)).toBe('MCPCallOutcomeUnknown');
      expect(textOf(result)).toMatch(/503/);
      expect(textOf(result)).not.toMatch(/unknown tool/i);
    }
    expect(textOf(await host.call(name!, { n: 'later' }))).toBe('{"n":"later"}');
  });
});
