import { afterEach, expect, test } from '@jest/globals';
import { createMetrics, readSettings } from '@holdfast/ops';
import { openStore } from '@holdfast/store';
import { envelope, exchange, type Answer } from '../../../test/system/host.js';
import { Gateway } from './gateway.js';
import { serveGateway } from './http-server.js';
import { gatewaySettings, servingRules } from './settings.js';

const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const key = 'a-key-of-many-letters';

/** A gateway that listens and has no store yet. */
async function listen() {
  const settings = readSettings(
    gatewaySettings,
    {
      HOLDFAST_STORE: 'postgres://db/h',
      HOLDFAST_PORT: '0',
      HOLDFAST_AUTH: 'keys',
      HOLDFAST_API_KEYS: JSON.stringify({ desk: key }),
    },
    servingRules,
  );
  const errors: unknown[] = [];
  const log = { debug() {}, info() {}, warn() {}, error: (fields: object) => void errors.push(fields) };
  const gateway = await Gateway.create({ settings, version: '1.2.3', log, metrics: createMetrics() });
  const server = await serveGateway(gateway, {} as never, log);
  cleanups.push(async () => {
    await gateway.drain({ hasReplicas: false });
    await server.close();
  });
  const send = (method: string, params: object = {}, authorization = `Bearer ${key}`): Promise<Answer> =>
    exchange(`http://127.0.0.1:${server.port}/mcp`, {
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': method,
        'mcp-name': 'work',
        authorization,
      },
      body: { jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: envelope } },
    }).answer;
  return { gateway, send, errors };
}

test('G89: discovery is answered before the store is there, all else is 503, and a wrong key is refused', async () => {
  const { gateway, send, errors } = await listen();
  const discovered = await send('server/discover');
  expect(discovered.status).toBe(200);
  expect(discovered.messages[0]?.result).toMatchObject({ supportedVersions: ['2026-07-28'] });
  expect((await send('server/discover', {}, 'Bearer wrong')).status).toBe(401);
  for (const [method, params] of [
    ['tools/list', {}],
    ['tools/call', { name: 'work', arguments: {} }],
  ] as const) {
    const { status, headers } = await send(method, params);
    expect([method, status, headers['retry-after']]).toEqual([method, 503, '5']);
  }
  expect(errors).toEqual([]);

  const store = await openStore('memory:');
  cleanups.push(() => store.close());
  await gateway.serveFrom(store);
  expect((await send('tools/list')).messages[0]?.result).toMatchObject({ tools: [] });
});
