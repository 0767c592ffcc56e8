import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Fleet, keys } from './fleet.ts';
import { exchange, type openHost, textOf, type Answer } from './host.ts';
import { until } from './service.ts';

describe.each(['sqlite', 'postgres'] as const)('on %s', (kind) => {
  let fleet: Fleet;
  beforeAll(async () => {
    fleet = await Fleet.start(kind, {}, { gateways: 3, workers: 1 });
  });
  afterAll(() => fleet.dispose());

  const open = (gateway = 0) => fleet.host('legacy', { gateway }) as Promise<Legacy>;
  type Legacy = Awaited<ReturnType<typeof openHost>> & { session: string };

  /** One request as a host of 2025-11-25 sends it, with whatever session id. */
  function send(
    session: string | undefined,
    {
      gateway = 0,
      method = 'POST',
      key = keys.desk as string,
      body = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} } as unknown,
    } = {},
  ): Promise<Answer> {
    return exchange(fleet.url(gateway), {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2025-11-25',
        ...(method === 'POST' && { 'content-type': 'application/json' }),
        ...(session !== undefined && { 'mcp-session-id': session }),
      },
      body: method === 'POST' ? body : undefined,
    }).answer;
  }

  describe('F01: a host keeps its session id across a restart of every gateway', () => {
    test('F01 the next call after the restart is answered', async () => {
      const host = await open();
      const call = (): Promise<unknown> => host.call('lookup_order', { order_id: 'o-1' }).then(textOf);
      expect(await call()).toBe('o-1: shipped');
      await Promise.all(fleet.gateways.map(({ service }) => service.stop()));
      await Promise.all(fleet.gateways.map((_, i) => fleet.restartGateway(i)));
      expect(await call()).toBe('o-1: shipped');
    });

    test('F01 variant: killed, not stopped, with a call on its way; stream, ping and DELETE work as well', async () => {
      const host = await open(1);
      const token = 'f01-variant';
      const args = { order_id: 'o-2', delay_ms: 300 };
      const cut = host.begin('refund_order', args, { token });
      await until(() => fleet.wholeJournal().some(({ tool }) => tool === 'refund_order'));
      await Promise.all(fleet.gateways.map(({ service }) => service.kill()));
      await expect(cut.answer).rejects.toThrow();
      await Promise.all(fleet.gateways.map((_, i) => fleet.restartGateway(i)));
      expect(textOf(await host.call('refund_order', args, { token }))).toBe('refunded o-2');
      expect((await host.send('ping').answer).status).toBe(200);
      expect((await send(host.session, { method: 'DELETE', gateway: 2 })).status).toBe(200);
    });

    test('F01 variant: a session that did not survive is answered once with 404 and a JSON-RPC body', async () => {
      const host = await open();
      await send(host.session, { method: 'DELETE' });
      await fleet.gateways[0]!.service.kill();
      await fleet.restartGateway(0);
      const { status, messages } = await send(host.session);
      expect(status).toBe(404);
      // But for the request's id, every unknown session is answered in the same bytes (C03).
      expect(messages).toEqual([
        { jsonrpc: '2.0', id: expect.anything(), error: { code: -32001, message: expect.any(String) } },
      ]);
    });
  });

  describe('F03: 404 means "start again", 400 means "you forgot it"', () => {
    const bodies: [what: string, body: unknown][] = [
      ['a request', { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }],
      [
        'a call',
        { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'lookup_order', arguments: {} } },
      ],
      ['a notification', { jsonrpc: '2.0', method: 'notifications/initialized' }],
      ['a response', { jsonrpc: '2.0', id: 1, result: {} }],
      ['an unknown method', { jsonrpc: '2.0', id: 1, method: 'no/such', params: {} }],
    ];

    test.each(bodies)('F03 %s: an unknown id is 404, no id is 400', async (_, body) => {
      expect((await send('never-issued', { body })).status).toBe(404);
      expect((await send(undefined, { body })).status).toBe(400);
    });

    test('F03 variant: a closed session, one of somebody else and an absurd one are 404 alike', async () => {
      const [closed, foreign] = [await open(), await open()];
      await send(closed.session, { method: 'DELETE' });
      const answers = await Promise.all([
        send('never-issued'),
        send(closed.session),
        send(foreign.session, { key: keys.ci }),
        send('x'.repeat(4_000)),
        send("'; DROP TABLE sessions; --"),
      ]);
      expect(new Set(answers.map(({ status, body }) => `${status} ${body}`)).size).toBe(1);
      expect(answers[0]!.status).toBe(404);
      // Whoever owns it is not disturbed.
      expect((await send(foreign.session)).status).toBe(200);
    });

    test('F03 variant: GET and DELETE with an unknown id are 404 too', async () => {
      for (const method of ['GET', 'DELETE'])
        expect((await send('never-issued', { method })).status).toBe(404);
    });

    test('F03 variant: initialize needs no id, and one that is no longer good does not hinder it', async () => {
      const { status, headers } = await send('never-issued', {
        body: {
          jsonrpc: '2.0',
          id: 1,
          method: 'initialize',
          params: {
            protocolVersion: '2025-11-25',
            capabilities: {},
            clientInfo: { name: 't', version: '1' },
          },
        },
      });
      expect(status).toBe(200);
      expect(headers['mcp-session-id']).not.toBe('never-issued');
    });

    test('F03 variant: a modern request with a dead session id is served without it', async () => {
      const answer = await exchange(fleet.url(), {
        headers: {
          authorization: `Bearer ${keys.desk}`,
          accept: 'application/json, text/event-stream',
          'content-type': 'application/json',
          'mcp-protocol-version': '2026-07-28',
          'mcp-method': 'tools/list',
          'mcp-session-id': 'never-issued',
        },
        body: {
          jsonrpc: '2.0',
          id: 1,
          method: 'tools/list',
          params: {
            _meta: {
              'io.modelcontextprotocol/protocolVersion': '2026-07-28',
              'io.modelcontextprotocol/clientCapabilities': {},
            },
          },
        },
      }).answer;
      expect(answer.status).toBe(200);
      expect(answer.headers['mcp-session-id']).toBeUndefined();
    });
  });

  describe('F04: three gateways without stickiness', () => {
    test('F04 30 lists on connections of their own, round robin, with one session', async () => {
      const { session } = await open();
      for (let i = 0; i < 30; i++) {
        const { status, messages } = await send(session, { gateway: i });
        expect(status).toBe(200);
        expect(messages[0]!.result!['tools']).toHaveLength(4);
      }
    });

    test('F04 variant: all at once, straight after initialize', async () => {
      const { session } = await open(2);
      const answers = await Promise.all(
        Array.from({ length: 30 }, (_, gateway) => send(session, { gateway })),
      );
      expect(answers.map(({ status }) => status)).toEqual(Array(30).fill(200));
    });

    test('F04 variant: one call sent to all three in one session is one run', async () => {
      const host = await open();
      const args = { order_id: 'o-4', delay_ms: 200 };
      const token = 'f04-variant';
      const results = await Promise.all(
        [0, 1, 2].map((gateway) => host.call('refund_order', args, { token, via: fleet.url(gateway) })),
      );
      expect(results.map(textOf)).toEqual(Array(3).fill('refunded o-4'));
      expect(
        fleet.wholeJournal().filter(({ runId }) => runId === results[0]!._meta!['holdfast/run']!.id),
      ).toHaveLength(2);
    });

    test('F04 variant: closed on one gateway, it is soon unknown to those that knew it', async () => {
      const { session } = await open();
      for (const gateway of [0, 1, 2]) expect((await send(session, { gateway })).status).toBe(200);
      expect((await send(session, { method: 'DELETE', gateway: 1 })).status).toBe(200);
      for (const gateway of [0, 1, 2])
        await until(async () => (await send(session, { gateway })).status === 404);
    });
  });
});
