import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { tool } from '../servers/index.ts';
import { errorNameOf, eras, exchange, greeting, bearer, textOf, type Host } from './host.ts';
import { keys } from './fleet.ts';
import { freePort, until } from './service.ts';
import { stdioServer, toolsOf, UpstreamFleet } from './upstream-fleet.ts';

let own: UpstreamFleet;
let host: Host;
let silent: Server;
const sockets = new Set<Socket>();
beforeAll(async () => {
  own = await UpstreamFleet.start('postgres', {}, { gateways: 2, workers: 1, connectors: 2 });
  host = await own.fleet.host('modern');
  silent = createServer((socket) => void sockets.add(socket.on('error', () => {})));
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
});
afterAll(async () => {
  await own.dispose();
  for (const socket of sockets) socket.destroy();
  silent.close();
});

const namesOf = async (by: Host, id: string): Promise<string[]> =>
  (await toolsOf(by)).map(({ name }) => name).filter((name) => name.startsWith(`${id}__`));

describe('a good upstream beside bad ones', () => {
  beforeAll(async () => {
    const good = await own.upstream({ pages: [[tool('fine')]] });
    own.set({ id: 'refusing', name: 'Refusing', url: `http://127.0.0.1:${await freePort()}/mcp` });
    own.set({
      id: 'silent',
      name: 'Silent',
      url: `http://127.0.0.1:${(silent.address() as AddressInfo).port}/mcp`,
      connect_timeout: 1,
    });
    await own.connect({ id: 'good', url: good.url }, host);
  });

  test.each(eras)(
    'F100 a %s host opens and lists at once, and sees the tools of the good one',
    async (era) => {
      const opened = await exchange(own.fleet.url(1), greeting(era, bearer(keys.desk))).answer;
      expect(opened.status).toBe(200);
      const by = await own.fleet.host(era, { gateway: 1 });
      expect(await namesOf(by, 'good')).toEqual(['good__fine']);
      expect(textOf(await by.call('good__fine', { n: 1 }))).toBe('{"n":1}');
      expect(await own.diagnostic('refusing')).toMatch(/Refusing|127\.0\.0\.1/);
      expect(await own.diagnostic('silent')).toMatch(/Silent|127\.0\.0\.1/);
      expect(await namesOf(by, 'refusing')).toEqual([]);
      expect(await namesOf(by, 'silent')).toEqual([]);
    },
  );

  test('F100 variant: a server on stdio that never answers, and one whose command is missing, hold nobody up', async () => {
    own.set({ ...stdioServer('mute', ['echo'], ['--mute']), name: 'Mute', connect_timeout: 1 });
    own.set({ id: 'missing', name: 'Missing', command: '/no/such/command' });
    expect(await own.diagnostic('mute')).toMatch(/no answer to initialize within 1 s/);
    expect(await own.diagnostic('missing')).toMatch(/\/no\/such\/command was not found/);
    const after = await own.upstream({ pages: [[tool('later')]] });
    expect(await own.connect({ id: 'after', url: after.url }, host)).toEqual(['after__later']);
    expect(textOf(await host.call('good__fine', {}))).toBe('{}');
  });

  test('F100 variant: one that was there and is gone keeps its tools, whose calls fail by name; its neighbour goes on', async () => {
    const leaving = await own.upstream({ pages: [[tool('x')]] });
    await own.connect({ id: 'was-there', name: 'Was there', url: leaving.url, connect_backoff: 0 }, host);
    await leaving.close();
    expect(await namesOf(host, 'was-there')).toEqual(['was-there__x']);
    const failed = await host.call('was-there__x', {});
    expect(errorNameOf(failed)).toBe('MCPConnectionError');
    expect(textOf(failed)).toMatch(/Was there/);
    expect(failed._meta!['holdfast/error']!.outcome).toBe('not_sent');
    expect(textOf(await host.call('good__fine', {}))).toBe('{}');
  });
});

describe('upstreams that come and go', () => {
  test('F103 while calls run on another: none of those fails, and the list is right after each step', async () => {
    const steady = await own.upstream({ pages: [[tool('work', { delayMs: 30 })]] });
    await own.connect({ id: 'steady', url: steady.url }, host);
    const others = [await own.upstream(), await own.upstream()];
    let isOver = false;
    const results: string[] = [];
    const working = Array.from({ length: 4 }, async (_, lane) => {
      for (let n = 0; !isOver; n++) results.push(textOf(await host.call('steady__work', { lane, n })));
    });
    const expectListed = (...ids: string[]): Promise<boolean> =>
      until(async () => {
        const listed = await Promise.all(['one', 'two'].map((id) => namesOf(host, id)));
        const there = ['one', 'two'].filter((_id, i) => listed[i]!.length === 2);
        expect(await namesOf(host, 'steady')).toEqual(['steady__work']);
        return there.join() === ids.join() && listed.flat().length === 2 * ids.length;
      }, 50);
    for (let round = 0; round < 2; round++) {
      own.set({ id: 'one', url: others[0]!.url });
      await expectListed('one');
      own.set({ id: 'two', url: others[1]!.url });
      await expectListed('one', 'two');
      expect(textOf(await host.call('two__echo', { round }))).toBe(`{"round":${round}}`);
      own.remove('one');
      await expectListed('two');
      own.remove('two');
      await expectListed();
    }
    isOver = true;
    await Promise.all(working);
    expect(results.length).toBeGreaterThan(10);
    expect(results.filter((text) => !/^\{"lane":\d,"n":\d+\}$/.test(text))).toEqual([]);
    expect(steady.executions.all).toHaveLength(results.length);
  });

  test('F103 variant: other settings of one reconnect that one alone', async () => {
    const [kept, changed] = [await own.upstream({ era: 'legacy' }), await own.upstream({ era: 'legacy' })];
    await own.connect({ id: 'kept', url: kept.url }, host);
    await own.connect({ id: 'changed', url: changed.url }, host);
    own.set({ id: 'changed', url: changed.url, deny: ['look'] });
    await until(async () => (await namesOf(host, 'changed')).length === 1, 50);
    await until(() => changed.requests('initialize').length === 2);
    expect(kept.requests('initialize')).toHaveLength(1);
    expect(textOf(await host.call('kept__look', {}))).toBe('{}');
  });
});
