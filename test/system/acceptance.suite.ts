import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { newStoreUrl, startPostgres, startValkey } from '../servers/index.ts';
import { Fleet, keys } from './fleet.ts';
import {
  bearer,
  eras,
  errorNameOf,
  exchange,
  greeting,
  openHost,
  runOf,
  textOf,
  type Host,
  type ToolResult,
} from './host.ts';
import {
  Service,
  startGateway,
  startStandalone,
  startWorker,
  stopEverything,
  until,
  type Env,
} from './service.ts';

/**
 * The acceptance cases of serving tools, each named by its number, on one kind of deployment. What
 * one process or one kind of store cannot show is not among the tests of that kind.
 */
export function acceptanceCases(kind: Fleet['kind']): void {
  const isOneProcess = kind === 'standalone';
  let fleet: Fleet;
  beforeAll(async () => {
    fleet = await Fleet.start(kind);
  });
  afterAll(async () => {
    await fleet.dispose();
    await stopEverything();
  });

  /** A fleet of its own for a case that needs other settings, gone when the case ends. */
  async function withFleet(
    settings: Parameters<typeof Fleet.start>[1],
    size: { gateways: number; workers: number },
    play: (own: Fleet) => Promise<void>,
  ): Promise<void> {
    const own = await Fleet.start(kind, settings, size);
    try {
      await play(own);
    } finally {
      await own.dispose();
    }
  }

  const begins = (runId: string): number =>
    fleet.journal(runId).filter(({ what }) => what === 'start').length;
  const story = (runId: string): string =>
    fleet
      .journal(runId)
      .map(({ what }) => what)
      .join(' ');

  /** The run whose body starts next, whoever called it. */
  async function nextStart(since: number): Promise<string> {
    return (await until(() => fleet.wholeJournal()[since])).runId;
  }

  async function newestRun(): Promise<string | undefined> {
    const { body } = await fleet.api('/runs?limit=1');
    return (body['runs'] as { id: string }[])[0]?.id;
  }

  test.each(eras)('C01 POST, GET and DELETE without an accepted bearer key are refused (%s)', async (era) => {
    for (const method of ['POST', 'GET', 'DELETE']) {
      for (const authorization of [undefined, 'Basic x', 'Bearer wrong']) {
        const { headers, body } = greeting(era, authorization === undefined ? {} : { authorization });
        const answer = await exchange(fleet.url(), {
          method,
          headers,
          ...(method === 'POST' && { body }),
        }).answer;
        expect({ method, authorization, status: answer.status }).toEqual({
          method,
          authorization,
          status: 401,
        });
        // A credential that was shown is named as the fault (G39); the scheme comes first either way.
        expect(answer.headers['www-authenticate']).toBe(
          authorization === undefined ? 'Bearer' : 'Bearer error="invalid_token"',
        );
        expect(answer.headers).not.toHaveProperty('mcp-session-id');
        expect(answer.body).not.toContain('jsonrpc');
      }
    }
  });

  test('C02 of what a custom provider says only 403 and 503 are kept', async () => {
    const provider = `export default async ({ token }) => {
      if (/^[0-9]+$/.test(token)) throw Object.assign(new Error('provider detail'), { status: Number(token) });
      if (token === 'plain') throw new Error('provider detail');
      return { nobody: null, blank: '', desk: 'desk' }[token];
    };`;
    const settings = (folder: string): Record<string, string> => {
      writeFileSync(join(folder, 'provider.mjs'), provider);
      return { HOLDFAST_AUTH: 'module', HOLDFAST_AUTH_MODULE: join(folder, 'provider.mjs') };
    };
    await withFleet(settings, { gateways: 1, workers: 0 }, async (own) => {
      for (const era of eras) {
        const statusOf = async (token: string): Promise<number> => {
          const answer = await exchange(own.url(), greeting(era, bearer(token))).answer;
          expect(answer.body).not.toContain('provider detail');
          return answer.status;
        };
        expect(await Promise.all(['403', '503', '500', 'plain', 'nobody', 'blank'].map(statusOf))).toEqual([
          403, 503, 401, 401, 401, 401,
        ]);
        expect(await statusOf('desk')).toBe(200);
      }
    });
  });

  test('C03 a session of somebody else is as unknown as one that never was, and serves its owner on any gateway', async () => {
    const desk = await openHost('legacy', fleet.url(), keys.desk);
    const ci = await openHost('legacy', fleet.url(), keys.ci);
    const withSession = (
      method: string,
      key: string,
      session: string,
    ): ReturnType<typeof exchange>['answer'] =>
      exchange(fleet.url(), {
        method,
        headers: { ...greeting('legacy', bearer(key)).headers, 'mcp-session-id': session },
        ...(method === 'POST' && { body: { jsonrpc: '2.0', id: 1, method: 'tools/list' } }),
      }).answer;
    const refused = [
      await withSession('POST', keys.ci, desk.session!),
      await withSession('DELETE', keys.ci, desk.session!),
      await withSession('POST', keys.desk, randomUUID()),
    ];
    expect(refused.map(({ status }) => status)).toEqual([404, 404, 404]);
    // They differ in the id of their request alone, which a DELETE has none of (G65).
    const [ofOther, deleted, ofNobody] = refused.map(({ body }) => body);
    expect(ofOther).toContain('"id":1,');
    expect(ofNobody).toBe(ofOther);
    expect(deleted).toBe(ofOther!.replace('"id":1,', '"id":null,'));

    for (const via of [fleet.url(0), fleet.url(1)]) {
      expect((await desk.send('tools/list', {}, { via }).answer).status).toBe(200);
      expect((await ci.send('tools/list', {}, { via }).answer).status).toBe(200);
    }
  });

  test('C04 no more sessions than the maximum over all gateways; room returns when one closes', async () => {
    await withFleet({ HOLDFAST_MAX_SESSIONS: '5' }, { gateways: 2, workers: 0 }, async (own) => {
      const open = (gateway: number): ReturnType<typeof exchange>['answer'] =>
        exchange(own.url(gateway), greeting('legacy', bearer(keys.desk))).answer;
      const hosts = [];
      for (let n = 0; n < 5; n++) hosts.push(await own.host('legacy', { gateway: n % 2 }));
      for (const gateway of [0, 1]) {
        const sixth = await open(gateway);
        expect(sixth.status).toBe(503);
        expect(sixth.headers).toHaveProperty('retry-after');
        expect(sixth.headers).not.toHaveProperty('mcp-session-id');
      }
      const [first, second] = hosts as [(typeof hosts)[0], (typeof hosts)[0]];
      expect((await first.send('tools/list').answer).status).toBe(200);
      const modern = await own.host('modern');
      expect((await modern.send('tools/list').answer).status).toBe(200);

      const headers = { ...bearer(keys.desk), 'mcp-session-id': second.session! };
      expect((await exchange(own.url(0), { method: 'DELETE', headers }).answer).status).toBe(200);
      expect((await open(1)).status).toBe(200);
      expect((await open(0)).status).toBe(503);
      // A gateway that has used the session hears of its end from the other one.
      await until(async () => (await second.send('tools/list').answer).status === 404);
    });
  });

  test('C05 open mode listens beyond loopback only when told so', async () => {
    const start = isOneProcess ? startStandalone : startGateway;
    const open = { ...fleet.env, HOLDFAST_AUTH: 'none', HOLDFAST_PORT: '0' };

    const refused = new Service(isOneProcess ? 'standalone' : 'gateway', {
      ...open,
      HOLDFAST_HOST: '0.0.0.0',
    });
    expect(await refused.exited).toEqual({ code: 78, signal: null });
    expect(refused.stderr).toMatch(/^HOLDFAST_AUTH: none would serve everybody who reaches 0\.0\.0\.0/);
    expect(refused.stdout).toBe('');

    const changes: Env[] = [{}, { HOLDFAST_HOST: '0.0.0.0', HOLDFAST_ALLOW_UNAUTHENTICATED: 'true' }];
    for (const change of changes) {
      const { service, base } = await start({ ...open, ...change });
      for (const era of eras) {
        const host = await openHost(era, `${base}/mcp`);
        expect(textOf(await host.call('lookup_order', { order_id: 'o-1' }))).toBe('o-1: shipped');
      }
      expect(await service.stop()).toBe(0);
    }
  });

  test('C06 a modern request has no session, and its headers must say what its body says', async () => {
    const { headers, body } = greeting('modern', bearer(keys.desk));
    const { params } = body as { params: object };
    const session = { 'mcp-session-id': randomUUID() };
    const served = await exchange(fleet.url(), { headers: { ...headers, ...session }, body }).answer;
    expect(served.status).toBe(200);
    expect(served.messages[0]?.result).toHaveProperty('tools');
    expect(served.headers).not.toHaveProperty('mcp-session-id');

    for (const method of ['GET', 'DELETE']) {
      expect((await exchange(fleet.url(), { method, headers: bearer(keys.desk) }).answer).status).toBe(405);
      expect((await exchange(fleet.url(), { method }).answer).status).toBe(401);
    }

    const before = await newestRun();
    const call = { ...params, name: 'refund_order', arguments: { order_id: 'o-6' } };
    const mismatch = await exchange(fleet.url(), {
      headers: { ...headers, 'mcp-method': 'tools/call', 'mcp-name': 'lookup_order' },
      body: { jsonrpc: '2.0', id: 6, method: 'tools/call', params: call },
    }).answer;
    expect(mismatch.status).toBe(400);
    expect(mismatch.messages[0]?.error?.code).toBe(-32020);
    expect(await newestRun()).toBe(before);
  });

  test.each(eras)(
    'C07 every tool says whether it only reads, and no schema has more than its parameters (%s)',
    async (era) => {
      const host = await fleet.host(era);
      const { result } = (await host.send('tools/list').answer).messages[0]!;
      const listed = result!['tools'] as {
        name: string;
        annotations: unknown;
        inputSchema: { type: string; properties: object; required: string[] };
      }[];
      expect(
        listed.map(({ name, annotations, inputSchema: { type, properties, required } }) => ({
          name,
          annotations,
          type,
          properties: Object.keys(properties),
          required,
        })),
      ).toEqual([
        {
          name: 'boom',
          annotations: { readOnlyHint: false },
          type: 'object',
          properties: ['msg'],
          required: ['msg'],
        },
        {
          name: 'gated_refund',
          annotations: { readOnlyHint: false },
          type: 'object',
          properties: ['amount'],
          required: ['amount'],
        },
        {
          name: 'lookup_order',
          annotations: { readOnlyHint: true },
          type: 'object',
          properties: ['order_id'],
          required: ['order_id'],
        },
        {
          name: 'refund_order',
          annotations: { readOnlyHint: false },
          type: 'object',
          properties: ['order_id', 'delay_ms'],
          required: ['order_id'],
        },
      ]);
    },
  );

  test.each(eras)('C08 the text of an error that a body throws reaches the caller (%s)', async (era) => {
    const host = await fleet.host(era);
    const result = await host.call('boom', { msg: 'secret-text' });
    expect(result.isError).toBe(true);
    expect(textOf(result)).toBe('ToolError: secret-text');
    expect(errorNameOf(result)).toBe('ToolError');
  });

  if (kind === 'postgres' || kind === 'valkey') {
    test('C08 while the store is down a call says "internal error" and nothing else, and works again after', async () => {
      const server = await (kind === 'postgres' ? startPostgres() : startValkey());
      try {
        const settings = {
          HOLDFAST_STORE:
            'createDatabase' in server ? await server.createDatabase() : newStoreUrl(server.url),
        };
        await withFleet(settings, { gateways: 1, workers: 1 }, async (own) => {
          const legacy = await own.host('legacy');
          const modern = await own.host('modern');
          for (const host of [legacy, modern]) await host.call('lookup_order', { order_id: 'o-8' });
          await server.kill();

          const refused = await legacy.begin('lookup_order', { order_id: 'o-8' }, { id: 8 }).answer;
          expect(refused.status).toBe(503);
          expect(JSON.parse(refused.body)).toEqual({
            jsonrpc: '2.0',
            id: 8,
            error: { code: -32603, message: 'internal error' },
          });
          const { content, isError, structuredContent, ...rest } = await modern.call('lookup_order', {
            order_id: 'o-8',
          });
          expect({ content, isError }).toEqual({
            content: [{ type: 'text', text: 'InternalError: internal error' }],
            isError: true,
          });
          expect(JSON.stringify([structuredContent, rest])).not.toMatch(
            /127\.0\.0\.1|postgres|valkey|select|ECONN|\.js:/i,
          );

          await server.restart();
          for (const host of [legacy, modern]) {
            await until(async () => {
              const result = await host.call('lookup_order', { order_id: 'o-8' }).catch(() => undefined);
              return result !== undefined && textOf(result) === 'o-8: shipped';
            });
          }
        });
      } finally {
        await server.stop();
      }
    });
  }

  test.each(eras)('C09 there are tools and nothing else (%s)', async (era) => {
    const host = await fleet.host(era);
    for (const method of ['resources/list', 'prompts/list']) {
      const answer = await host.send(method).answer;
      expect(answer.messages[0]?.error?.code).toBe(-32601);
      expect(answer.status).toBe(era === 'modern' ? 404 : 200);
    }
  });

  if (!isOneProcess) {
    test('C10 past the wait limit a call says so, and its run waits for a worker', async () => {
      await withFleet({ HOLDFAST_WAIT_TIMEOUT_MS: '2000' }, { gateways: 2, workers: 1 }, async (own) => {
        const hosts = await Promise.all(eras.map((era) => own.host(era)));
        await own.workers[0]!.stop();
        const call = (host: Host): Promise<ToolResult> =>
          host.call('lookup_order', { order_id: 'o-10' }, { token: `c10-${host.era}` });

        const late = await Promise.all(hosts.map(call));
        for (const result of late) {
          expect(result.isError).toBe(true);
          expect(textOf(result)).toMatch(/^WaitTimeout: /);
          expect(errorNameOf(result)).toBe('WaitTimeout');
        }
        expect(own.wholeJournal()).toEqual([]);

        own.workers = [await startWorker(own.env)];
        const found = await Promise.all(hosts.map(call));
        for (const [i, result] of found.entries()) {
          expect(textOf(result)).toBe('o-10: shipped');
          expect(runOf(result).id).toBe(runOf(late[i]!).id);
          expect(own.journal(runOf(result).id).map(({ what }) => what)).toEqual(['start', 'end']);
        }
      });
    });
  }

  test.each(eras)(
    'C11 a call that was cut off and is made again elsewhere gets the one result (%s)',
    async (era) => {
      const first = await fleet.host(era);
      const second = await fleet.host(era, { gateway: 1 });
      const options = { token: `c11-${era}` };
      const args = { order_id: 'o-17', delay_ms: 1000 };
      const since = fleet.wholeJournal().length;
      const cut = first.begin('refund_order', args, options);
      const runId = await nextStart(since);
      cut.cut();
      await expect(cut.answer).rejects.toThrow();

      expect(story(runId)).toBe('start');
      const again = await Promise.all([
        second.call('refund_order', args, options),
        first.call('refund_order', args, { ...options, via: fleet.url(1) }),
      ]);
      for (const result of again) {
        expect(textOf(result)).toBe('refunded o-17');
        expect(runOf(result)).toEqual({ id: runId, attempt: 1, reattached: true });
      }
      expect(story(runId)).toBe('start end');
    },
  );

  test.each(eras)(
    'C12 a token that is used again with other arguments is refused and changes nothing (%s)',
    async (era) => {
      const host = await fleet.host(era);
      const options = { token: `c12-${era}` };
      const first = await host.call('refund_order', { order_id: 'o-17' }, options);
      const since = fleet.wholeJournal().length;
      const other = await host.call('refund_order', { order_id: 'o-18' }, { ...options, via: fleet.url(1) });
      expect(other.isError).toBe(true);
      expect(textOf(other)).toMatch(/^IdempotencyConflict: /);
      expect(errorNameOf(other)).toBe('IdempotencyConflict');

      const third = await host.call('refund_order', { order_id: 'o-17' }, options);
      expect(third.content).toEqual(first.content);
      expect(runOf(third)).toEqual({ ...runOf(first), reattached: true });
      expect(fleet.wholeJournal().slice(since)).toEqual([]);
    },
  );

  test.each(eras)('C13 a token belongs to one caller and one tool (%s)', async (era) => {
    const desk = await fleet.host(era);
    const ci = await fleet.host(era, { key: keys.ci, gateway: 1 });
    const options = { token: `c13-${era}` };
    const results = await Promise.all([
      desk.call('refund_order', { order_id: 'o-13' }, options),
      ci.call('refund_order', { order_id: 'o-13' }, options),
      desk.call('lookup_order', { order_id: 'o-13' }, options),
    ]);
    expect(results.map(textOf)).toEqual(['refunded o-13', 'refunded o-13', 'o-13: shipped']);
    const runs = results.map((result) => runOf(result).id);
    expect(new Set(runs).size).toBe(3);
    expect(runs.map(begins)).toEqual([1, 1, 1]);
  });

  test.each(eras)('C14 a token is a string of 1 to 256 characters, or not there at all (%s)', async (era) => {
    const host = await fleet.host(era);
    const before = await newestRun();
    for (const token of ['', 'a'.repeat(257), 7, null, ['x']]) {
      const result = await host.call('refund_order', { order_id: 'o-14' }, { token });
      expect(result.isError).toBe(true);
      expect(textOf(result)).toMatch(/^InvalidIdempotencyToken: /);
      expect(result._meta).not.toHaveProperty(['holdfast/run']);
    }
    expect(await newestRun()).toBe(before);

    // Characters, not UTF-16 units.
    for (const token of ['a', '🦀'].map((letter) => era[0] + letter.repeat(255))) {
      const call = (): Promise<ToolResult> => host.call('refund_order', { order_id: 'o-14' }, { token });
      const runs = [runOf(await call()), runOf(await call())];
      expect(runs.map(({ reattached }) => reattached)).toEqual([false, true]);
      expect(begins(runs[0]!.id)).toBe(1);
    }
    const fresh = [
      runOf(await host.call('refund_order', { order_id: 'o-14' })).id,
      runOf(await host.call('refund_order', { order_id: 'o-14' })).id,
    ];
    expect(new Set(fresh).size).toBe(2);
    expect(fresh.map(begins)).toEqual([1, 1]);
  });

  test.each(eras)('C15 a JSON-RPC id is never a token (%s)', async (era) => {
    const host = await fleet.host(era);
    const call = (): Promise<ToolResult> => host.call('refund_order', { order_id: 'o-15' }, { id: 15 });
    const runs = [runOf(await call()).id, runOf(await call()).id];
    expect(new Set(runs).size).toBe(2);
    expect(runs.map(begins)).toEqual([1, 1]);
  });

  test.each(eras)(
    'C16 arguments are the same whatever their order, space and way to write a number (%s)',
    async (era) => {
      const host = await fleet.host(era);
      const call = (raw: string): Promise<ToolResult> =>
        host.call('refund_order', {}, { token: `c16-${era}`, raw });
      const first = await call('{"order_id":"x","delay_ms":1}');
      const second = await call('{ "delay_ms":1.0, "order_id":"x" }');
      expect(textOf(second)).toBe('refunded x');
      expect(runOf(second)).toEqual({ ...runOf(first), reattached: true });
      expect(begins(runOf(first).id)).toBe(1);
      // Would break the schema too: the run is looked up first.
      expect(errorNameOf(await call('{"order_id":"x","delay_ms":null}'))).toBe('IdempotencyConflict');
    },
  );

  test('C17 a result outlives every process that made it', async () => {
    const hosts = await Promise.all(eras.map((era) => fleet.host(era)));
    const call = (host: Host): Promise<ToolResult> =>
      host.call('refund_order', { order_id: 'o-17' }, { token: `c17-${host.era}` });
    const first = await Promise.all(hosts.map(call));
    expect(new Set(await fleet.restart())).toEqual(new Set([0]));

    const again = await Promise.all(hosts.map(call));
    for (const [i, result] of again.entries()) {
      expect(textOf(result)).toBe('refunded o-17');
      expect(runOf(result)).toEqual({ ...runOf(first[i]!), reattached: true });
      expect(story(runOf(result).id)).toBe('start end');
    }
  });

  test.each(eras)(
    'C18 a body whose worker is killed runs again elsewhere, and its call gets the result (%s)',
    async (era) => {
      const host = await fleet.host(era);
      const options = { token: `c18-${era}` };
      const args = { order_id: 'o-18', delay_ms: 1000 };
      const since = fleet.wholeJournal().length;
      const waiting = host.begin('refund_order', args, options);
      const runId = await nextStart(since);
      if (isOneProcess) {
        // Whoever waited there was cut off with it, and comes back.
        await fleet.gateways[0]!.service.kill();
        await expect(waiting.answer).rejects.toThrow();
        await fleet.restartGateway(0);
      } else {
        await fleet.replaceWorkers();
        const { result } = (await waiting.answer).messages.at(-1)!;
        expect(textOf(result!)).toBe('refunded o-18');
        expect(runOf(result!)).toEqual({ id: runId, attempt: 2, reattached: false });
      }
      const again = await host.call('refund_order', args, options);
      expect(textOf(again)).toBe('refunded o-18');
      expect(runOf(again)).toEqual({ id: runId, attempt: 2, reattached: true });
      expect(story(runId)).toBe('start start end');
    },
  );

  test('C19 a tool that always needs an approval is not registered', async () => {
    const tools = join(fleet.folder, 'always.mjs');
    writeFileSync(
      tools,
      `import { defineTool } from '@holdfast/tools';
      export const wipe = defineTool({
        name: 'wipe_everything', description: 'Wipes.', input: {}, requiresApproval: true, run: () => 'wiped',
      });`,
    );
    const service = new Service(isOneProcess ? 'standalone' : 'worker', {
      ...fleet.env,
      HOLDFAST_TOOLS: tools,
      HOLDFAST_PORT: '0',
      HOLDFAST_OPS_PORT: '0',
    });
    const { code } = await service.exited;
    expect(code).not.toBe(0);
    expect(service.stderr).toMatch(
      /^HOLDFAST_TOOLS: ToolRegistrationError: tool "wipe_everything" always requires approval/m,
    );
    const { result } = (await (await fleet.host('modern')).send('tools/list').answer).messages[0]!;
    expect(JSON.stringify(result)).not.toContain('wipe_everything');
  });

  test.each(eras)(
    'C19 a call that needs an approval fails, and its body does not start (%s)',
    async (era) => {
      const host = await fleet.host(era);
      expect(textOf(await host.call('gated_refund', { amount: 50 }))).toBe('refunded 50');
      const refused = await host.call('gated_refund', { amount: 500 });
      expect(refused.isError).toBe(true);
      expect(textOf(refused)).toMatch(/^ApprovalUnavailable: /);
      expect(story(runOf(refused).id)).toBe('');
    },
  );
}
