import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { OtlpCollector, ScriptableUpstream, tool, type CollectedSpan } from '../servers/index.ts';
import { runOf, textOf, type Host } from './host.ts';
import { stopEverything, until } from './service.ts';
import { UpstreamFleet } from './upstream-fleet.ts';

let collector: OtlpCollector;
let upstream: ScriptableUpstream;
let own: UpstreamFleet;
let host: Host;
beforeAll(async () => {
  collector = await OtlpCollector.start();
  upstream = await ScriptableUpstream.start({ script: { era: 'modern', pages: [[tool('search')]] } });
  const size = { gateways: 1, workers: 1, connectors: 1 };
  own = await UpstreamFleet.start('postgres', collector.env, size);
  host = await own.fleet.host('modern');
  await own.connect({ id: 'docs', url: upstream.url, headers: { 'x-credential': 'credential-9' } }, host);
});
afterAll(async () => {
  await own.dispose();
  await upstream.close();
  await collector.close();
  await stopEverything();
});

/** A place in a trace of a host's own, as it says it. */
function hostTrace(): { traceId: string; spanId: string; traceparent: string } {
  const [traceId, spanId] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')];
  return { traceId, spanId, traceparent: `00-${traceId}-${spanId}-01` };
}

/** The traceparent that the upstream got with the call of a run. */
function sentWith(runId: string): string | undefined {
  const call = upstream
    .requests('tools/call')
    .find(({ params }) => metaOf(params)['idempotency_key'] === runId);
  return metaOf(call?.params)['traceparent'] as string | undefined;
}

const metaOf = (params: unknown): Record<string, unknown> =>
  (params as { _meta?: Record<string, unknown> } | undefined)?._meta ?? {};

/** `service name` of a span and of all above it, from the root on. */
function pathOf(span: CollectedSpan, spans: readonly CollectedSpan[]): string[] {
  const above = spans.find(({ spanId }) => spanId === span.parent);
  return [...(above === undefined ? [] : pathOf(above, spans)), `${span.service} ${span.name}`];
}

const named = (spans: readonly CollectedSpan[], name: string): CollectedSpan | undefined =>
  spans.find((span) => span.name === name);

test('one call of an upstream is one tree, from the span of its host to what its upstream is told', async () => {
  const { traceId, spanId, traceparent } = hostTrace();
  const meta = { traceparent, tracestate: 'vendor=1', 'vendor/key': 'kept' };
  const result = await host.call('docs__search', { q: 'argument-7' }, { meta, token: 'token-8' });
  const run = runOf(result);

  const spans = await until(() => {
    const collected = collector.ofTrace(traceId);
    return collected.length === 7 ? collected : undefined;
  });
  const gateway = named(spans, 'tools/call docs__search')!;
  expect(gateway.parent).toBe(spanId);
  const rpc = 'holdfast.v1.Connector/Call';
  const root = 'holdfast-gateway tools/call docs__search';
  expect(spans.map((span) => pathOf(span, spans).join(' > ')).sort()).toEqual([
    root,
    `${root} > holdfast-gateway submit`,
    `${root} > holdfast-worker attempt`,
    `${root} > holdfast-worker attempt > holdfast-worker ${rpc}`,
    `${root} > holdfast-worker attempt > holdfast-worker ${rpc} > holdfast-connector ${rpc}`,
    `${root} > holdfast-worker attempt > holdfast-worker ${rpc} > holdfast-connector ${rpc} > holdfast-connector tools/call search`,
    `${root} > holdfast-worker queue`,
  ]);

  const send = named(spans, 'tools/call search')!;
  expect(sentWith(run.id)).toBe(`00-${traceId}-${send.spanId}-01`);
  const [call] = upstream.requests('tools/call');
  expect(metaOf(call!.params)).toMatchObject({ tracestate: 'vendor=1', 'vendor/key': 'kept' });

  const ofRun = { 'holdfast.run.id': run.id, 'holdfast.tool.class': 'write' };
  expect(gateway.attributes).toEqual({
    ...ofRun,
    'mcp.method.name': 'tools/call',
    'mcp.protocol.version': '2026-07-28',
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': 'docs__search',
    'holdfast.run.reattached': false,
    'holdfast.outcome': 'ran',
  });
  expect(named(spans, 'attempt')!.attributes).toEqual({
    ...ofRun,
    'gen_ai.tool.name': 'docs__search',
    'holdfast.run.attempt': 1,
    'holdfast.run.state': 'succeeded',
    'holdfast.outcome': 'ran',
  });
  expect(send.attributes).toEqual({
    ...ofRun,
    'mcp.method.name': 'tools/call',
    'mcp.protocol.version': '2026-07-28',
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': 'search',
    'holdfast.server': 'docs',
    'holdfast.era': 'modern',
    'holdfast.outcome': 'ran',
  });
});

test('lines about a run carry its id and that of its trace in every service', async () => {
  const { traceId, traceparent } = hostTrace();
  const { id: runId } = runOf(await host.call('docs__search', {}, { meta: { traceparent } }));
  const lines = await until(() => {
    const found = own.fleet.services.flatMap(({ log }) => log).filter((line) => line['runId'] === runId);
    return found.length >= 4 ? found : undefined;
  });
  expect(lines.map(({ service, msg }) => `${String(service)}: ${String(msg)}`).sort()).toEqual([
    'connector: call dispatched',
    'connector: call over',
    'gateway: call accepted',
    'worker: attempt finished',
  ]);
  expect(new Set(lines.map((line) => line['traceId']))).toEqual(new Set([traceId]));
});

test('a call that joins the run of another is linked to its trace', async () => {
  const [first, second] = [hostTrace(), hostTrace()];
  for (const { traceparent } of [first, second])
    await host.call('docs__search', { q: 1 }, { meta: { traceparent }, token: 'joined' });
  const joined = await until(() => named(collector.ofTrace(second.traceId), 'tools/call docs__search'));
  const of = named(collector.ofTrace(first.traceId), 'tools/call docs__search')!;
  expect(collector.ofTrace(second.traceId)).toHaveLength(2);
  expect(joined.links).toMatchObject([{ traceId: first.traceId, spanId: of.spanId }]);
});

test('F198 a hundred fast calls are each in their own trace, at every step', async () => {
  const calls = await Promise.all(
    Array.from({ length: 100 }, async (_, i) => {
      const trace = hostTrace();
      const result = await host.call('docs__search', { i }, { meta: { traceparent: trace.traceparent } });
      return { ...trace, runId: runOf(result).id };
    }),
  );
  for (const { traceId, spanId, runId } of calls) {
    const spans = await until(() => {
      const collected = collector.ofTrace(traceId);
      return collected.length === 7 ? collected : undefined;
    });
    const ofOthers = spans.filter(
      ({ attributes }) =>
        attributes['holdfast.run.id'] !== undefined && attributes['holdfast.run.id'] !== runId,
    );
    expect(ofOthers).toEqual([]);
    const roots = spans.filter(({ parent }) => !spans.some((above) => above.spanId === parent));
    expect(roots.map(({ parent }) => parent)).toEqual([spanId]);
    expect(sentWith(runId)).toBe(`00-${traceId}-${named(spans, 'tools/call search')!.spanId}-01`);
  }
});

test.each([
  ['malformed', 'not-a-trace'],
  ['of an unknown kind', 7],
  ['of zeros', `00-${'0'.repeat(32)}-${'0'.repeat(16)}-01`],
])('F198 a traceparent that is %s is ignored: the call has a new trace', async (_what, traceparent) => {
  const { id: runId } = runOf(await host.call('docs__search', {}, { meta: { traceparent } }));
  const gateway = await until(() =>
    collector.spans.find(
      ({ name, attributes }) => name === 'tools/call docs__search' && attributes['holdfast.run.id'] === runId,
    ),
  );
  expect(gateway.parent).toBeUndefined();
  expect(sentWith(runId)).toMatch(new RegExp(`^00-${gateway.traceId}-`));
});

test('a host that records nothing is followed: its trace is passed on, and nothing exported', async () => {
  const { traceId, traceparent } = hostTrace();
  const unsampled = traceparent.replace(/01$/, '00');
  const { id: runId } = runOf(await host.call('docs__search', {}, { meta: { traceparent: unsampled } }));
  expect(sentWith(runId)).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-00$`));
  const after = hostTrace();
  await host.call('docs__search', {}, { meta: { traceparent: after.traceparent } });
  await until(() => collector.ofTrace(after.traceId).length === 7);
  expect(collector.ofTrace(traceId)).toEqual([]);
});

test('a run that is taken up after its worker was killed has its second attempt in the same trace', async () => {
  const { traceId, traceparent } = hostTrace();
  const args = { order_id: 'o-1', delay_ms: 2_000 };
  const waiting = host.call('refund_order', args, { meta: { traceparent }, token: 'killed' });
  await until(() =>
    own.fleet.wholeJournal().some(({ what, tool }) => what === 'start' && tool === 'refund_order'),
  );
  await own.fleet.replaceWorkers();
  const result = await waiting;
  expect(runOf(result)).toMatchObject({ attempt: 2 });
  expect(textOf(result)).toMatch(/refunded o-1/);
  const spans = await until(() => {
    const collected = collector.ofTrace(traceId);
    return named(collected, 'tools/call refund_order') && named(collected, 'attempt') ? collected : undefined;
  });
  const gateway = named(spans, 'tools/call refund_order')!;
  const attempt = named(spans, 'attempt')!;
  expect(attempt).toMatchObject({ parent: gateway.spanId, attributes: { 'holdfast.run.attempt': 2 } });
});

test('what is exported are traces alone, without an argument, a result, a token or a credential', async () => {
  const sent = collector.bodies.join('\n');
  const found: string[] = [];
  expect(new Set(collector.bodies.map((body) => body.split(' ', 1)[0]))).toEqual(new Set(['/v1/traces']));
  for (const secret of [
    'argument-7',
    'token-8',
    'credential-9',
    'key-of-desk-in-tests',
    'refunded o-1',
    process.execPath,
  ])
    if (sent.includes(secret)) found.push(secret);
  expect(found).toEqual([]);
});
