import { afterEach, describe, expect, test } from '@jest/globals';
import { createMetrics, readSettings, type Environment } from '@holdfast/ops';
import { authRefusals } from '@holdfast/mcp-server';
import { openStore } from '@holdfast/store';
import { Gateway } from './gateway.js';
import { serveGateway } from './http-server.js';
import { gatewaySettings, servingRules } from './settings.js';

const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

interface Line {
  readonly level: string;
  readonly message: string;
  readonly fields: Record<string, unknown>;
}

/** A gateway over a store in memory, as its service starts it. */
async function serve(env: Environment) {
  const settings = readSettings(
    gatewaySettings,
    { HOLDFAST_STORE: 'postgres://db/h', HOLDFAST_PORT: '0', ...env },
    servingRules,
  );
  const log: Line[] = [];
  const line = (level: string) => (fields: object, message: string) =>
    void log.push({ level, message, fields: fields as Record<string, unknown> });
  const logger = { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') };
  const metrics = createMetrics();
  const store = await openStore('memory:');
  const gateway = await Gateway.create({ settings, version: '0', log: logger, metrics });
  await gateway.serveFrom(store);
  const server = await serveGateway(gateway, {} as never, logger);
  cleanups.push(async () => {
    await gateway.drain({ hasReplicas: false });
    await server.close();
    await store.close();
  });
  const base = `http://127.0.0.1:${server.port}`;
  return {
    base,
    store,
    warnings: () => log.filter(({ level }) => level === 'warn').map(({ fields }) => fields),
    refusals: async (reason: string): Promise<number> =>
      Number(
        new RegExp(`^holdfast_refused_total\\{reason="${reason}"\\} (\\d+)$`, 'm').exec(
          (await metrics.render()).body,
        )?.[1],
      ),
    ask: (path: string, headers: Record<string, string> = {}, method = 'GET') =>
      fetch(`${base}${path}`, { method, headers }),
  };
}

const keys = {
  HOLDFAST_API_KEYS: '{"desk":"key-of-desk"}',
  HOLDFAST_ADMIN_KEYS: '{"ops":"key-of-ops"}',
};

describe('G32: with HOLDFAST_AUTH=keys,none, a credential that is not accepted is 401', () => {
  test.each(['keys,none', 'none,keys'])('%s', async (auth) => {
    const { ask } = await serve({ HOLDFAST_AUTH: auth, HOLDFAST_API_KEYS: keys.HOLDFAST_API_KEYS });
    for (const path of ['/mcp', '/api/runs']) {
      for (const authorization of ['Bearer wrong', 'Bearer ', 'Basic key-of-desk', 'key-of-desk']) {
        const answer = await ask(path, { authorization });
        expect([path, authorization, answer.status]).toEqual([path, authorization, 401]);
        expect(answer.headers.get('www-authenticate')).toBe('Bearer error="invalid_token"');
      }
      expect((await ask(path)).status).not.toBe(401);
      expect((await ask(path, { authorization: 'Bearer key-of-desk' })).status).not.toBe(401);
    }
  });

  test('open to everybody, no credential is looked at', async () => {
    const { ask } = await serve({ HOLDFAST_AUTH: 'none' });
    expect((await ask('/api/runs', { authorization: 'Bearer of-another-server' })).status).toBe(200);
  });
});

test('G39: refusals under /api are counted and logged with those of the MCP path', async () => {
  const { ask, warnings, refusals } = await serve({ HOLDFAST_AUTH: 'keys', ...keys });
  for (const path of ['/mcp', '/api/runs', '/api/runs'])
    expect((await ask(path, { authorization: 'Bearer wrong' })).status).toBe(401);
  expect((await ask('/api/runs', { origin: 'https://evil.example' })).status).toBe(403);
  expect(await refusals('wrong_key')).toBe(3);
  expect(await refusals('origin')).toBe(1);
  expect(warnings()).toEqual([
    { reason: 'wrong_key' },
    { reason: 'origin', value: 'https://evil.example', variable: 'HOLDFAST_ALLOWED_ORIGINS' },
  ]);
});

test('G39: every reason has a series of its own', async () => {
  const metrics = createMetrics();
  const reasons = [...authRefusals, 'host', 'origin'];
  for (const reason of reasons) metrics.gateway().refused(reason);
  const { body } = await metrics.render();
  for (const reason of reasons) expect(body).toContain(`holdfast_refused_total{reason="${reason}"} 1\n`);
});
