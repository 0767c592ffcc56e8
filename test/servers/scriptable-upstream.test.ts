import { afterEach, expect, test } from '@jest/globals';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { askUpstream } from './upstream-control.js';
import { startUpstreamProcess } from './upstream-process.js';
import { ScriptableUpstream } from './scriptable-upstream.js';
import { tool } from './upstream-script.js';

const cleanUps: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

/** A client of the SDK: the fixture must be a server for a third-party client too. */
async function connect(url: string): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  cleanUps.push(() => client.close());
  return client;
}

test.each(['json', 'sse'] as const)(
  'the upstream serves a client of the SDK, answering as %s',
  async (answerAs) => {
    const upstream = await ScriptableUpstream.start({
      script: { answerAs, pages: [[tool('a')], [tool('b')]] },
    });
    cleanUps.push(() => upstream.close());
    const client = await connect(upstream.url);
    const { tools, nextCursor } = await client.listTools();
    expect([tools.map(({ name }) => name), nextCursor]).toEqual([['a'], '1']);
    const call = { name: 'b', arguments: { x: 1 }, _meta: { idempotency_key: 'k' } };
    expect(await client.callTool(call)).toMatchObject({ content: [{ type: 'text', text: '{"x":1}' }] });
    expect(upstream.executions.byKey()).toEqual({ k: 1 });
  },
);

test('a fault applies as often as it states, to the tool that it names', async () => {
  const upstream = await ScriptableUpstream.start();
  cleanUps.push(() => upstream.close());
  const client = await connect(upstream.url);
  await askUpstream(upstream.controlUrl, 'fault', {
    on: 'tools/call',
    tool: 'echo',
    times: 1,
    do: { kind: 'status', status: 418 },
  });
  expect(await client.callTool({ name: 'look' })).toBeDefined();
  await expect(client.callTool({ name: 'echo' })).rejects.toThrow();
  expect(await client.callTool({ name: 'echo' })).toBeDefined();
  expect(
    (await askUpstream(upstream.controlUrl, 'log')).filter(({ method }) => method === 'tools/call'),
  ).toHaveLength(3);
  expect(await askUpstream(upstream.controlUrl, 'executions')).toEqual([
    { tool: 'look', key: '' },
    { tool: 'echo', key: '' },
  ]);
});

test('a killed upstream process loses its sessions and keeps its executions', async () => {
  const upstream = await startUpstreamProcess({ era: 'legacy' });
  cleanUps.push(() => upstream.stop());
  const client = await connect(upstream.url);
  await client.callTool({ name: 'echo', _meta: { idempotency_key: 'k1' } });
  await upstream.kill();
  await upstream.restart();
  expect(await askUpstream(upstream.controlUrl, 'state')).toMatchObject({ sessions: 0 });
  await expect(client.callTool({ name: 'echo' })).rejects.toThrow();
  await (await connect(upstream.url)).callTool({ name: 'echo', _meta: { idempotency_key: 'k2' } });
  expect((await askUpstream(upstream.controlUrl, 'executions')).map(({ key }) => key)).toEqual(['k1', 'k2']);
});
