import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from '@jest/globals';
import { ChildGuard } from '@holdfast/mcp-client';
import { freshRunId, laneOf, type Log, type UpstreamOutcome } from '@holdfast/run';
import { openStore, type Claim, type Store } from '@holdfast/store';
import { classOf, isResendable, type ServerCatalogue } from '@holdfast/tools';
import { ScriptableUpstream, tool, type UpstreamScript } from '../../../test/servers/index.ts';
import { Connector, NotOwner } from './connector.js';
import type { Diagnostic } from './diagnostic.js';
import { connectionOpener } from './open-connection.js';
import { parseServers } from './parse-servers.js';
import type { ServerSettings } from './server-settings.js';
import { recordingLog, silent } from '../../../test/support/log.ts';
import { until } from '../../../test/support/until.ts';

const closing: (() => Promise<unknown> | void)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function startUpstream(script: Partial<UpstreamScript> = {}): Promise<ScriptableUpstream> {
  const upstream = await ScriptableUpstream.start({ script });
  closing.push(() => upstream.close());
  return upstream;
}

/** Settings as an operator writes them. */
function settings(...entries: readonly Record<string, unknown>[]): readonly ServerSettings[] {
  const parsed = parseServers(JSON.stringify({ servers: entries }), {
    stdioEnabled: true,
    legacySse: false,
    isProduction: false,
    approvalMode: 'guarded',
  });
  if (typeof parsed === 'string' || parsed.diagnostics.length > 0) throw new Error(JSON.stringify(parsed));
  return parsed.servers;
}

async function openMemory(): Promise<Store> {
  const store = await openStore('memory:');
  closing.push(() => store.close());
  return store;
}

interface Seen {
  readonly connector: Connector;
  readonly diagnostics: Diagnostic[];
  readonly calls: string[];
}

function startConnector(
  store: Store,
  servers: readonly ServerSettings[] | undefined,
  leaseMs = 3_000,
  log: Log = silent,
): Seen {
  const diagnostics: Diagnostic[] = [];
  const calls: string[] = [];
  const children = new ChildGuard({ log: silent });
  const home = mkdtempSync(join(tmpdir(), 'holdfast-connector-'));
  const connector = new Connector({
    store,
    address: 'here',
    leaseMs,
    open: connectionOpener({
      guard: { allowLoopback: true, requireAllowedHosts: false, network: 'on' },
      placeholders: { node: process.execPath, python: 'python3', repo: home, home, environment: {} },
      children,
      version: '1',
      log: silent,
    }),
    log,
    observer: { called: ({ server, outcome }) => calls.push(`${server} ${outcome}`), connected() {} },
    diagnose: (diagnostic) => diagnostics.push(diagnostic),
  });
  if (servers !== undefined) connector.setServers(servers);
  connector.start();
  closing.push(async () => {
    await connector.stop(0);
    children.close();
  });
  return { connector, diagnostics, calls };
}

/** The bare names in the store, by id, once they are as they should be. */
const offered = async (store: Store): Promise<Record<string, string[]>> =>
  Object.fromEntries(
    (await store.tools.list())!.servers.map(({ id, tools }) => [id, tools.map(({ name }) => name)]),
  );

async function claimOne(store: Store, server: string): Promise<Claim> {
  await store.runs.submit({
    id: freshRunId(Date.now()),
    workflow: laneOf(server),
    tool: 'up__echo',
    toolClass: 'write',
    principal: null,
    arguments: '{}',
    digest: 'a1_x',
    definition: '',
    upstream: { server, tool: 'echo', fingerprint: 'm1_x' },
  });
  await store.workers.join({ id: 'worker', group: 'default', workflows: [] }, 60_000);
  const [claim] = await store.runs.claim({
    worker: 'worker',
    workflows: [laneOf(server)],
    definitions: [''],
    definitionGraceMs: 0,
    limit: 1,
    isDurable: true,
    sweep: true,
  });
  return claim!;
}

function call(
  connector: Connector,
  server: string,
  claim: Pick<Claim, 'seq' | 'token'>,
  change: { toolClass?: 'read' | 'write'; isResendable?: boolean; signal?: AbortSignal } = {},
): Promise<UpstreamOutcome> {
  return connector.call(
    {
      server,
      tool: 'echo',
      runId: freshRunId(Date.now()),
      arguments: '{"n":1}',
      meta: {},
      principal: null,
      claim: { seq: claim.seq, token: claim.token },
      toolClass: change.toolClass ?? 'write',
      isResendable: change.isResendable ?? false,
      timeoutMs: 5_000,
    },
    { signal: change.signal ?? new AbortController().signal, onProgress() {} },
  );
}

const keyOf = async (store: Store): Promise<string> =>
  until(async () => (await store.tools.list())!.servers[0]?.key);

describe('the dispatch mark', () => {
  test('is made before the first byte, once; without it nothing is sent', async () => {
    const [store, upstream] = [await openMemory(), await startUpstream()];
    const { connector, calls } = startConnector(store, settings({ id: 'up', url: upstream.url }));
    const key = await keyOf(store);
    const claim = await claimOne(store, key);
    expect(await call(connector, key, claim)).toMatchObject({ kind: 'ran' });
    expect(await store.runs.dispatch(claim)).toBe('lost');
    expect(await call(connector, key, claim)).toMatchObject({ kind: 'unknown' });
    expect(await call(connector, key, { ...claim, token: 'another' })).toMatchObject({ kind: 'not_sent' });
    expect(upstream.executions.all).toHaveLength(1);
    expect(calls).toEqual(['up ran', 'up unknown', 'up not_sent']);
  });

  test('is not needed for what only reads, and may be there already for a write that may be sent again', async () => {
    const [store, upstream] = [await openMemory(), await startUpstream()];
    const { connector } = startConnector(store, settings({ id: 'up', url: upstream.url }));
    const key = await keyOf(store);
    const claim = await claimOne(store, key);
    expect(await call(connector, key, claim, { toolClass: 'read' })).toMatchObject({ kind: 'ran' });
    expect(await store.runs.dispatch(claim)).toBe('won');
    expect(await call(connector, key, claim, { isResendable: true })).toMatchObject({ kind: 'ran' });
    const stale = { ...claim, token: 'another' };
    expect(await call(connector, key, stale, { isResendable: true })).toMatchObject({ kind: 'not_sent' });
    expect(upstream.executions.all).toHaveLength(2);
  });

  test.each([
    ['made', 1],
    ['not made', 0],
  ])(
    'whose answer the store lost, and that was %s, is asked for again, and the call is sent once',
    async (_what, made) => {
      const [store, upstream] = [await openMemory(), await startUpstream()];
      let asked = 0;
      const dispatch: Store['runs']['dispatch'] = async (claim) => {
        if (++asked > 1) return store.runs.dispatch(claim);
        if (made === 1) await store.runs.dispatch(claim);
        throw new Error('the store went away');
      };
      const servers = settings({ id: 'up', url: upstream.url });
      const { connector } = startConnector({ ...store, runs: { ...store.runs, dispatch } }, servers);
      const key = await keyOf(store);
      expect(await call(connector, key, await claimOne(store, key))).toMatchObject({ kind: 'ran' });
      expect([asked, upstream.executions.all.length]).toEqual([2, 1]);
    },
  );

  test('is not made for a call that waits for its turn, nor where nobody listens', async () => {
    const [store, upstream] = [await openMemory(), await startUpstream()];
    upstream.faults.push({ on: 'tools/call', do: { kind: 'hang' } });
    const { connector } = startConnector(store, settings({ id: 'up', url: upstream.url, concurrency: 1 }));
    const key = await keyOf(store);
    const [sent, waiting] = [await claimOne(store, key), await claimOne(store, key)];
    const hanging = call(connector, key, sent);
    await until(() => upstream.executions.all.length === 1);
    const giving = new AbortController();
    const given = call(connector, key, waiting, { signal: giving.signal });
    giving.abort();
    expect(await given).toMatchObject({ kind: 'not_sent' });
    expect(await store.runs.dispatch(waiting)).toBe('won');
    await upstream.close();
    expect(await hanging).toMatchObject({ kind: 'unknown', why: 'dropped' });
    const another = await claimOne(store, key);
    expect(await call(connector, key, another)).toMatchObject({
      kind: 'not_sent',
      name: 'MCPConnectionError',
    });
    expect(await store.runs.dispatch(another)).toBe('won');
  });
});

test('G05: a result with a wrong block is recorded with all else, the call succeeds, and one line of the log says so', async () => {
  const content = [
    { type: 'text', text: 'paid' },
    { type: 'image', data: 'HIJACK!', mimeType: 'image/png' },
  ];
  const result = { content, structuredContent: [1, 2], vendor: 7, isError: null };
  const definition = { name: 'echo', inputSchema: { type: 'object' } };
  const [store, upstream] = [await openMemory(), await startUpstream({ pages: [[{ definition, result }]] })];
  const { lines, log } = recordingLog();
  const { connector } = startConnector(store, settings({ id: 'up', url: upstream.url }), 3_000, log);
  const key = await keyOf(store);
  const outcome = (await call(connector, key, await claimOne(store, key))) as {
    result: string;
    error?: string;
  };
  expect(outcome).toMatchObject({ kind: 'ran' });
  expect(outcome.error).toBeUndefined();
  expect(JSON.parse(outcome.result)).toEqual({
    content: [content[0], { type: 'text', text: '[image: image/png; its data is not base64]' }],
    structuredContent: [1, 2],
    vendor: 7,
  });
  const said = lines.filter(({ message }) => message === 'parts of a result were replaced');
  expect(said).toEqual([
    {
      message: expect.anything(),
      fields: {
        server: 'up',
        tool: 'echo',
        runId: expect.stringMatching(/^r0_/),
        flaws: ['content[1].data is not base64'],
      },
    },
  ]);
});

test('G59: an output schema without end decides nothing about a call that ran', async () => {
  const definition = {
    name: 'echo',
    inputSchema: { type: 'object' },
    outputSchema: { type: 'object', allOf: [{ $ref: '#' }] },
  };
  const result = { content: [], structuredContent: { a: 1 } };
  const [store, upstream] = [await openMemory(), await startUpstream({ pages: [[{ definition, result }]] })];
  const { connector } = startConnector(store, settings({ id: 'up', url: upstream.url }));
  const key = await keyOf(store);
  const outcome = await call(connector, key, await claimOne(store, key), { toolClass: 'read' });
  expect(outcome).toEqual({ kind: 'ran', result: JSON.stringify(result) });
  expect(upstream.executions.all).toHaveLength(1);
});

test('G08: the data of an error is kept with the refusal, and the URL that it asks to open stands in its text', async () => {
  const data = { elicitations: [{ mode: 'url', url: 'https://up.example/sign-in', elicitationId: 'e' }] };
  const definition = { name: 'echo', inputSchema: { type: 'object' } };
  const error = { code: -32042, message: 'sign in first', data };
  const [store, upstream] = [await openMemory(), await startUpstream({ pages: [[{ definition, error }]] })];
  const { connector } = startConnector(store, settings({ id: 'up', url: upstream.url }));
  const key = await keyOf(store);
  expect(await call(connector, key, await claimOne(store, key))).toEqual({
    kind: 'refused',
    name: 'MCPToolError',
    message: 'up answered with error -32042: sign in first (open https://up.example/sign-in)',
    data,
  });
});

describe('ownership', () => {
  test('of two connectors one owns a server, and the other takes over when the first is gone', async () => {
    const [store, upstream] = [await openMemory(), await startUpstream()];
    const servers = settings({ id: 'up', url: upstream.url });
    const first = startConnector(store, servers);
    const key = await keyOf(store);
    const second = startConnector(store, servers);
    await until(() => first.connector.canCall(key));
    await expect(call(second.connector, key, { seq: 0, token: '' })).rejects.toThrow(NotOwner);
    await first.connector.stop(0);
    expect(first.connector.canCall(key)).toBe(false);
    await until(() => second.connector.canCall(key));
    expect(await call(second.connector, key, await claimOne(store, key))).toMatchObject({ kind: 'ran' });
  });

  test('a connector whose lease ran out unseen sends nothing that waits', async () => {
    const [store, upstream] = [await openMemory(), await startUpstream()];
    const { connector } = startConnector(store, settings({ id: 'up', url: upstream.url }), 60_000);
    const key = await keyOf(store);
    await until(() => connector.canCall(key));
    const { now } = performance;
    performance.now = () => now.call(performance) + 60_000;
    try {
      await expect(call(connector, key, await claimOne(store, key))).rejects.toThrow(NotOwner);
    } finally {
      performance.now = now;
    }
    expect(upstream.executions.all).toEqual([]);
  });

  test.each([
    ['and nobody has taken the server, sends all the same', false, { kind: 'ran' }],
    ['and another has the server, does not send', true, { kind: 'not_sent', name: 'MCPServerUnavailable' }],
  ])('one whose lease runs out while the mark is made, %s', async (_case, isTaken, outcome) => {
    const [store, upstream] = [await openMemory(), await startUpstream()];
    const { now } = performance;
    const { connector } = startConnector(
      {
        ...store,
        runs: {
          ...store.runs,
          dispatch: async (claim) => {
            const mark = await store.runs.dispatch(claim);
            performance.now = () => now.call(performance) + 60_000;
            if (isTaken) {
              const owners = await store.servers.owners();
              const [lease, { id }] = [...owners][0]!;
              await store.servers.disown(id, [lease]);
              await store.servers.own({ id: 'another', address: 'there' }, [lease], 60_000);
            }
            return mark;
          },
        },
      },
      settings({ id: 'up', url: upstream.url }),
      60_000,
    );
    const key = await keyOf(store);
    await until(() => connector.canCall(key));
    const claim = await claimOne(store, key);
    try {
      expect(await call(connector, key, claim)).toMatchObject(outcome);
    } finally {
      performance.now = now;
    }
    expect(await store.runs.dispatch(claim)).toBe('lost');
    expect(upstream.executions.all).toHaveLength(isTaken ? 0 : 1);
  });

  test('a call that waits for a connection when its server goes is for another connector', async () => {
    const [store, upstream] = [await openMemory(), await startUpstream()];
    upstream.faults.push({ on: 'server/discover', do: { kind: 'hang' } });
    const servers = settings({ id: 'up', url: upstream.url });
    const { connector } = startConnector(store, servers);
    const key = await until(async () => [...(await store.servers.owners()).keys()][0]);
    await until(() => connector.canCall(key));
    const waiting = call(connector, key, { seq: 0, token: '' });
    await until(() => upstream.requests('server/discover').length > 0);
    connector.setServers([]);
    await expect(waiting).rejects.toThrow(NotOwner);
  });

  test('one that lost a server ends what is under way there, and sends away what waits', async () => {
    const script = { pages: [[tool('echo', { delayMs: 2_000 })]] };
    const [store, upstream] = [await openMemory(), await startUpstream(script)];
    let isLost = false;
    const own: Store['servers']['own'] = async (...asked) => (isLost ? [] : store.servers.own(...asked));
    const servers = settings({ id: 'up', url: upstream.url, concurrency: 1 });
    const { connector } = startConnector({ ...store, servers: { ...store.servers, own } }, servers);
    const key = await keyOf(store);
    const under = call(connector, key, await claimOne(store, key));
    await until(() => upstream.executions.all.length === 1);
    const ended: string[] = [];
    void under.then(({ kind }) => ended.push(kind));
    const waiting = call(connector, key, await claimOne(store, key));
    isLost = true;
    await expect(waiting).rejects.toThrow(NotOwner);
    expect(ended).toEqual([]);
    expect(await under).toMatchObject({ kind: 'ran' });
    expect(upstream.executions.all).toHaveLength(1);
  });

  test('G04: one that stalled before it published does not replace what its successor published', async () => {
    const [store, upstream] = [await openMemory(), await startUpstream({ pages: [[tool('a')]] })];
    const servers = settings({ id: 'up', url: upstream.url });
    const stalled = Promise.withResolvers<void>();
    const answers: (boolean | undefined)[] = [];
    const publish: Store['servers']['publish'] = async (...asked) => {
      await stalled.promise;
      const answer = await store.servers.publish(...asked);
      answers.push(answer);
      return answer;
    };
    let isLost = false;
    const own: Store['servers']['own'] = async (...asked) => (isLost ? [] : store.servers.own(...asked));
    startConnector({ ...store, servers: { ...store.servers, own, publish } }, servers);
    await until(() => upstream.requests('tools/list').length > 0);
    const [key, { id }] = [...(await store.servers.owners())][0]!;
    isLost = true;
    await store.servers.disown(id, [key]);
    upstream.script.pages = [[tool('a'), tool('b')]];
    startConnector(store, servers);
    await until(async () => (await offered(store))['up']?.length === 2);
    stalled.resolve();
    await until(() => answers.length > 0);
    expect([...new Set(answers)]).toEqual([false]);
    expect(await offered(store)).toEqual({ up: ['a', 'b'] });
  });

  test('a server that every connector may serve is owned by each', async () => {
    const [store, upstream] = [await openMemory(), await startUpstream()];
    const servers = settings({ id: 'up', url: upstream.url, placement: 'every' });
    const connectors = [startConnector(store, servers), startConnector(store, servers)];
    const key = await keyOf(store);
    for (const { connector } of connectors) await until(() => connector.canCall(key));
    expect([...(await store.servers.owners()).keys()].every((lease) => lease.startsWith(`${key}#`))).toBe(
      true,
    );
  });

  test('one that stops ends what it has first, and takes nothing new', async () => {
    const [store, upstream] = [
      await openMemory(),
      await startUpstream({ pages: [[tool('echo', { delayMs: 300 })]] }),
    ];
    const { connector } = startConnector(store, settings({ id: 'up', url: upstream.url }));
    const key = await keyOf(store);
    const under = call(connector, key, await claimOne(store, key));
    await until(() => upstream.executions.all.length === 1);
    const stopped = connector.stop(10_000);
    await expect(call(connector, key, { seq: 0, token: '' })).rejects.toThrow(NotOwner);
    expect(await under).toMatchObject({ kind: 'ran' });
    await stopped;
    expect(await store.servers.owners()).toEqual(new Map());
  });
});

describe('the servers that are wanted', () => {
  test('are connected, changed and retired while calls of another go on (F103)', async () => {
    const [store, steady, changing] = [await openMemory(), await startUpstream(), await startUpstream()];
    const still = { id: 'still', url: steady.url };
    const { connector } = startConnector(store, settings(still));
    const key = await keyOf(store);
    let isOver = false;
    const outcomes: UpstreamOutcome['kind'][] = [];
    const calling = (async () => {
      while (!isOver) outcomes.push((await call(connector, key, await claimOne(store, key))).kind);
    })();
    const other = { id: 'other', url: changing.url };
    for (let i = 0; i < 3; i++) {
      connector.setServers(settings(still, other));
      await until(async () => (await offered(store))['other']?.length === 2);
      connector.setServers(settings(still, { ...other, timeout: 5 + i }));
      await until(async () =>
        (await store.tools.list())!.servers.some(({ rules }) => rules.timeoutMs === (5 + i) * 1_000),
      );
      connector.setServers(settings(still));
      await until(async () => (await offered(store))['other']?.length === 0);
      expect((await offered(store))['still']).toEqual(['echo', 'look']);
    }
    isOver = true;
    await calling;
    expect(new Set(outcomes)).toEqual(new Set(['ran']));
  });

  test('are not retired by a connector that was told of none', async () => {
    const [store, upstream] = [await openMemory(), await startUpstream()];
    const first = startConnector(store, settings({ id: 'up', url: upstream.url }));
    await until(async () => (await offered(store))['up']?.length === 2);
    await first.connector.stop(0);
    const untold = startConnector(store, undefined, 30);
    const renewed = new Set<number>();
    const { own } = store.servers;
    store.servers.own = (...args) => own.apply(store.servers, args).finally(() => renewed.add(renewed.size));
    await until(() => renewed.size >= 3);
    expect((await offered(store))['up']).toEqual(['echo', 'look']);
    untold.connector.setServers([]);
    await until(async () => (await offered(store))['up']?.length === 0);
  });

  test('one that cannot be reached keeps the tools of before under the rules of now', async () => {
    const [store, upstream] = [await openMemory(), await startUpstream()];
    const { url } = upstream;
    const first = startConnector(store, settings({ id: 'up', url }));
    await until(async () => (await offered(store))['up']?.length === 2);
    await first.connector.stop(0);
    await upstream.close();
    const second = startConnector(store, settings({ id: 'up', url, deny: ['echo'], connect_retries: 1 }));
    await until(() => second.diagnostics.length > 0);
    const [server] = (await store.tools.list())!.servers;
    expect(server!.tools.map(({ name }) => name)).toEqual(['echo', 'look']);
    expect(server!.rules.deny).toEqual(['echo']);
  });

  test('a required one that was not connected is told as missing until it is', async () => {
    const [store, upstream] = [await openMemory(), await startUpstream()];
    upstream.script.credential = { header: 'x-key', value: 'right' };
    const servers = settings({
      id: 'up',
      name: 'Needed',
      url: upstream.url,
      required: true,
      headers: { 'x-key': 'wrong' },
    });
    const { connector, diagnostics } = startConnector(store, servers);
    await until(() => diagnostics.length > 0);
    expect(connector.missing()).toEqual([
      { id: 'up', reason: expect.stringContaining('Needed'), isGivenUp: true },
    ]);
    const other = startConnector(store, servers);
    await until(() => other.connector.missing().length === 0);
    expect(diagnostics[0]).toMatchObject({ rule: 'connection-failure', origin: 'up' });
    connector.setServers(
      settings({ id: 'up', url: upstream.url, required: true, headers: { 'x-key': 'right' } }),
    );
    await until(() => connector.missing().length === 0);
  });

  test('two of one id are both served, and it is told (BEHAVIOURS 172)', async () => {
    const [store, one, two] = [await openMemory(), await startUpstream(), await startUpstream()];
    const { diagnostics } = startConnector(
      store,
      settings({ id: 'up', url: one.url }, { id: 'up', url: two.url }),
    );
    await until(async () => (await store.tools.list())!.servers.length === 2);
    expect(diagnostics).toMatchObject([{ rule: 'server-name-collision', origin: 'up' }]);
  });

  test('G13: one of two of one id says so though the other is never reached', async () => {
    const [store, one] = [await openMemory(), await startUpstream()];
    const servers = settings({ id: 'up', url: one.url }, { id: 'up', url: 'http://127.0.0.1:1/mcp' });
    const { connector } = startConnector(store, servers);
    const entry = async (): Promise<ServerCatalogue | undefined> => (await store.tools.list())!.servers[0];
    await until(async () => (await entry())?.sharesId === true);
    connector.setServers(servers.slice(0, 1));
    await until(async () => (await entry())?.sharesId === undefined);
  });

  test('a name in requires_approval that the server does not have fails its connect (BEHAVIOURS 114)', async () => {
    const [store, upstream] = [await openMemory(), await startUpstream()];
    const servers = settings({ id: 'up', name: 'Up', url: upstream.url, requires_approval: ['missing'] });
    const { diagnostics } = startConnector(store, servers);
    expect(await until(() => diagnostics[0]?.message)).toMatch(/Up.*"missing".*requires_approval/);
    expect(await offered(store)).toEqual({});
  });
});

describe('a server that says that its tools changed', () => {
  const requests = (upstream: ScriptableUpstream): number => upstream.requests('tools/list').length;

  test('is listed again, once for many words at once (F79)', async () => {
    const [store, upstream] = [await openMemory(), await startUpstream()];
    startConnector(store, settings({ id: 'up', url: upstream.url }));
    await until(async () => (await offered(store))['up']?.length === 2);
    await until(() => upstream.listeners > 0);
    upstream.script.pages = [[tool('new')]];
    upstream.toolsChanged(200);
    await until(async () => (await offered(store))['up']?.join() === 'new');
    await until(() => requests(upstream) === 3);
    upstream.script.pages = [[tool('newer')]];
    upstream.toolsChanged(1);
    await until(async () => (await offered(store))['up']?.join() === 'newer');
    expect(requests(upstream)).toBeLessThanOrEqual(4);
  });

  test('G79: and gives them in another order, of tools and of keys, publishes nothing', async () => {
    const [store, upstream] = [await openMemory(), await startUpstream()];
    const definition = (inputSchema: object): object => ({ definition: { name: 'a', inputSchema } });
    const [one, other] = [tool('b'), definition({ type: 'object', properties: {} })] as const;
    upstream.script.pages = [[one, other as typeof one]];
    const published: string[] = [];
    const publish: Store['servers']['publish'] = async (catalogue, ...rest) => {
      published.push(catalogue.tools.map(({ name }) => name).join());
      return store.servers.publish(catalogue, ...rest);
    };
    startConnector(
      { ...store, servers: { ...store.servers, publish } },
      settings({ id: 'up', url: upstream.url }),
    );
    await until(async () => (await offered(store))['up']?.length === 2);
    await until(() => upstream.listeners > 0);
    upstream.script.pages = [[definition({ properties: {}, type: 'object' }) as typeof one, one]];
    const before = requests(upstream);
    upstream.toolsChanged(1);
    await until(() => requests(upstream) > before);
    upstream.script.pages = [[tool('new')]];
    upstream.toolsChanged(1);
    await until(() => published.at(-1) === 'new');
    expect(published).toEqual(['a,b', 'new']);
  });

  test('G33: with looser hints keeps the class of before, for a tool that went and came back too', async () => {
    const [store, upstream] = [await openMemory(), await startUpstream()];
    const hinted = (annotations: object): ReturnType<typeof tool> => {
      const { definition, ...rest } = tool('pay');
      return { ...rest, definition: { ...definition, annotations } };
    };
    const entry = async (): Promise<ServerCatalogue> => (await store.tools.list())!.servers[0]!;
    const relisted = async (pages: ReturnType<typeof tool>[], names: string): Promise<void> => {
      upstream.script.pages = [pages];
      upstream.toolsChanged(1);
      await until(async () => (await offered(store))['up']?.join() === names);
    };
    upstream.script.pages = [[hinted({})]];
    startConnector(store, settings({ id: 'up', url: upstream.url }));
    await until(async () => (await offered(store))['up']?.length === 1);
    await until(() => upstream.listeners > 0);
    await relisted([hinted({ readOnlyHint: true, idempotentHint: true }), tool('z1')], 'pay,z1');
    const isWrite = async (): Promise<boolean> => {
      const { tools, rules } = await entry();
      return classOf(tools[0]!, rules) === 'write' && !isResendable(tools[0]!, rules);
    };
    expect(await isWrite()).toBe(true);
    await relisted([tool('z2')], 'z2');
    await relisted([hinted({ readOnlyHint: true, idempotentHint: true }), tool('z3')], 'pay,z3');
    expect(await isWrite()).toBe(true);
  });

  test('keeps its tools when it cannot be listed again', async () => {
    const [store, upstream] = [await openMemory(), await startUpstream()];
    const { diagnostics } = startConnector(store, settings({ id: 'up', url: upstream.url }));
    await until(async () => (await offered(store))['up']?.length === 2);
    await until(() => upstream.listeners > 0);
    upstream.faults.push({ on: 'tools/list', do: { kind: 'status', status: 500 } });
    upstream.toolsChanged(1);
    await until(() => diagnostics.length > 0);
    expect((await offered(store))['up']).toEqual(['echo', 'look']);
  });
});

describe('a list that grows old (BEHAVIOURS R11)', () => {
  const listed = (ttlMs: number, ...names: string[]): Partial<UpstreamScript> => ({
    era: 'modern',
    streams: false,
    listResults: { '': { resultType: 'complete', tools: names.map((name) => tool(name).definition), ttlMs } },
  });

  test.each([
    ['cache_ttl', { cache_ttl: 1 }, 0],
    ['its server, which is oftener than cache_ttl,', { cache_ttl: 30 * 24 * 3600 }, 1],
  ])(
    'is read again as often as %s says',
    async (_, setting, ttlMs) => {
      const [store, upstream] = [await openMemory(), await startUpstream(listed(ttlMs, 'old'))];
      startConnector(store, settings({ id: 'up', url: upstream.url, ...setting }));
      await until(async () => (await offered(store))['up']?.join() === 'old');
      upstream.script = { ...upstream.script, ...listed(ttlMs, 'new') };
      await until(async () => (await offered(store))['up']?.join() === 'new');
      await until(() => upstream.requests('tools/list').length >= 3);
    },
    60_000,
  );

  test('is not read again before that', async () => {
    const [store, upstream] = [await openMemory(), await startUpstream(listed(0, 'old'))];
    startConnector(store, settings({ id: 'up', url: upstream.url, cache_ttl: 30 * 24 * 3600 }));
    await until(async () => (await offered(store))['up']?.join() === 'old');
    // A timer that was set for longer than a timer holds would have fired many times over.
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect(upstream.requests('tools/list')).toHaveLength(1);
  });
});

test.each([true, false])(
  'G11: the tools of a redeployed server are read without a call (sessions: %s)',
  async (sessions) => {
    const upstream = await startUpstream({ era: 'legacy', sessions, pages: [[tool('old')]] });
    const { port, url } = upstream;
    const store = await openMemory();
    startConnector(store, settings({ id: 'up', transport: 'http', url, connect_backoff: 0.01 }));
    await until(async () => (await offered(store))['up']?.[0] === 'old');
    await until(() => upstream.listeners === 1);
    await upstream.close();
    const again = await ScriptableUpstream.start({
      port,
      script: { era: 'legacy', sessions, pages: [[tool('new')]] },
    });
    closing.push(() => again.close());
    await until(async () => (await offered(store))['up']?.[0] === 'new');
    expect(again.requests('tools/call')).toEqual([]);
  },
);
