import { describe, expect, test } from '@jest/globals';
import { tokenRunId, type CallError } from '@holdfast/run';
import type { ServerCatalogue, UpstreamTool } from '@holdfast/tools';
import { publish } from '../../../test/support/publish.ts';
import {
  ask,
  envelope,
  eras,
  errorNameOf,
  memoryStore,
  openGateway,
  resultOf,
  runOf,
  serverOf,
  textOf,
  until,
  ways,
  type GatewayChange,
  type Message,
  type TestGateway,
} from './test-gateway.js';

const tools = [
  { name: 'search', inputSchema: { type: 'object', properties: { q: { type: 'string' } } }, annotations: { readOnlyHint: true } }, // prettier-ignore
  { name: 'write', inputSchema: { type: 'object', oneOf: [{ required: ['a'] }, { required: ['b'] }] } },
  { name: 'count', outputSchema: { type: 'object', properties: { n: { type: 'integer' } } } },
];
const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
const otherTrace = '00-00000000000000000000000000000001-0000000000000002-00';

const withUpstream = async (
  server: ServerCatalogue = serverOf(tools),
  change: GatewayChange = {},
): Promise<TestGateway> => {
  const store = await memoryStore();
  await publish(store, server);
  return openGateway({ store, ...change });
};

const failure: CallError = { name: 'MCPToolError', message: 'no', outcome: 'ran', retryable: false };

describe.each(eras)('on the %s era a call of an upstream', (era) => {
  test('is a run on the lane of its server, that says which tool of it (BEHAVIOURS 70, 71)', async () => {
    const server = serverOf(tools);
    const gateway = await withUpstream(server);
    const host = await gateway.host(era);
    const waiting = host.begin('docs__search', { q: 'x' });
    const claim = await gateway.claim();
    expect(claim.run).toMatchObject({
      workflow: 'server:docs_5e5e5e5e',
      tool: 'docs__search',
      toolClass: 'read',
      arguments: '{"q":"x"}',
      definition: '',
    });
    const { fingerprint } = server.tools[0] as UpstreamTool;
    expect(claim.run.upstream).toEqual({ server: 'docs_5e5e5e5e', tool: 'search', fingerprint });
    await gateway.finish(claim, 'found');
    expect(textOf(resultOf(await waiting.answer))).toBe('found');
  });

  test('with a token is one run, of the name that hosts see (BEHAVIOURS R5)', async () => {
    const gateway = await withUpstream();
    gateway.finishAll();
    const host = await gateway.host(era);
    const first = runOf(await host.call('docs__search', {}, { token: 't' }));
    const principal = { realm: 'apikey', id: 'desk' };
    expect(first.id).toBe(tokenRunId(Buffer.alloc(32, 7), principal, 'mcp:tool:docs__search', 't'));
    expect(runOf(await host.call('docs__search', {}, { token: 't' }))).toEqual({
      ...first,
      reattached: true,
    });
    expect(errorNameOf(await host.call('docs__search', { q: 'x' }, { token: 't' }))).toBe(
      'IdempotencyConflict',
    );
    await publish(gateway.store, serverOf([]));
    expect(runOf(await host.call('docs__search', {}, { token: 't' })).reattached).toBe(true);
  });

  test('without arguments has an empty object of them, and is a write where nothing says otherwise', async () => {
    const gateway = await withUpstream();
    gateway.finishAll();
    const host = await gateway.host(era);
    resultOf(await host.send('tools/call', { name: 'docs__count' }).answer);
    const [run] = await gateway.runs();
    expect([run!.arguments, run!.toolClass]).toEqual(['{}', 'write']);
  });

  test('F71 is checked by the original schema before there is a run', async () => {
    const gateway = await withUpstream();
    const host = await gateway.host(era);
    expect(errorNameOf(await host.call('docs__search', { q: 7 }))).toBe('InvalidArguments');
    expect(errorNameOf(await host.call('docs__write', { a: 1, b: 2 }))).toBe('InvalidArguments');
    expect(await gateway.runs()).toEqual([]);
  });

  test('that is filtered out is answered as one that never existed (BEHAVIOURS R12)', async () => {
    const gateway = await withUpstream(serverOf(tools, { rules: { deny: ['search'] } }));
    const host = await gateway.host(era);
    const answers = await Promise.all(
      ['docs__search', 'docs__nosuch'].map(
        async (name) => (await host.begin(name, {}, { id: 1 }).answer).body,
      ),
    );
    expect(answers[0]!.replaceAll('docs__search', 'docs__nosuch')).toBe(answers[1]);
    expect(answers[1]).toMatch(/-32602/);
    expect(await gateway.runs()).toEqual([]);
  });

  test('F32 takes the keys of vendors and the trace along, and nothing else of the meta', async () => {
    const gateway = await withUpstream();
    gateway.finishAll();
    const host = await gateway.host(era);
    const meta = {
      progressToken: 'p',
      'vendor/key': { n: 1 },
      traceparent,
      tracestate: 'a=1',
      'io.modelcontextprotocol/x': 1,
      'holdfast/run': 1,
    };
    await host.call('docs__search', {}, { meta, token: 't' });
    const [run] = await gateway.runs();
    expect(run!.upstream!.meta).toEqual({ 'vendor/key': { n: 1 } });
    expect(run!.trace).toEqual({ traceparent, tracestate: 'a=1' });
  });

  test.each([
    ['of the headers where the meta has none', {}, { traceparent, tracestate: 'a=1' }, { traceparent, tracestate: 'a=1' }],
    ['of the meta before that of the headers', { traceparent }, { traceparent: otherTrace, tracestate: 'a=1' }, { traceparent }],
    ['of the headers where that of the meta is malformed', { traceparent: 'x', tracestate: 'b=2' }, { traceparent }, { traceparent }],
    ['of nobody where both are malformed', { traceparent: 7, tracestate: 'b=2' }, { traceparent: 'x', tracestate: 'a=1' }, undefined],
  ])('F198 takes along the trace %s', async (_title, meta, headers, expected) => {
    const gateway = await withUpstream();
    gateway.finishAll();
    const host = await gateway.host(era);
    const params = { name: 'docs__search', arguments: {}, _meta: { ...(era === 'modern' && envelope), ...meta } };
    const ofEra =
      era === 'modern'
        ? { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'docs__search' }
        : { 'mcp-session-id': host.session };
    const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params };
    resultOf(await gateway.send({ headers: { ...ofEra, ...headers }, body }).answer);
    const [run] = await gateway.runs();
    expect(run!.trace).toEqual(expected);
  }); // prettier-ignore

  test('that fails has its error as structured content only where no output schema is listed', async () => {
    const gateway = await withUpstream();
    const host = await gateway.host(era);
    const failed = async (name: string): Promise<unknown> => {
      const waiting = host.begin(name, {}, { token: name });
      await gateway.finish(await gateway.claim(), failure);
      const result = resultOf(await waiting.answer);
      expect([errorNameOf(result), textOf(result)]).toEqual(['MCPToolError', 'MCPToolError: no']);
      return result.structuredContent;
    };
    expect(await failed('docs__search')).toMatchObject({ error: { name: 'MCPToolError' } });
    expect(await failed('docs__count')).toBeUndefined();
    // Also before there is a run, and when the tool is gone while the host still lists it.
    const refused = await host.call('docs__count', {}, { token: '' });
    expect([errorNameOf(refused), refused.structuredContent]).toEqual(['InvalidIdempotencyToken', undefined]);
    await publish(gateway.store, serverOf([]));
    const repeated = await host.call('docs__count', {}, { token: 'docs__count' });
    expect([errorNameOf(repeated), repeated.structuredContent]).toEqual(['MCPToolError', undefined]);
  });

  test('is said to wait for a worker only while there is none, since every worker serves every server', async () => {
    const gateway = await withUpstream(serverOf(tools), { settings: { keepAliveMs: 20 } });
    const host = await gateway.host(era);
    const stream = host.begin('docs__search', {}, { meta: { progressToken: 1 } });
    const told = (): unknown[] =>
      [...stream.received().matchAll(/"message":"([^"]*)"/g)].map(([, message]) => message);
    await until(() => told().length > 0);
    expect(new Set(told())).toEqual(new Set(['queued']));
    await gateway.store.workers.leave(`worker of ${gateway.url}`);
    await until(() => told().includes('queued: no live worker serves docs__search'));
  });
});

describe.each(ways)('%s: a call', (way) => {
  const call = async (gateway: TestGateway, name: string, args: string): Promise<Message> => {
    const params = `{"name":"${name}","arguments":${args}}`;
    return JSON.parse(await ask(gateway, way, 'tools/call', params)) as Message;
  };

  test.each([
    ['is not published any more', serverOf(tools.slice(1)), 'search'],
    ['is filtered out by the operator', serverOf(tools, { rules: { deny: ['search'] } }), 'search'],
    ['was of a server that has none now', serverOf([]), 'count'],
  ])('G84: of a tool that %s is ToolWithdrawn where it was listed', async (_why, later, name) => {
    const gateway = await withUpstream();
    await ask(gateway, way, 'tools/list');
    await publish(gateway.store, later);
    const { result } = await call(gateway, `docs__${name}`, '{}');
    expect(result).toMatchObject({
      isError: true,
      content: [{ text: `ToolWithdrawn: Docs does not offer docs__${name} any more; list the tools again` }],
      _meta: { 'holdfast/error': { name: 'ToolWithdrawn', outcome: 'not_sent', run_id: null } },
    });
    // Its host still holds results against the output schema that it was listed with.
    expect(result!.structuredContent === undefined).toBe(name === 'count');
    expect((await call(gateway, 'docs__never', '{}')).error?.code).toBe(-32602);
    expect(await gateway.runs()).toEqual([]);
    await publish(gateway.store, serverOf(tools));
    gateway.finishAll('back');
    expect(textOf((await call(gateway, `docs__${name}`, '{}')).result!)).toBe('back');
  });

  test.each([
    ['7960607143101464576', true],
    ['-9223372036854775808', true],
    ['0.1000000000000000055', true],
    ['3.14159265358979323846264338', true],
    ['-0', true],
    ['1e-400', true],
    ['1e400', false],
    ['-1E999', false],
    ['9007199254740993', false],
    ['123456789012345678901234567890', false],
  ])('G69: takes the number %s to an upstream with its own digits, or is refused', async (number, isKept) => {
    const gateway = await withUpstream();
    gateway.finishAll();
    const args = `{"q":"x","deep":[{"n":${number}},0.5]}`;
    const { result } = await call(gateway, 'docs__search', args);
    const runs = await gateway.runs();
    expect(runs.map((run) => run.arguments)).toEqual(isKept ? [args] : []);
    expect(errorNameOf(result!)).toBe(isKept ? undefined : 'InvalidArguments');
    if (!isKept) expect(textOf(result!)).toContain(`deep[0].n: the number ${number} cannot be held exactly`);
  });

  test.each([
    ['7960607143101464576', true],
    ['0.1000000000000000055', false],
    ['1e400', false],
    ['-0', true],
    ['1152921504606846976.0', true],
    ['0.30000000000000004', true],
    ['1e21', true],
  ])(
    'G69: with the number %s reaches a body that sees it as it is, or is refused',
    async (number, isKept) => {
      const gateway = await withUpstream();
      gateway.finishAll();
      const { result } = await call(gateway, 'work', `{"n":[${number}]}`);
      const read = (await gateway.runs()).map((run) => (JSON.parse(run.arguments) as { n: number[] }).n[0]);
      expect(read).toEqual(isKept ? [Number(number)] : []);
      expect(errorNameOf(result!)).toBe(isKept ? undefined : 'InvalidArguments');
    },
  );

  test('G62: whose arguments are null has none', async () => {
    const gateway = await withUpstream();
    gateway.finishAll();
    expect(textOf((await call(gateway, 'docs__search', 'null')).result!)).toBe('done');
    expect(textOf((await call(gateway, 'work', 'null')).result!)).toBe('done');
    expect((await gateway.runs()).map((run) => run.arguments)).toEqual(['{}', '{}']);
    for (const args of ['[]', '"{}"', '0', '-0', '7960607143101464576', '1e400', 'false'])
      expect(errorNameOf((await call(gateway, 'work', args)).result!)).toBe('InvalidArguments');
  });
});
