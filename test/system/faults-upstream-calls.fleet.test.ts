import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { tool, type LoggedRequest } from '../servers/index.ts';
import { keys } from './fleet.ts';
import { bearer, errorNameOf, eras, exchange, openHost, runOf, textOf, type Host } from './host.ts';
import { startGateway, stopEverything, until } from './service.ts';
import { stdioServer, UpstreamFleet } from './upstream-fleet.ts';

let own: UpstreamFleet;
let host: Host;
/** A gateway of the same deployment where a cancellation by a host ends its wait and no more. */
let detaching: string;
beforeAll(async () => {
  own = await UpstreamFleet.start(
    'postgres',
    { HOLDFAST_HOST_CANCEL: 'cancel' },
    { gateways: 1, workers: 1, connectors: 1 },
  );
  host = await own.fleet.host('modern');
  const { base } = await startGateway({ ...own.fleet.env, HOLDFAST_HOST_CANCEL: 'detach' });
  detaching = `${base}/mcp`;
});
afterAll(async () => {
  await own.dispose();
  await stopEverything();
});

interface Seen {
  readonly id?: number;
  readonly method: string;
  readonly params: Record<string, unknown>;
}

/** What a server on stdio got so far. */
async function seenBy(id: string): Promise<readonly Seen[]> {
  return (await host.call(`${id}__seen`, {})).structuredContent!['seen'] as Seen[];
}

const metaOf = ({ params }: Pick<LoggedRequest, 'params'>): Record<string, unknown> =>
  params!['_meta'] as Record<string, unknown>;

describe.each(['legacy', 'modern'] as const)('an upstream of the %s era', (era) => {
  const wasTold = (upstream: Awaited<ReturnType<UpstreamFleet['upstream']>>): boolean =>
    era === 'legacy'
      ? upstream.requests('notifications/cancelled').length > 0
      : upstream.requests('tools/call').some(({ wasAbandoned }) => wasAbandoned);

  test.each(eras)(
    'F20 hears nothing when a %s host drops its connection: the run goes on and its result is kept',
    async (hostEra) => {
      const upstream = await own.upstream({ era, pages: [[tool('slow', { delayMs: 700 })]] });
      const id = `dropped-${era}-${hostEra}`;
      await own.connect({ id, url: upstream.url }, host);
      const dropping = await own.fleet.host(hostEra);
      const call = dropping.begin(`${id}__slow`, { n: 1 }, { token: id });
      await until(() => upstream.executions.all.length === 1);
      call.cut();
      const result = await dropping.call(`${id}__slow`, { n: 1 }, { token: id });
      expect(textOf(result)).toBe('{"n":1}');
      expect(runOf(result)).toMatchObject({ attempt: 1, reattached: true });
      expect((await own.fleet.run(runOf(result).id)).state).toBe('succeeded');
      expect([upstream.executions.all.length, wasTold(upstream)]).toEqual([1, false]);
    },
  );

  /** Cancels a call, as a legacy host does, while the upstream has it. */
  async function cancelled(
    id: string,
    url: string,
  ): Promise<{ runId: string; upstream: Awaited<ReturnType<UpstreamFleet['upstream']>> }> {
    const upstream = await own.upstream({ era, pages: [[tool('hangs'), tool('quick')]] });
    upstream.faults.push({ on: 'tools/call', tool: 'hangs', do: { kind: 'hang' } });
    await own.connect({ id, url: upstream.url }, host);
    const cancelling = await openHost('legacy', url, keys.desk);
    const call = cancelling.begin(`${id}__hangs`, {}, { id: 'c-1', token: id });
    await until(() => upstream.executions.all.length === 1);
    const { body } = await own.fleet.api(`/runs?tool=${id}__hangs`);
    const headers = {
      ...bearer(keys.desk),
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      'mcp-session-id': cancelling.session!,
      'mcp-protocol-version': '2025-11-25',
    };
    const params = { requestId: 'c-1' };
    await exchange(url, { headers, body: { jsonrpc: '2.0', method: 'notifications/cancelled', params } })
      .answer;
    expect((await call.answer).messages).toEqual([]);
    return { runId: (body['runs'] as { id: string }[])[0]!.id, upstream };
  }

  test('F20 is told by its own id when a host cancels, where hosts may cancel, and its next call is served', async () => {
    const id = `cancelled-${era}`;
    const { runId, upstream } = await cancelled(id, own.fleet.url());
    await until(() => wasTold(upstream));
    expect((await own.fleet.run(runId)).state).toBe('cancelled');
    if (era === 'legacy') {
      const [notice] = upstream.requests('notifications/cancelled');
      const sent = JSON.parse(upstream.requests('tools/call')[0]!.body) as { id: unknown };
      expect(notice!.params!['requestId']).toBe(sent.id);
    }
    expect(textOf(await host.call(`${id}__quick`, {}))).toBe('{}');
    expect(upstream.executions.all).toHaveLength(2);
  });

  test('F20 hears nothing when a host cancels where that ends its wait alone', async () => {
    const { runId, upstream } = await cancelled(`detached-${era}`, detaching);
    expect((await own.fleet.run(runId)).state).toBe('running');
    expect(wasTold(upstream)).toBe(false);
    await own.fleet.cancel(runId);
    await until(() => wasTold(upstream));
  });

  test('F26 a write that timed out runs once, and its late answer is no result, also for who asks again', async () => {
    const upstream = await own.upstream({ era, pages: [[tool('pay', { delayMs: 1_500 })]] });
    const id = `late-${era}`;
    await own.connect({ id, url: upstream.url, timeout: 1, retry: 3 }, host);
    const first = await host.call(`${id}__pay`, {}, { token: id });
    expect(errorNameOf(first)).toBe('MCPCallOutcomeUnknown');
    expect(textOf(first)).toMatch(/no answer within.*may have run/is);
    expect(first._meta!['holdfast/error']!.outcome).toBe('unknown');
    // Once the answer was written, or nobody was there to take it.
    await until(() => upstream.requests('tools/call')[0]!.wasAbandoned);
    const again = await host.call(`${id}__pay`, {}, { token: id });
    expect(again.content).toEqual(first.content);
    expect(upstream.executions.all).toHaveLength(1);
  });

  test('F26 variant: a tool that says it is idempotent is sent again, each time by the same key', async () => {
    const hints = { annotations: { idempotentHint: true } };
    const upstream = await own.upstream({ era, pages: [[tool('put', { definition: hints })]] });
    upstream.faults.push({ on: 'tools/call', times: 2, do: { kind: 'hang' } });
    const id = `idempotent-${era}`;
    await own.connect({ id, url: upstream.url, timeout: 1 }, host);
    const result = await host.call(`${id}__put`, { n: 1 });
    expect(textOf(result)).toBe('{"n":1}');
    expect(upstream.executions.byKey()).toEqual({ [runOf(result).id]: 3 });
  });

  test.each(eras)(
    'F32 gets the token of progress, the key of a vendor and the trace of a %s host together',
    async (hostEra) => {
      const upstream = await own.upstream({
        era,
        pages: [
          [
            tool('work', {
              progress: [
                { value: 1, total: 2, message: 'half' },
                { value: 2, total: 2 },
              ],
            }),
          ],
        ],
      });
      const id = `meta-${era}-${hostEra}`;
      await own.connect({ id, url: upstream.url }, host);
      const asking = await own.fleet.host(hostEra);
      const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
      const traceparent = `00-${trace}-00f067aa0ba902b7-01`;
      const meta = { progressToken: 'p-1', 'example.com/tenant': { id: 7 }, traceparent };
      const { messages } = await asking.begin(`${id}__work`, {}, { meta, token: id }).answer;
      const sent = metaOf(upstream.requests('tools/call')[0]!);
      expect(sent).toMatchObject({ 'example.com/tenant': { id: 7 }, idempotency_key: expect.any(String) });
      expect(sent['progressToken']).toBeDefined();
      expect(sent['traceparent']).toMatch(`00-${trace}-`);
      const progress = messages.filter(({ method }) => method === 'notifications/progress');
      expect(progress.length).toBeGreaterThan(0);
      for (const { params } of progress) expect(params!['progressToken']).toBe('p-1');
      expect(progress.map(({ params }) => params!['message'])).toContain('half');
    },
  );

  test('F33 variant: calls that hang take no place from others for longer than their time', async () => {
    const upstream = await own.upstream({ era, pages: [[tool('hangs'), tool('quick')]] });
    upstream.faults.push({ on: 'tools/call', tool: 'hangs', do: { kind: 'hang' } });
    const id = `full-${era}`;
    await own.connect({ id, url: upstream.url, timeout: 1, concurrency: 2 }, host);
    const hanging = Array.from({ length: 4 }, () => host.call(`${id}__hangs`, {}));
    await until(() => upstream.executions.all.length === 2);
    expect(textOf(await host.call(`${id}__quick`, {}))).toBe('{}');
    for (const result of await Promise.all(hanging))
      expect(errorNameOf(result)).toBe('MCPCallOutcomeUnknown');
    await until(() => wasTold(upstream));
    expect(textOf(await host.call(`${id}__quick`, {}))).toBe('{}');
  });

  test('F49 variant: an answer that is reset costs its own call, and none of those beside it', async () => {
    const upstream = await own.upstream({ era, pages: [[tool('slow', { delayMs: 500 }), tool('cut')]] });
    upstream.faults.push({ on: 'tools/call', tool: 'cut', do: { kind: 'drop-after-receive' } });
    const id = `beside-${era}`;
    await own.connect({ id, url: upstream.url }, host);
    const slow = Array.from({ length: 5 }, (_, n) => host.call(`${id}__slow`, { n }));
    await until(() => upstream.executions.all.length === 5);
    expect(errorNameOf(await host.call(`${id}__cut`, {}))).toBe('MCPCallOutcomeUnknown');
    expect((await Promise.all(slow)).map(textOf)).toEqual([0, 1, 2, 3, 4].map((n) => `{"n":${n}}`));
    expect(upstream.executions.all).toHaveLength(6);
  });
});

test('F06 variant: ten calls at once meet a lost session: one new one, and each runs once', async () => {
  const upstream = await own.upstream({ era: 'legacy', pages: [[tool('pay')]] });
  await own.connect({ id: 'forgetful', url: upstream.url }, host);
  await host.call('forgetful__pay', { n: 0 });
  upstream.forgetSessions();
  const results = await Promise.all(Array.from({ length: 10 }, (_, n) => host.call('forgetful__pay', { n })));
  expect(results.map(textOf)).toEqual(Array.from({ length: 10 }, (_, n) => `{"n":${n}}`));
  expect(upstream.executions.all).toHaveLength(11);
  expect(Object.values(upstream.executions.byKey())).toEqual(Array(11).fill(1));
  expect(upstream.requests('initialize')).toHaveLength(2);
});

describe('a server on stdio', () => {
  test('F22 whose call is cancelled is told, and serves the next by the same child', async () => {
    await own.connect(stdioServer('patient', ['silent', 'seen', 'pid']), host);
    const pid = async (): Promise<unknown> => (await host.call('patient__pid', {})).structuredContent!['pid'];
    const before = await pid();
    const call = host.begin('patient__silent', {}, { token: 'f22' });
    const sent = await until(async () =>
      (await seenBy('patient')).find(({ params }) => params?.['name'] === 'silent'),
    );
    const { body } = await own.fleet.api('/runs?tool=patient__silent');
    await own.fleet.cancel((body['runs'] as { id: string }[])[0]!.id);
    await call.answer;
    const notice = await until(async () =>
      (await seenBy('patient')).find(({ method }) => method === 'notifications/cancelled'),
    );
    expect(notice.params['requestId']).toBe(sent.id);
    expect(await pid()).toBe(before);
  });

  test('F22 variant: that dies of being cancelled is there again for the next call', async () => {
    await own.connect(stdioServer('mortal', ['silent', 'pid', 'seen']), host);
    const pid = async (): Promise<number> =>
      (await host.call('mortal__pid', {})).structuredContent!['pid'] as number;
    const before = await pid();
    const call = host.begin('mortal__silent', {});
    await until(async () => (await seenBy('mortal')).some(({ params }) => params?.['name'] === 'silent'));
    const { body } = await own.fleet.api('/runs?tool=mortal__silent');
    await own.fleet.cancel((body['runs'] as { id: string }[])[0]!.id);
    process.kill(before, 'SIGKILL');
    await call.answer;
    expect(await pid()).not.toBe(before);
  });

  test('F33 variant: that does not answer in time is told so, and serves the next call', async () => {
    await own.connect({ ...stdioServer('slow-child', ['silent', 'seen']), timeout: 1 }, host);
    expect(errorNameOf(await host.call('slow-child__silent', {}))).toBe('MCPCallOutcomeUnknown');
    const methods = (await seenBy('slow-child')).map(({ method }) => method);
    expect(methods).toContain('notifications/cancelled');
  });

  test.each([
    ['F151 of 2024-11-05', ['--version=2024-11-05']],
    ['F151 variant: of 2026-07-28 alone', ['--modern']],
  ])('%s is called by hosts of both eras', async (title, flags) => {
    const id = `era-${title.length}`;
    await own.connect(stdioServer(id, ['echo'], flags), host);
    for (const era of eras) {
      const result = await (await own.fleet.host(era)).call(`${id}__echo`, { era });
      expect(result.structuredContent!['args']).toEqual({ era });
    }
  });
});

describe.each(eras)('a %s host', (hostEra) => {
  test('F151 reaches an upstream of 2024-11-05 and one of 2026-07-28, each by its own version and session', async () => {
    const old = await own.upstream({ era: 'legacy', legacyVersions: ['2024-11-05'] });
    const today = await own.upstream({ era: 'modern' });
    await own.connect({ id: `old-${hostEra}`, url: old.url }, host);
    await own.connect({ id: `today-${hostEra}`, url: today.url }, host);
    const asking = await own.fleet.host(hostEra);
    for (const id of [`old-${hostEra}`, `today-${hostEra}`])
      expect(textOf(await asking.call(`${id}__echo`, { n: 1 }))).toBe('{"n":1}');
    const [byOld, byToday] = [old, today].map((upstream) => upstream.requests('tools/call')[0]!.headers);
    expect(old.requests('initialize')).toHaveLength(1);
    expect(byOld!['mcp-protocol-version'] ?? '2024-11-05').toBe('2024-11-05');
    expect(byToday!['mcp-protocol-version']).toBe('2026-07-28');
    expect(byToday).not.toHaveProperty('mcp-session-id');
    expect(byOld!['mcp-session-id']).toBeDefined();
    expect(byOld!['mcp-session-id']).not.toBe(asking.session ?? '');
  });
});

test('F151 variant: an upstream of a revision that nobody knows is refused by its name', async () => {
  const upstream = await own.upstream({ era: 'legacy', legacyVersions: ['2031-01-01'] });
  own.set({ id: 'future', name: 'Future', url: upstream.url });
  expect(await own.diagnostic('future')).toMatch(/speaks 2031-01-01; known are 2025-11-25/);
});

describe('tools whose annotations say little', () => {
  const annotations = [
    undefined,
    {},
    { readOnlyHint: 'true' },
    { readOnlyHint: true, destructiveHint: true },
  ];
  const pages = [annotations.map((given, i) => tool(`t${i}`, { definition: { annotations: given } }))];

  async function outcomes(id: string, settings: object): Promise<{ asked: boolean[]; executed: string[] }> {
    const upstream = await own.upstream({ pages });
    await own.connect({ id, url: upstream.url, ...settings }, host);
    const asked: boolean[] = [];
    for (const i of annotations.keys())
      asked.push(errorNameOf(await host.call(`${id}__t${i}`, {})) === 'ApprovalUnavailable');
    return { asked, executed: upstream.executions.all.map(({ tool }) => tool) };
  }

  test('F83 all need an approval in mode ask, and under guarded the one that destroys; upstream sees no other', async () => {
    expect(await outcomes('asking', { approval_mode: 'ask' })).toEqual({
      asked: [true, true, true, true],
      executed: [],
    });
    expect(await outcomes('guarded', {})).toEqual({
      asked: [false, false, false, true],
      executed: ['t0', 't1', 't2'],
    });
  });

  test('F83 variant: allow-reads lets no write pass, and an override to read does not undo a claim to destroy', async () => {
    expect(await outcomes('reads', { approval_mode: 'allow-reads', overrides: { t1: 'read' } })).toEqual({
      asked: [true, false, true, true],
      executed: ['t1'],
    });
    expect(
      await outcomes('overridden', { approval_mode: 'allow-all', overrides: { t3: 'read' } }),
    ).toMatchObject({
      asked: expect.arrayContaining([true]),
      executed: expect.not.arrayContaining(['t3']),
    });
  });
});

describe('an upstream that keeps something for each session', () => {
  /** The sessions by which calls came, each with a letter. */
  const sessionsOf = (requests: readonly LoggedRequest[]): number[] => {
    const known: string[] = [];
    return requests.map(({ headers }) => {
      const session = headers['mcp-session-id']!;
      if (!known.includes(session)) known.push(session);
      return known.indexOf(session);
    });
  };

  test('F202 is given one to each caller where its sessions are by principal, whatever their own sessions', async () => {
    const upstream = await own.upstream({ era: 'legacy' });
    await own.connect({ id: 'counter', url: upstream.url, session_scope: 'principal' }, host);
    const [first, second] = [await own.fleet.host('legacy'), await own.fleet.host('legacy')];
    const other = await own.fleet.host('legacy', { key: keys.ci });
    for (const by of [first, other, second, other, host]) await by.call('counter__echo', {});
    expect(sessionsOf(upstream.requests('tools/call'))).toEqual([0, 1, 0, 1, 0]);
    const listing = upstream.requests('tools/list')[0]!.headers['mcp-session-id'];
    expect(upstream.requests('tools/call').map(({ headers }) => headers['mcp-session-id'])).not.toContain(
      listing,
    );
  });

  test('F202 variant: a caller who lost his session gets another of his own, and callers at once do not mix', async () => {
    const upstream = await own.upstream({ era: 'legacy' });
    await own.connect({ id: 'mixing', url: upstream.url, session_scope: 'principal' }, host);
    const hosts = [await own.fleet.host('modern'), await own.fleet.host('modern', { key: keys.ci })];
    const round = async (): Promise<Set<string>> => {
      upstream.log.splice(0);
      await Promise.all(
        Array.from({ length: 20 }, (_, n) => hosts[n % 2]!.call('mixing__echo', { by: n % 2 })),
      );
      return new Set(
        upstream
          .requests('tools/call')
          .map(
            ({ headers, params }) => `${JSON.stringify(params!['arguments'])} ${headers['mcp-session-id']}`,
          ),
      );
    };
    const before = await round();
    expect(before.size).toBe(2);
    upstream.forgetSessions();
    await Promise.all(hosts.map((by, n) => by.call('mixing__echo', { by: n })));
    const after = await round();
    expect(after.size).toBe(2);
    expect([...after].filter((pair) => before.has(pair))).toEqual([]);
  });

  test('F202 where nothing is said, all callers share one', async () => {
    const upstream = await own.upstream({ era: 'legacy' });
    await own.connect({ id: 'shared', url: upstream.url }, host);
    const other = await own.fleet.host('modern', { key: keys.ci });
    for (const by of [host, other]) await by.call('shared__echo', {});
    expect(sessionsOf(upstream.requests('tools/call'))).toEqual([0, 0]);
  });
});
