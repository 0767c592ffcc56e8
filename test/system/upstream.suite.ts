import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ScriptableUpstream, tool, type UpstreamScript } from '../servers/index.ts';
import { errorNameOf, runOf, textOf, type Host } from './host.ts';
import { stopEverything, until } from './service.ts';
import { toolsOf, UpstreamFleet } from './upstream-fleet.ts';

/** The acceptance cases of calling upstreams, each named by its number, on one kind of deployment. */
export function upstreamCases(kind: 'standalone' | 'postgres'): void {
  let own: UpstreamFleet;
  let host: Host;
  let credentials: string;
  const upstreams: ScriptableUpstream[] = [];
  beforeAll(async () => {
    own = await UpstreamFleet.start(kind);
    host = await own.fleet.host('modern');
    credentials = join(own.fleet.folder, 'env');
  });
  afterAll(async () => {
    await own.dispose();
    await Promise.all(upstreams.map((upstream) => upstream.close()));
    await stopEverything();
  });

  async function startUpstream(script: Partial<UpstreamScript>): Promise<ScriptableUpstream> {
    const upstream = await ScriptableUpstream.start({ script });
    upstreams.push(upstream);
    return upstream;
  }

  describe.each(['legacy', 'modern'] as const)('an upstream of the %s era', (era) => {
    const id = (name: string): string => `${name}-${era}`;
    const calls = (upstream: ScriptableUpstream): number => upstream.requests('tools/call').length;

    test('C20 a listing is read to its end, or the server is not connected and says why', async () => {
      const good = await startUpstream({
        era,
        pages: [
          [tool('a'), tool('b')],
          [tool('c'), tool('d')],
          [tool('e'), tool('f')],
        ],
      });
      const names = await own.connect({ id: id('c20'), url: good.url }, host);
      expect(names).toEqual(['a', 'b', 'c', 'd', 'e', 'f'].map((name) => `${id('c20')}__${name}`));

      const page = (next: string | undefined, ...tools: string[]): object => ({
        tools: tools.map((name) => tool(name).definition),
        ...(next !== undefined && { nextCursor: next }),
        ...(era === 'modern' && { resultType: 'complete', ttlMs: 0, cacheScope: 'private' }),
      });
      const bad: Record<string, Partial<UpstreamScript>> = {
        'repeats-a-cursor': { listResults: { '': page('1', 'a'), '1': page('1', 'b') } },
        'lists-no-tools': { listResults: { '': page('1', 'a'), '1': { ...page(undefined), tools: 'x' } } },
        'has-101-pages': { pages: Array.from({ length: 101 }, (_, i) => [tool(`t${i}`)]) },
      };
      for (const [name, script] of Object.entries(bad)) {
        const upstream = await startUpstream({ era, ...script });
        own.set({ id: id(name), name: `Server ${name}`, url: upstream.url });
        expect(await own.diagnostic(id(name))).toContain(`Server ${name}`);
      }
      const broken = await startUpstream({ era, pages: [[tool('a')], [tool('b')]] });
      broken.faults.push({
        on: 'tools/list',
        do: { kind: 'raw', body: '{"jsonrpc":"2.0","id":{id},"error":{"code":-32603,"message":"no"}}' },
      });
      own.set({ id: id('answers-an-error'), name: 'Server of errors', url: broken.url });
      expect(await own.diagnostic(id('answers-an-error'))).toContain('Server of errors');
      const seen = (await toolsOf(host)).map(({ name }) => name);
      for (const name of [...Object.keys(bad), 'answers-an-error'])
        expect(seen.filter((listed) => listed.startsWith(id(name)))).toEqual([]);

      const twice = await startUpstream({
        era,
        listResults: { '': page('1', 'a'), '1': page(undefined, 'a', 'b') },
      });
      // The duplicate is left out alone (G64).
      expect(await own.connect({ id: id('twice'), url: twice.url }, host)).toEqual([
        `${id('twice')}__a`,
        `${id('twice')}__b`,
      ]);

      const paged = upstreams.find(({ script }) => script.pages.length === 101 && script.era === era)!;
      const raised = { id: id('has-101-pages'), url: paged.url, max_tool_pages: 101 };
      expect(await own.connect(raised, host)).toHaveLength(101);
    });

    test('C21 what a tool of an upstream fails with is its own text, recorded, and not called again', async () => {
      const upstream = await startUpstream({
        era,
        pages: [
          [
            tool('book', {
              result: { content: [{ type: 'text', text: 'date must be in the future' }], isError: true },
            }),
          ],
        ],
      });
      await own.connect({ id: id('c21'), url: upstream.url }, host);
      for (let i = 0; i < 2; i++) {
        const result = await host.call(`${id('c21')}__book`, {}, { token: id('c21') });
        expect(errorNameOf(result)).toBe('MCPToolError');
        expect(textOf(result)).toBe('MCPToolError: date must be in the future');
        const run = await own.fleet.run(runOf(result).id);
        expect(run['upstream']).toEqual({
          server: expect.stringMatching(/^c21-\w+_[0-9a-f]{8}$/),
          tool: 'book',
        });
        expect(calls(upstream)).toBe(1);
      }
    });

    test('C22 a call that was lost after it was sent is sent again only when it reads', async () => {
      const upstream = await startUpstream({ era, pages: [[tool('pay'), tool('peek')]] });
      await own.connect({ id: id('c22'), url: upstream.url, overrides: { peek: 'read' } }, host);
      upstream.faults.push({ on: 'tools/call', tool: 'pay', do: { kind: 'drop-after-receive' } });
      const paid = await host.call(`${id('c22')}__pay`, {});
      expect(errorNameOf(paid)).toBe('MCPCallOutcomeUnknown');
      expect(textOf(paid)).toMatch(/check its effect/i);
      expect(paid._meta?.['holdfast/error']?.outcome).toBe('unknown');
      expect(calls(upstream)).toBe(1);

      upstream.faults.splice(0);
      upstream.faults.push({ on: 'tools/call', tool: 'peek', times: 1, do: { kind: 'drop-after-receive' } });
      const peeked = await host.call(`${id('c22')}__peek`, { q: 1 });
      expect(peeked.isError).toBeUndefined();
      expect(textOf(peeked)).toBe('{"q":1}');
      expect(calls(upstream)).toBe(3);
    });

    if (era === 'legacy')
      test('C23 F06 a write to a session that the server forgot is sent again, and runs once', async () => {
        const upstream = await startUpstream({ era });
        const other = await startUpstream({ era });
        await own.connect({ id: id('c23'), url: upstream.url }, host);
        await own.connect({ id: id('c23-other'), url: other.url }, host);
        upstream.forgetSessions();
        const result = await host.call(`${id('c23')}__echo`, { n: 1 });
        expect(textOf(result)).toBe('{"n":1}');
        expect(calls(upstream)).toBe(2);
        expect(upstream.executions.all).toHaveLength(1);
        expect(textOf(await host.call(`${id('c23-other')}__echo`, { n: 2 }))).toBe('{"n":2}');
        const session = upstream.log.find(({ headers }) => headers['mcp-session-id'] !== undefined)!;
        expect(JSON.stringify(result)).not.toContain(session.headers['mcp-session-id']);
      });

    test('C24 refused credentials are told as such, and read again for the next call', async () => {
      const upstream = await startUpstream({ era });
      const variable = `MCP_C24_${era.toUpperCase()}`;
      const folder = await envFleet();
      writeFileSync(join(folder.env, variable), 'first-token\n');
      upstream.script.credential = { header: 'Authorization', value: 'Bearer first-token' };
      const entry = {
        id: id('c24'),
        name: 'Server of credentials',
        url: upstream.url,
        headers: { Authorization: `Bearer \${env:${variable}}` },
      };
      await folder.own.connect(entry, folder.host);
      upstream.script.credential = { header: 'Authorization', value: 'Bearer second-token' };
      upstream.log.splice(0);
      const refused = await folder.host.call(`${id('c24')}__echo`, {});
      expect(errorNameOf(refused)).toBe('MCPAuthError');
      expect(textOf(refused)).toMatch(/Server of credentials.*401/);
      expect(JSON.stringify(refused)).not.toMatch(/first-token|the body of a 401/);
      expect(calls(upstream)).toBe(1);
      expect(refused._meta?.['holdfast/error']?.outcome).toBe('refused');

      writeFileSync(join(folder.env, variable), 'second-token\n');
      upstream.log.splice(0);
      const again = await folder.host.call(`${id('c24')}__echo`, { n: 2 });
      expect(textOf(again)).toBe('{"n":2}');
      const handshake = era === 'legacy' ? 'initialize' : 'server/discover';
      expect(upstream.requests(handshake)[0]!.headers['authorization']).toBe('Bearer second-token');
      expect(folder.own.services.map(({ stdout, stderr }) => stdout + stderr).join()).not.toMatch(
        /first-token|second-token/,
      );
    });

    test('C25 F26 F33 a call that gets no answer ends by its timeout, a write after one request', async () => {
      const upstream = await startUpstream({ era, pages: [[tool('pay'), tool('peek')]] });
      upstream.faults.push({ on: 'tools/call', do: { kind: 'hang' } });
      await own.connect(
        { id: id('c25'), url: upstream.url, timeout: 1, retry: 2, overrides: { peek: 'read' } },
        host,
      );
      const paid = await host.call(`${id('c25')}__pay`, {});
      expect(errorNameOf(paid)).toBe('MCPCallOutcomeUnknown');
      expect(textOf(paid)).toMatch(/may have run/);
      expect(calls(upstream)).toBe(1);
      if (era === 'legacy') await until(() => upstream.requests('notifications/cancelled').length === 1);
      else await until(() => upstream.requests('tools/call')[0]!.wasAbandoned);

      const peeked = await host.call(`${id('c25')}__peek`, {});
      expect(errorNameOf(peeked)).toBe('RunTimeout');
      expect(calls(upstream)).toBe(4);
    });

    test('C26 F39 F41 blocks arrive as they were sent, or as models read them', async () => {
      const all = Buffer.from(Array.from({ length: 256 }, (_, i) => i)).toString('base64');
      const content = [
        { type: 'text', text: 'a' },
        { type: 'image', data: all, mimeType: 'image/png' },
        { type: 'text', text: 'b' },
        { type: 'resource_link', uri: 'file:///r.pdf', name: 'r' },
      ];
      const embedded = [
        { type: 'resource', resource: { uri: 'file:///blob', blob: all, mimeType: 'application/pdf' } },
        { type: 'resource', resource: { uri: 'file:///text', text: 'inside' } },
        { type: 'resource', resource: { uri: 'file:///empty', text: '' } },
        { type: 'audio', data: 'AAEC', mimeType: 'audio/wav' },
      ];
      const pages = [
        [
          tool('mixed', { result: { content } }),
          tool('data', { result: { content: [], structuredContent: { b: 1, a: 2 } } }),
          tool('both', { result: { content, structuredContent: { b: 1, a: 2 } } }),
          tool('embedded', { result: { content: embedded } }),
        ],
      ];
      const upstream = await startUpstream({ era, pages });
      await own.connect({ id: id('c26'), url: upstream.url }, host);
      await own.connect({ id: id('c26-text'), url: `${upstream.url}?text`, result_mode: 'text' }, host);
      const asText = await host.call(`${id('c26-text')}__mixed`, {});
      expect(asText.content).toEqual([
        { type: 'text', text: 'a\n[image: image/png]\nb\n[resource link: file:///r.pdf]' },
      ]);
      expect((await host.call(`${id('c26-text')}__data`, {})).content).toEqual([
        { type: 'text', text: '{"a":2,"b":1}' },
      ]);
      const both = await host.call(`${id('c26')}__both`, {});
      expect(both.content).toEqual(content);
      expect(both.structuredContent).toEqual({ b: 1, a: 2 });
      expect((await host.call(`${id('c26')}__embedded`, {})).content).toEqual(embedded);
    });

    /** A deployment of its own whose variables are files. */
    async function envFleet(): Promise<{ own: UpstreamFleet; host: Host; env: string }> {
      const folder = join(credentials, era);
      mkdirSync(folder, { recursive: true });
      const size = { gateways: 1, workers: 1, connectors: 1 };
      const fleet = await UpstreamFleet.start(
        kind,
        { HOLDFAST_ENV_ALLOW: 'MCP_', HOLDFAST_ENV_DIR: folder },
        size,
      );
      closing.push(() => fleet.dispose());
      return { own: fleet, host: await fleet.fleet.host('modern'), env: folder };
    }
    const closing: (() => Promise<void>)[] = [];
    afterAll(async () => {
      await Promise.all(closing.map((close) => close()));
    });
  });

  test('C27 an entry that cannot be used is named by its diagnostic, and leaves the others alone', async () => {
    const upstream = await startUpstream({});
    const wrong: Record<string, Record<string, unknown>> = {
      A: { id: 'A', url: upstream.url },
      'a.b': { id: 'a.b', url: upstream.url },
      long: { id: 'a'.repeat(33), url: upstream.url },
      short: { id: '', url: upstream.url },
      'too-quick': { id: 'too-quick', url: upstream.url, timeout: 0 },
      'too-slow': { id: 'too-slow', url: upstream.url, timeout: 601 },
      plain: { id: 'plain', url: 'http://example.com/mcp' },
    };
    own.add(...(Object.values(wrong) as { id: string }[]));
    for (const name of ['A', 'a.b', 'a'.repeat(33), 'too-quick', 'too-slow', 'plain'])
      expect(await own.diagnostic(name)).not.toContain(upstream.url);
    expect(await own.connect({ id: 'a-b_9', url: upstream.url }, host)).toContain('a-b_9__echo');
    own.set({ id: 'nobody-there', name: 'Nobody there', url: 'http://localhost:1/mcp' });
    expect(await own.diagnostic('nobody-there')).toMatch(/Nobody there|localhost/);
    for (const name of ['A', 'a.b', 'a'.repeat(33), '', 'too-quick', 'too-slow', 'plain', 'nobody-there'])
      own.remove(name);
    expect(runOf(await host.call('a-b_9__echo', {})).id).toMatch(/^r0_/);
  });
}
