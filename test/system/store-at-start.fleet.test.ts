import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { startTcpProxy, testDatabase, testValkey, type TcpProxy } from '../servers/index.ts';
import { adminKey, keys, shortSettings } from './fleet.ts';
import { bearer, eras, exchange, greeting, openHost, textOf } from './host.ts';
import { Service, startGateway, startWorker, stopEverything, until, type App, type Env } from './service.ts';

describe.each([
  ['postgres', testDatabase],
  ['valkey', testValkey],
] as const)('on %s', (kind, newStore) => {
  /** Between the services and their store; nothing gets through before a test lets it. */
  let network: TcpProxy;
  let settings: Env;
  let password: string;
  beforeEach(async () => {
    const database = new URL(await newStore());
    network = await startTcpProxy({ host: database.hostname, port: Number(database.port) });
    network.refuse(true);
    database.hostname = '127.0.0.1';
    database.port = String(network.port);
    // A server that trusts everybody does not look at it.
    if (database.password === '') database.password = 'hunter2';
    ({ password } = database);
    settings = {
      ...shortSettings,
      HOLDFAST_STORE: database.href,
      HOLDFAST_OPS_PORT: '0',
      HOLDFAST_PORT: '0',
    };
  });
  afterEach(async () => {
    await stopEverything();
    await network.close();
  });

  /** A service that looks for its store in vain, and where its `/readyz` is. */
  async function startInVain(app: App): Promise<{ service: Service; base: string; ops: string }> {
    const service = new Service(app, settings);
    await service.printed(/"msg":"the store cannot be reached; trying again"/);
    const event = service.log.find(({ port, opsPort }) => port !== undefined || opsPort !== undefined)!;
    const { port, opsPort = port } = event as { port?: number; opsPort?: number };
    return { service, base: `http://127.0.0.1:${port}`, ops: `http://127.0.0.1:${opsPort}` };
  }

  test('a gateway without its store listens and says so, and serves as soon as the store is there', async () => {
    const gateway = await startInVain('gateway');
    const worker = await startInVain('worker');
    for (const { ops } of [gateway, worker]) {
      expect((await fetch(`${ops}/healthz`)).status).toBe(200);
      const ready = await fetch(`${ops}/readyz`);
      expect(ready.status).toBe(503);
      expect(await ready.json()).toEqual({
        ok: false,
        failing: [{ name: 'store', reason: expect.stringMatching(/./) }],
      });
    }
    for (const era of eras) {
      const answer = await exchange(`${gateway.base}/mcp`, greeting(era, bearer(keys.desk))).answer;
      expect(answer.status).toBe(503);
      expect(answer.messages[0]?.error).toEqual({ code: -32603, message: 'internal error' });
    }
    expect((await fetch(`${gateway.base}/api/runs`, { headers: bearer(adminKey) })).status).toBe(503);

    network.refuse(false);
    for (const { ops } of [gateway, worker]) await until(async () => (await fetch(`${ops}/readyz`)).ok);
    for (const era of eras) {
      const host = await openHost(era, `${gateway.base}/mcp`, keys.desk);
      expect(textOf(await host.call('lookup_order', { order_id: 'o-1' }))).toBe('o-1: shipped');
    }
    for (const { service } of [gateway, worker]) {
      expect(await service.stop()).toBe(0);
      expect(service.stdout + service.stderr).not.toContain(password);
    }
  });

  test.each(['gateway', 'worker', 'standalone'] as const)(
    'a %s that waits for its store ends with 0 on SIGTERM',
    async (app) => {
      const service = new Service(app, settings);
      await service.printed(/"msg":"the store cannot be reached; trying again"/);
      expect(await service.stop()).toBe(0);
      expect(service.stderr).not.toContain('AbortError');
    },
  );

  if (kind === 'postgres')
    test('a store that is gone again at the first step of a start does not end a service', async () => {
      network.refuse(false);
      const first = await Promise.all([startGateway(settings), startWorker(settings)]);
      await Promise.all([first[0].service.stop(), first[1].stop()]);
      const client = new pg.Client({ connectionString: settings['HOLDFAST_STORE']! });
      await client.connect();
      // The connection ends in the first two statements that write there.
      await client.query(`
    DELETE FROM holdfast.secrets;
    CREATE SEQUENCE writes_secrets; CREATE SEQUENCE writes_workers;
    CREATE FUNCTION lose_connection() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      IF nextval('public.writes_' || TG_TABLE_NAME) <= 2 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
      RETURN NEW;
    END $$;
    CREATE TRIGGER lose BEFORE INSERT ON holdfast.secrets FOR EACH ROW EXECUTE FUNCTION lose_connection();
    CREATE TRIGGER lose BEFORE INSERT ON holdfast.workers FOR EACH ROW EXECUTE FUNCTION lose_connection();`);
      await client.end();

      const services = [(await startGateway(settings)).service, await startWorker(settings)];
      for (const { log } of services)
        expect(log.some(({ msg }) => msg === 'the store cannot be reached; trying again')).toBe(true);
    });

  test('a store that hangs instead of refusing does not keep a gateway from ending', async () => {
    network.refuse(false);
    network.blackhole(true);
    const service = new Service('gateway', settings);
    await service.printed(/"msg":"gateway listens"/);
    await until(() => network.connections > 0);
    expect(await service.stop()).toBe(0);
  });
});
