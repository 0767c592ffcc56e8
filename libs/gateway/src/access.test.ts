import { afterEach, describe, expect, test } from '@jest/globals';
import { createMetrics, readSettings, type Environment } from '@holdfast/ops';
import { authRefusals } from '@holdfast/mcp-server';
import { openStore } from '@holdfast/store';
import { exchange } from '../../../test/system/host.js';
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
  const base = `http://${settings.host}:${server.port}`;
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
    ask: async (path: string, headers: Record<string, string> = {}, method = 'GET') => {
      const answer = await exchange(`${base}${path}`, { method, headers }).answer;
      return { status: answer.status, headers: new Headers(answer.headers as Record<string, string>) };
    },
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

describe('G35: the names that a gateway answers to', () => {
  test('on another loopback address it answers to its own URL, and to no name of a stranger', async () => {
    const { ask, base } = await serve({ HOLDFAST_AUTH: 'none', HOLDFAST_HOST: '127.0.0.2' });
    expect((await ask('/api/runs')).status).toBe(200);
    expect((await ask('/api/runs', { origin: base })).status).toBe(200);
    expect((await ask('/mcp', { origin: base })).status).not.toBe(403);
    expect((await ask('/api/runs', { host: 'evil.example' })).status).toBe(403);
    expect((await ask('/api/runs', { origin: 'http://127.0.0.2.evil.example' })).status).toBe(403);
  });

  test('behind a proxy on its machine it answers to its public URL', async () => {
    const env = { HOLDFAST_AUTH: 'none', HOLDFAST_PUBLIC_URL: 'https://mcp.example.com/' };
    const { ask } = await serve(env);
    expect((await ask('/api/runs', { host: 'mcp.example.com' })).status).toBe(200);
    expect((await ask('/api/runs', { host: 'other.example.com' })).status).toBe(403);
  });

  test('a refused Host or Origin is logged once, by its value, on both paths and for a preflight', async () => {
    const { ask, warnings, refusals } = await serve({ HOLDFAST_AUTH: 'keys', ...keys });
    const authorization = 'Bearer key-of-desk';
    for (let i = 0; i < 5; i++) {
      await ask('/mcp', { authorization, host: 'evil.example:8000' });
      await ask('/api/runs', { authorization, host: 'evil.example:8000' });
    }
    const preflight = await ask(
      '/mcp',
      { origin: 'https://app.example', 'access-control-request-method': 'POST' },
      'OPTIONS',
    );
    expect(preflight.status).toBe(403);
    expect(warnings()).toEqual([
      { reason: 'host', value: 'evil.example:8000', variable: 'HOLDFAST_ALLOWED_HOSTS' },
      { reason: 'origin', value: 'https://app.example', variable: 'HOLDFAST_ALLOWED_ORIGINS' },
    ]);
    expect([await refusals('host'), await refusals('origin')]).toEqual([10, 1]);
  });
});

describe('G75: pages of other origins', () => {
  const page = 'https://app.example';
  const open = () => serve({ HOLDFAST_AUTH: 'keys', ...keys, HOLDFAST_ALLOWED_ORIGINS: page });

  test.each([
    ['traceparent', 'tracestate', 'baggage', 'authorization', 'mcp-session-id', 'last-event-id'],
    ['mcp-param-region', 'x-request-id', 'sentry-trace', 'cache-control'],
  ])('may send %s, %s and others', async (...names) => {
    const { ask } = await open();
    const asked = {
      origin: page,
      'access-control-request-method': 'POST',
      'access-control-request-headers': names.join(),
    };
    const { status, headers } = await ask('/mcp', asked, 'OPTIONS');
    expect(status).toBe(204);
    expect(headers.get('access-control-allow-headers')!.toLowerCase().split(', ')).toEqual(
      expect.arrayContaining(names),
    );
    expect(headers.get('vary')).toMatch(/Origin/);
  });

  test('trace context is allowed to who asks for nothing', async () => {
    const { headers } = await (await open()).ask('/mcp', { origin: page }, 'OPTIONS');
    expect(headers.get('access-control-allow-headers')).toMatch(/traceparent, tracestate, baggage/);
  });

  test('every answer, a refusal too, depends on the Origin', async () => {
    const { ask } = await open();
    const authorization = 'Bearer key-of-desk';
    for (const path of ['/mcp', '/api/runs'])
      for (const headers of [
        {},
        { origin: page },
        { origin: 'https://evil.example', authorization },
        { authorization: 'Bearer x' },
        { authorization },
      ] as Record<string, string>[])
        expect((await ask(path, headers)).headers.get('vary')).toMatch(/\bOrigin\b/);
    expect((await ask('/mcp', { origin: 'https://evil.example' }, 'OPTIONS')).headers.get('vary')).toMatch(
      /Origin/,
    );
  });
});
