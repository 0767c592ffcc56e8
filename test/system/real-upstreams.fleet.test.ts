import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { adminKey, keys } from './fleet.ts';
import { eras, errorNameOf, textOf, type CallOptions, type Host, type ToolResult } from './host.ts';
import { RealServers, type RealServer } from './real-servers.ts';
import { stopEverything, until } from './service.ts';
import { toolsOf, UpstreamFleet } from './upstream-fleet.ts';

/** Ours, and what nobody but us may know. */
const secrets = {
  DATABASE_URL: 'postgres://holdfast:database-secret@db.internal/holdfast',
  UPSTREAM_TOKEN: 'upstream-secret',
};

describe('servers that others wrote, beside each other in one process', () => {
  const servers = new RealServers();
  const everything = servers.everything();
  const overheard = servers.overheard('overheard');
  const files = servers.files();
  const memory = servers.memory();
  let all: Record<string, RealServer>;
  const direct: Record<string, Client> = {};
  let own: UpstreamFleet;
  const hosts = {} as Record<Host['era'], Host>;
  beforeAll(async () => {
    const [everythingHttp, fast] = await Promise.all([servers.everythingOverHttp(), servers.fast()]);
    all = { everything, 'everything-http': everythingHttp, overheard, files, memory, fast };
    own = await UpstreamFleet.start('standalone', secrets);
    // Whoever comes next waits for the only place of this one.
    own.add({ ...overheard.entry, concurrency: 1 });
    for (const server of [everything, everythingHttp, files, memory, fast]) own.add(server.entry);
    for (const era of eras) hosts[era] = await own.fleet.host(era);
    for (const [id, server] of Object.entries(all)) direct[id] = await server.direct();
    await Promise.all(Object.keys(all).map((id) => own.listed(hosts.modern, id)));
  }, 120_000);
  afterAll(async () => {
    await own.dispose();
    await servers.close();
    await stopEverything();
  });

  describe.each(eras)('to a host of the %s era', (era) => {
    test.each(['everything', 'everything-http', 'files', 'memory', 'fast'])(
      'all tools of %s are listed as it publishes them',
      async (id) => {
        const published = (await direct[id]!.listTools()).tools;
        // Those that can only be called as tasks are left out (G46).
        const tools = published.filter(({ execution }) => execution?.taskSupport !== 'required');
        expect(tools.length).toBeGreaterThan(3);
        // Some add tools of their own after the handshake, and say so.
        const listed = await until(async () => {
          const ours = (await toolsOf(hosts[era])).filter(({ name }) => name.startsWith(`${id}__`));
          return ours.length >= tools.length ? ours : undefined;
        }, 50);
        const ours = new Map(listed.map((tool) => [tool.name, tool]));
        expect([...ours.keys()].sort()).toEqual(tools.map(({ name }) => `${id}__${name}`).sort());
        for (const { name, description, inputSchema, outputSchema } of tools) {
          const tool = ours.get(`${id}__${name}`)!;
          expect(tool.description).toBe(`[MCP ${id}] ${description ?? ''}`);
          expect([name, tool.inputSchema]).toEqual([name, inputSchema]);
          expect([name, tool.outputSchema]).toEqual([name, outputSchema]);
        }
      },
    );

    test.each<[string, string, Record<string, unknown>]>([
      ['everything', 'echo', { message: 'grüß “dich”\n\u0000 🙂' }],
      ['everything', 'get-sum', { a: 0.1, b: 0.2 }],
      ['everything', 'get-tiny-image', {}],
      ['everything', 'get-structured-content', { location: 'New York' }],
      ['everything', 'get-annotated-message', { messageType: 'error', includeImage: true }],
      ['everything', 'get-resource-links', { count: 4 }],
      ['everything', 'get-resource-reference', { resourceType: 'Text', resourceId: 1 }],
      ['everything-http', 'echo', { message: 'over HTTP' }],
      ['everything-http', 'get-tiny-image', {}],
      ['everything-http', 'get-structured-content', { location: 'Chicago' }],
      ['everything-http', 'get-resource-links', { count: 4 }],
      ['fast', 'add', { a: 1.5, b: 2 }],
      ['fast', 'bundle', {}],
      ['memory', 'read_graph', {}],
      ['files', 'list_allowed_directories', {}],
    ])('a call of %s %s gives what the server gives', async (id, name, args) => {
      const expected = saidIn((await direct[id]!.callTool({ name, arguments: args })) as ToolResult);
      expect(expected.isError).toBeUndefined();
      expect(saidIn(await hosts[era].call(`${id}__${name}`, args))).toEqual(expected);
    });

    test.each(['everything', 'everything-http'])('an image of %s arrives byte for byte', async (id) => {
      const { content } = await hosts[era].call(`${id}__get-tiny-image`, {});
      const { data, mimeType } = content!.find(({ type }) => type === 'image') as unknown as {
        data: string;
        mimeType: string;
      };
      expect(mimeType).toBe('image/png');
      const bytes = Buffer.from(data, 'base64');
      expect(bytes.subarray(0, 8).toString('hex')).toBe('89504e470d0a1a0a');
      expect(bytes.subarray(-8).toString('hex')).toBe('49454e44ae426082');
    });

    test.each<[string, string, Record<string, unknown>, number]>([
      ['everything', 'trigger-long-running-operation', { duration: 0.5, steps: 5 }, 5],
      ['everything-http', 'trigger-long-running-operation', { duration: 0.5, steps: 5 }, 5],
      ['fast', 'count', { to: 6 }, 6],
    ])('progress of %s arrives, with rising values', async (id, name, args, total) => {
      const { messages } = await hosts[era].begin(`${id}__${name}`, args, asking).answer;
      expect(messages.at(-1)?.result?.isError).toBeUndefined();
      const heard = messages.flatMap(({ method, params }) =>
        method === 'notifications/progress' && params?.['total'] === total ? [params] : [],
      );
      expect(heard.map(({ progressToken }) => progressToken)).toEqual(heard.map(() => 'p-1'));
      const values = heard.map(({ progress }) => progress as number);
      expect(values.length).toBeGreaterThan(1);
      expect(values).toEqual([...new Set(values)].sort((a, b) => a - b));
    });

    test.each<[string, string, Record<string, unknown>]>([
      ['files', 'read_text_file', { path: '/etc/hostname' }],
      ['files', 'list_directory', { path: 'no-such-folder' }],
      ['memory', 'add_observations', { observations: [{ entityName: 'nobody', contents: ['x'] }] }],
      ['fast', 'book', { date: '1999-12-31' }],
    ])('a failure of %s %s is told in its own words', async (id, name, args) => {
      const said = (await direct[id]!.callTool({ name, arguments: args })) as ToolResult;
      expect(said.isError).toBe(true);
      const result = await hosts[era].call(`${id}__${name}`, args);
      expect(errorNameOf(result)).toBe('MCPToolError');
      expect(textOf(result)).toBe(`MCPToolError: ${textOf(said)}`);
    });

    test('a cancelled run frees the child: it is told, and takes the next call at once', async () => {
      const host = hosts[era];
      await cancelOneAtWork(own, host, 'overheard');
      const last = (method: string): Record<string, unknown> | undefined =>
        overheard.read().findLast((message) => message['method'] === method);
      const { id } = last('tools/call')!;
      await until(
        () => (last('notifications/cancelled')?.['params'] as { requestId?: unknown })?.requestId === id,
      );
      expect(textOf(await host.call('overheard__echo', { message: 'next' }))).toBe('Echo: next');
      expect(overheard.read().filter(({ method }) => method === 'initialize')).toHaveLength(1);
    });
  });

  test('the filesystem server writes and reads, and is not asked to destroy', async () => {
    const path = join(files.folder, 'made');
    const host = hosts.modern;
    expect((await host.call('files__create_directory', { path })).isError).toBeUndefined();
    writeFileSync(join(path, 'there.txt'), 'written beside it\n');
    expect(textOf(await host.call('files__list_directory', { path }))).toBe('[FILE] there.txt');
    const read = await host.call('files__read_text_file', { path: join(path, 'there.txt') });
    expect(read).toMatchObject({ structuredContent: { content: 'written beside it\n' } });

    const written = await host.call('files__write_file', { path: join(path, 'new.txt'), content: 'new' });
    expect(errorNameOf(written)).toBe('ApprovalUnavailable');
    expect(textOf(written)).toContain('it says that it destroys');
    expect(existsSync(join(path, 'new.txt'))).toBe(false);
  });

  test('the memory server keeps what it is given, once for a token', async () => {
    const host = hosts.legacy;
    const entity = { name: 'Ada', entityType: 'person', observations: ['writes programs'] };
    for (let i = 0; i < 2; i++) {
      const made = await host.call('memory__create_entities', { entities: [entity] }, { token: 'ada' });
      expect(made).toMatchObject({ structuredContent: { entities: [entity] } });
    }
    const graph = { entities: [entity], relations: [] };
    expect(await host.call('memory__read_graph', {})).toMatchObject({ structuredContent: graph });
    expect((await direct['memory']!.callTool({ name: 'read_graph' })).structuredContent).toEqual(graph);
    const { MEMORY_FILE_PATH } = memory.entry['env'] as Record<string, string>;
    expect(readFileSync(MEMORY_FILE_PATH!, 'utf8').trim().split('\n')).toHaveLength(1);
  });

  test('a child gets nothing of ours in its environment', async () => {
    const env = JSON.parse(textOf(await hosts.modern.call('everything__get-env', {}))) as object;
    const harmless = ['PATH', 'HOME', 'TMPDIR', 'LANG', 'LC_ALL'];
    expect(Object.keys(env).filter((name) => !harmless.includes(name))).toEqual([]);
    for (const secret of [...Object.values(secrets), ...Object.values(keys), adminKey])
      expect(JSON.stringify(env)).not.toContain(secret);
  });
});

describe('servers that others wrote, behind gateways, workers and connectors of their own', () => {
  const servers = new RealServers();
  let own: UpstreamFleet;
  afterAll(async () => {
    await own.dispose();
    await servers.close();
    await stopEverything();
  });

  test('give what they give, with progress, over stdio and HTTP, and are freed by a cancel', async () => {
    const overHttp = await servers.everythingOverHttp();
    const overheard = servers.overheard('overheard');
    own = await UpstreamFleet.start('postgres');
    const hosts = await Promise.all(eras.map((era, gateway) => own.fleet.host(era, { gateway })));
    for (const { entry, direct } of [overHttp, overheard]) {
      await own.connect(entry, hosts[0]!);
      const client = await direct();
      for (const host of hosts) {
        for (const [name, args] of [
          ['get-tiny-image', {}],
          ['get-structured-content', { location: 'Los Angeles' }],
        ] as const) {
          const result = await host.call(`${entry.id}__${name}`, args);
          expect(saidIn(result)).toEqual(
            saidIn((await client.callTool({ name, arguments: args })) as ToolResult),
          );
        }
        const long = `${entry.id}__trigger-long-running-operation`;
        const { messages } = await host.begin(long, { duration: 0.5, steps: 5 }, asking).answer;
        expect(messages.filter(({ params }) => params?.['total'] === 5).length).toBeGreaterThan(1);
      }
    }
    await cancelOneAtWork(own, hosts[1]!, 'overheard');
    await until(() => overheard.read().some(({ method }) => method === 'notifications/cancelled'));
    expect(textOf(await hosts[0]!.call('overheard__echo', { message: 'next' }))).toBe('Echo: next');
  }, 120_000);
});

const asking: CallOptions = { meta: { progressToken: 'p-1' } };

/** What a result says, without what each hop adds. The reference server tells the time in its resources. */
function saidIn({ content, structuredContent, isError }: ToolResult): Partial<ToolResult> {
  const said = JSON.stringify({ content, structuredContent, isError });
  return JSON.parse(said.replace(/created at [^"]*/, 'created at …')) as Partial<ToolResult>;
}

/** Cancels a run once its server has said that it works on it. */
async function cancelOneAtWork(own: UpstreamFleet, host: Host, id: string): Promise<void> {
  const long = { duration: 600, steps: 6000 };
  const call = host.begin(`${id}__trigger-long-running-operation`, long, asking);
  await until(() => call.received().includes('"total":6000'));
  const { body } = await own.fleet.api('/runs?state=running');
  const [run] = body['runs'] as { id: string; tool: string }[];
  expect(run!.tool).toBe(`${id}__trigger-long-running-operation`);
  expect((await own.fleet.cancel(run!.id)).status).toBe(200);
  const { messages } = await call.answer;
  expect(errorNameOf(messages.at(-1)!.result!)).toBe('RunCancelled');
}
