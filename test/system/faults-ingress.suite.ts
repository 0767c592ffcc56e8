import { Agent, request, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, describe, expect, test } from '@jest/globals';
import { startHaproxy, type Haproxy } from '../servers/index.ts';
import { Fleet, keys } from './fleet.ts';
import { bearer, envelope, eras, exchange, greeting, openHost, textOf, type Sending } from './host.ts';
import { stopEverything, until, type Env, type Service } from './service.ts';

export interface IngressLengths {
  /** Connections of hosts that are kept. */
  readonly connections: number;
  /** How often each of them carries a request, five seconds apart. */
  readonly rounds: number;
  /** How often every gateway is replaced under load. */
  readonly replacements: number;
}

/** What goes wrong between a gateway and the proxy before it, through a real HAProxy. */
export function ingressFaults({ connections, rounds, replacements }: IngressLengths): void {
  let fleet: Fleet;
  let proxy: Haproxy;

  const raise = async (
    settings: Env = {},
    { gateways = 2, ...proxying }: { gateways?: number; silenceMs?: number } = {},
  ): Promise<void> => {
    fleet = await Fleet.start('postgres', settings, { gateways, workers: 1 });
    proxy = await startHaproxy({
      ...proxying,
      places: fleet.gateways.map(({ base }) => {
        // A gateway answers /readyz on its main port too, which stays the same when it is started again.
        const port = Number(new URL(base).port);
        return { host: '127.0.0.1', port, opsPort: port };
      }),
    });
    await known();
  };
  /** Until the proxy sends to every gateway. */
  const known = async (): Promise<void> => {
    await until(async () => (await proxy.ready()).length === fleet.gateways.length, 50);
  };
  const url = (): string => `${proxy.base}/mcp`;
  const list = (): Sending => greeting('modern', bearer(keys.desk));

  afterEach(async () => {
    await proxy.stop();
    await fleet.dispose();
  });
  afterAll(stopEverything);

  describe('F190: idle connections between proxy and gateway', () => {
    test('carry a request every five seconds, and none of it is a 502', async () => {
      await raise();
      const hosts = Array.from({ length: connections }, () => new Agent({ keepAlive: true, maxSockets: 1 }));
      const seen = new Map<number, number>();
      for (let round = 0; round < rounds; round++) {
        // The distance is what this is about: a server of Node closes after five seconds by itself.
        if (round > 0) await sleep(5_000);
        for (const { status } of await Promise.all(hosts.map((agent) => sendOn(agent, url(), list()))))
          seen.set(status, (seen.get(status) ?? 0) + 1);
      }
      for (const agent of hosts) agent.destroy();
      expect([...seen]).toEqual([[200, connections * rounds]]);
      const { serverErrors, reused } = await proxy.count();
      expect(serverErrors).toBe(0);
      expect(reused).toBeGreaterThan(0);
      // The gateway keeps them for longer than the 60 s of the proxy, which so closes them first.
      const agent = new Agent({ keepAlive: true });
      const { headers } = await sendOn(agent, fleet.url(), list());
      agent.destroy();
      expect(Number(/timeout=(\d+)/.exec(String(headers['keep-alive']))?.[1])).toBeGreaterThan(60);
    });

    test('are not in use any more when their gateway goes, however fast requests follow each other', async () => {
      // The proxy asks once a second, and a stopping gateway serves on for a fifth of its drain.
      await raise({ HOLDFAST_DRAIN_MS: '15000' });
      const hosts = Array.from({ length: connections }, () => new Agent({ keepAlive: true, maxSockets: 1 }));
      let isOver = false;
      const statuses: number[] = [];
      const load = hosts.map(async (agent) => {
        while (!isOver) {
          statuses.push((await sendOn(agent, url(), list())).status);
          await sleep(20);
        }
      });
      const goneOn = async (): Promise<void> => {
        const goal = statuses.length + connections;
        await until(() => statuses.length >= goal);
      };
      await goneOn();
      for (let n = 0; n < replacements; n++) {
        for (const [number, { service }] of fleet.gateways.entries()) {
          expect(await service.stop()).toBe(0);
          await fleet.restartGateway(number);
          await known();
        }
      }
      await goneOn();
      isOver = true;
      await Promise.all(load);
      for (const agent of hosts) agent.destroy();
      expect(new Set(statuses)).toEqual(new Set([200]));
      expect((await proxy.count()).serverErrors).toBe(0);
    });
  });

  describe('F192: SIGTERM', () => {
    test('ends a gateway with 0 while the proxy keeps a connection and a stream is open; a second one changes nothing', async () => {
      await raise({}, { gateways: 1 });
      const agent = new Agent({ keepAlive: true });
      expect((await sendOn(agent, url(), list())).status).toBe(200);
      const { session } = await openHost('legacy', url(), keys.desk);
      const stream = exchange(url(), {
        method: 'GET',
        headers: { ...bearer(keys.desk), accept: 'text/event-stream', 'mcp-session-id': session! },
      });
      await until(() => stream.received().includes(': open'));
      expect(await toldTwice(fleet.gateways[0]!.service)).toEqual({ code: 0, signal: null });
      // It ended as streams do, so its host opens it again elsewhere.
      expect((await stream.answer).status).toBe(200);
      agent.destroy();
    });

    test('ends a gateway with 0 while a host behind the proxy is in the middle of its request', async () => {
      await raise({}, { gateways: 1 });
      const { hostname, port } = new URL(proxy.base);
      const host = connect(Number(port), hostname);
      host.on('error', () => {});
      host.write(
        `POST /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${keys.desk}\r\nContent-Type: application/json\r\n` +
          'Accept: application/json, text/event-stream\r\nContent-Length: 100000\r\n\r\n{"jsonrpc":',
      );
      await until(async () => (await proxy.count()).requests > 0);
      expect(await toldTwice(fleet.gateways[0]!.service)).toEqual({ code: 0, signal: null });
      host.destroy();
    });
  });

  describe('F194: sizes and times', () => {
    const refund = (bytes: number): { order_id: string; delay_ms: number } => ({
      order_id: 'o'.repeat(bytes),
      delay_ms: 0,
    });
    const MB = 1_000_000;
    /** A call of raw size, said to the proxy with its length or in chunks. */
    const call = (bytes: number, isChunked: boolean): ReturnType<typeof sendOn> => {
      const params = { name: 'refund_order', arguments: refund(bytes), _meta: envelope };
      const headers = {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'tools/call',
        'mcp-name': 'refund_order',
        ...bearer(keys.desk),
      };
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });
      const length = isChunked ? { 'transfer-encoding': 'chunked' } : { 'content-length': body.length };
      return sendOn(new Agent(), url(), { headers: { ...headers, ...length }, body });
    };

    test('2 MB of arguments come through; 20 MB, with their length or in chunks, are 413 with a JSON-RPC error of ours', async () => {
      await raise({}, { gateways: 1 });
      for (const isChunked of [false, true]) {
        const small = await call(2 * MB, isChunked);
        expect(small.status).toBe(200);
        expect(small.body).toContain('refunded oooo');
        const large = await call(20 * MB, isChunked);
        expect(large.status).toBe(413);
        expect(JSON.parse(large.body)).toMatchObject({
          jsonrpc: '2.0',
          error: { code: expect.any(Number), message: expect.stringContaining('HOLDFAST_MAX_BODY_BYTES') },
        });
      }
      expect((await proxy.count()).serverErrors).toBe(0);
    });

    test('20 MB come through where HOLDFAST_MAX_BODY_BYTES lets them', async () => {
      await raise({ HOLDFAST_MAX_BODY_BYTES: String(32 * 1024 * 1024) }, { gateways: 1 });
      const { status, body } = await call(20 * MB, false);
      expect(status).toBe(200);
      expect(body).toContain('refunded oooo');
    });

    test.each(eras)(
      'a call outlasts the read timeout of a proxy that is longer than HOLDFAST_KEEP_ALIVE_MS (%s)',
      async (era) => {
        await raise({ HOLDFAST_KEEP_ALIVE_MS: '500' }, { gateways: 1, silenceMs: 2_000 });
        const host = await openHost(era, url(), keys.desk);
        const result = await host.call('refund_order', { order_id: 'o-1', delay_ms: 5_000 });
        expect(textOf(result)).toBe('refunded o-1');
      },
    );
  });
}

interface Read {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

/** A request on a connection that a host keeps. An answer that comes before all was sent is an answer. */
function sendOn(agent: Agent, url: string, { method = 'POST', headers = {}, body }: Sending): Promise<Read> {
  return new Promise((resolve, reject) => {
    let isAnswered = false;
    const req = request(url, { method, agent, headers }, (res) => {
      isAnswered = true;
      text(res).then(
        (read) => resolve({ status: res.statusCode!, headers: res.headers, body: read }),
        reject,
      );
    });
    req.on('error', (error) => {
      if (!isAnswered) reject(error);
    });
    req.end(typeof body === 'string' ? body : JSON.stringify(body));
  });
}

/** Tells a service to stop, and once more while it stops, as an impatient operator does. */
async function toldTwice(service: Service): Promise<Awaited<Service['exited']>> {
  service.send('SIGTERM');
  await service.printed(/"msg":"stopping"/);
  service.send('SIGTERM');
  return service.exited;
}
