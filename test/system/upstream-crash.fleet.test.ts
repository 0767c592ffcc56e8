import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  ScriptableUpstream,
  startTcpProxy,
  startUpstreamProcess,
  tool,
  type TcpProxy,
} from '../servers/index.ts';
import { bothEras, expectSettled, persist, revive, type Call } from './breaking.ts';
import { errorNameOf, runOf, textOf, type Host, type ToolResult } from './host.ts';
import { root, stopEverything, until, type Service } from './service.ts';
import { UpstreamFleet } from './upstream-fleet.ts';

/**
 * A kill at each step of the way of a call of an upstream, whose own count, by the id of the run, tells
 * how often it was executed. `send:at-most-once`, `send:known-not-sent`.
 */
describe.each(['postgres', 'standalone'] as const)('on %s', (kind) => {
  const isOneProcess = kind === 'standalone';
  let own: UpstreamFleet;
  let hosts: Host[];
  const closing: (() => Promise<void>)[] = [];
  beforeAll(async () => {
    own = await UpstreamFleet.start(kind, { HOLDFAST_DRAIN_MS: '20000' });
    hosts = await bothEras(own.fleet);
  });
  afterAll(async () => {
    await own.dispose();
    await Promise.all(closing.map((close) => close()));
    await stopEverything();
  });

  interface Upstream {
    readonly id: string;
    readonly upstream: ScriptableUpstream;
    readonly network: TcpProxy;
    /** The next call of a tool is executed and never answered. */
    hang(tool?: string): void;
    /** A call with arguments and a token of its own. */
    call(tool?: string): Call;
    /** How often the upstream executed the run of a result. */
    executed(result: ToolResult): number;
  }

  let ids = 0;
  const newId = (): string => `u${++ids}`;

  /** @param isBreakable whether it is reached by way of a network that can be broken */
  async function connect(entry: Record<string, unknown> = {}, isBreakable = false): Promise<Upstream> {
    const upstream = await ScriptableUpstream.start({
      script: { pages: [[tool('pay'), tool('pay_slowly', { delayMs: 700 }), tool('peek')]] },
    });
    closing.push(() => upstream.close());
    const network = await startTcpProxy({ port: upstream.port });
    closing.unshift(() => network.close());
    const id = newId();
    const url = isBreakable ? `http://127.0.0.1:${network.port}/mcp` : upstream.url;
    await own.connect({ id, url, overrides: { peek: 'read' }, ...entry }, hosts[0]!);
    return {
      id,
      upstream,
      network,
      hang: (name = 'pay') =>
        void upstream.faults.push({ on: 'tools/call', tool: name, times: 1, do: { kind: 'hang' } }),
      call: (name = 'pay') => callOf(id, name),
      executed: (result) => upstream.executions.byKey()[runOf(result).id] ?? 0,
    };
  }

  function callOf(id: string, name: string): Call {
    const order_id = newId();
    return { tool: `${id}__${name}`, args: { order_id }, token: `token-${order_id}` };
  }

  /** Sends it from hosts of both eras until both have the one answer. */
  const send = (call: Call, gateway = 0): Promise<ToolResult> =>
    persist(own.fleet, hosts, call, { gateway }).then(({ result }) => result);

  const runsOf = async (call: Call): Promise<{ readonly state: string }[]> =>
    (await own.fleet.api(`/runs?tool=${call.tool}`)).body['runs'] as { state: string }[];

  /** Both calls are runs, and where workers are apart from it both are at the connector. */
  const bothOnTheirWay = (call: Call): Promise<boolean> =>
    until(async () => {
      const states = (await runsOf(call)).map(({ state }) => state);
      return states.length === 2 && (isOneProcess || states.every((state) => state === 'running'));
    });

  /** The process that owns a server and sends its calls. */
  function ownerOf(id: string): Service {
    const connectedAt = ({ log }: Service): string =>
      String(log.findLast(({ msg, server }) => msg === 'server connected' && server === id)?.['time'] ?? '');
    return own.services
      .filter(({ isRunning }) => isRunning)
      .reduce((last, service) => (connectedAt(service) > connectedAt(last) ? service : last));
  }

  /** How many calls of a server were marked. */
  function dispatched(id: string): number {
    return own.services
      .flatMap(({ log }) => log)
      .filter(({ msg, server }) => msg === 'call dispatched' && String(server).startsWith(`${id}_`)).length;
  }

  async function killOwner(id: string): Promise<void> {
    await ownerOf(id).kill();
    await revive(own.fleet);
  }

  /** Times are for people: a machine that is busy takes what it takes. */
  const print = (line: string): void => void process.stdout.write(`${kind}: ${line}\n`);

  const settled = (call: Call, result: ToolResult): Promise<void> =>
    expectSettled(own.fleet, hosts, call, result);

  function expectUnknown(result: ToolResult): void {
    expect(errorNameOf(result)).toBe('MCPCallOutcomeUnknown');
    expect(result._meta?.['holdfast/error']).toMatchObject({ outcome: 'unknown', retryable: false });
  }

  function expectRan(result: ToolResult, { args }: Call): void {
    expect(result.isError).toBeUndefined();
    expect(JSON.parse(textOf(result))).toEqual(args);
  }

  test('the connector dies: what waits in its queue is sent once by the next, what the upstream acted on is unknown', async () => {
    const { id, upstream, hang, call, executed } = await connect({ concurrency: 1 });
    hang();
    const [acted, queued] = [call(), call()];
    const first = send(acted);
    await until(() => upstream.executions.all.length === 1);
    const second = send(queued);
    await bothOnTheirWay(queued);
    await killOwner(id);
    const [unknown, ran] = await Promise.all([first, second]);
    expectUnknown(unknown);
    expectRan(ran, queued);
    expect([executed(unknown), executed(ran), upstream.executions.all.length]).toEqual([1, 1, 2]);
    await settled(acted, unknown);
    await settled(queued, ran);
  });

  test('the connector dies after the upstream acted on a read: it is read again, and ends in its result', async () => {
    const { id, upstream, hang, call, executed } = await connect();
    hang('peek');
    const read = call('peek');
    const answered = send(read);
    await until(() => upstream.executions.all.length === 1);
    await killOwner(id);
    const result = await answered;
    expectRan(result, read);
    expect(executed(result)).toBe(2);
    await settled(read, result);
  });

  test('the connection breaks after the upstream acted: unknown at once, and never sent again', async () => {
    const { upstream, hang, call, executed, network } = await connect({}, true);
    hang();
    const write = call();
    const answered = send(write);
    await until(() => upstream.executions.all.length === 1);
    const cutAt = performance.now();
    network.cut();
    const result = await answered;
    print(`unknown ${Math.round(performance.now() - cutAt)} ms after the connection broke`);
    expectUnknown(result);
    expect(executed(result)).toBe(1);
    await settled(write, result);
  });

  test('the connection breaks after the first byte, which never came: unknown, and never sent again', async () => {
    const { id, upstream, call, network } = await connect({}, true);
    // The connection is there; the bytes of the call are what is held back.
    await send(call('peek'));
    network.blackhole(true);
    const write = call();
    const answered = send(write);
    await until(() => dispatched(id) === 1);
    // What was marked is sent as soon as the mark is known: the socket has it then.
    await until(async () => (await runsOf(write))[0]?.state === 'running');
    network.cut();
    network.blackhole(false);
    const result = await answered;
    expectUnknown(result);
    expect(upstream.executions.all.filter(({ tool: name }) => name === 'pay')).toEqual([]);
    await settled(write, result);
  });

  test('the upstream dies with a write and a read under way: the write is unknown, the read has a name, both at once', async () => {
    const script = { pages: [[tool('pay', { delayMs: 600_000 }), tool('peek', { delayMs: 600_000 })]] };
    const upstream = await startUpstreamProcess(script);
    closing.push(() => upstream.stop());
    const id = newId();
    await own.connect({ id, url: upstream.url, overrides: { peek: 'read' } }, hosts[0]!);
    const [write, read] = [callOf(id, 'pay'), callOf(id, 'peek')];
    const answers = [write, read].map(async (call) => ({ result: await send(call), at: performance.now() }));
    await until(() => upstream.executions().length === 2);
    const killedAt = performance.now();
    await upstream.kill();
    const unknown = await answers[0]!;
    const named = await answers[1]!;
    print(
      `write answered ${Math.round(unknown.at - killedAt)} ms and read ${Math.round(named.at - killedAt)} ms after the upstream was killed`,
    );
    expectUnknown(unknown.result);
    expect(errorNameOf(named.result)).toBe('MCPConnectionError');
    expect(upstream.executions().filter(({ key }) => key === runOf(unknown.result).id)).toHaveLength(1);
    const late = callOf(id, 'pay');
    const refused = await send(late);
    expect(errorNameOf(refused)).toBe('MCPConnectionError');
    expect(refused._meta?.['holdfast/error']?.outcome).toBe('not_sent');
    await upstream.restart();
    expect(upstream.executions()).toHaveLength(2);
    await settled(write, unknown.result);
  });

  test('the owner is told to stop with calls under way and in its queue: none fails, each is sent once', async () => {
    const { id, upstream, call, executed } = await connect({ concurrency: 1 });
    const calls = [call('pay_slowly'), call('pay_slowly'), call('pay_slowly')];
    const answers = calls.map((one) => send(one));
    await until(() => upstream.executions.all.length === 1);
    const owner = ownerOf(id);
    expect(await owner.stop()).toBe(0);
    await revive(own.fleet);
    const results = await Promise.all(answers);
    for (const [i, result] of results.entries()) {
      expectRan(result, calls[i]!);
      expect(executed(result)).toBe(1);
    }
  });

  test('the connector dies: its child over stdio is gone, and the next has one of its own', async () => {
    const id = newId();
    const args = [join(root, 'test/servers/stdio-upstream.mjs'), '--ignore-eof', `--stderr=${id}`];
    await own.connect({ id, command: process.execPath, args }, hosts[0]!);
    const child = childOf(id);
    expect(child).toBeDefined();
    await killOwner(id);
    await until(() => !isAlive(child!));
    const result = await send(callOf(id, 'echo'));
    expect(result.isError).toBeUndefined();
    expect(childOf(id)).not.toBe(child);
  });

  if (isOneProcess) return;

  test('the worker dies after the send: unknown at the next, and the upstream executed it once', async () => {
    const { upstream, hang, call, executed } = await connect();
    hang();
    const write = call();
    const answered = send(write);
    await until(() => upstream.executions.all.length === 1);
    await own.fleet.replaceWorkers();
    const result = await answered;
    expectUnknown(result);
    expect(runOf(result).attempt).toBe(2);
    expect(executed(result)).toBe(1);
    await settled(write, result);
  });

  test('the workers die while a call waits in the queue of the connector: it is executed once', async () => {
    const { upstream, hang, call, executed } = await connect({ concurrency: 1 });
    hang();
    const [acted, queued] = [call(), call()];
    const first = send(acted);
    await until(() => upstream.executions.all.length === 1);
    const second = send(queued);
    await bothOnTheirWay(queued);
    await own.fleet.replaceWorkers();
    const [unknown, ran] = await Promise.all([first, second]);
    expectUnknown(unknown);
    expectRan(ran, queued);
    expect(runOf(ran).attempt).toBe(2);
    expect([executed(unknown), executed(ran)]).toEqual([1, 1]);
  });

  test('the gateway dies: the result is at the other one, by the token', async () => {
    const { upstream, call, executed } = await connect();
    const write = call('pay_slowly');
    const answered = send(write);
    await until(() => upstream.executions.all.length === 1);
    await own.fleet.gateways[0]!.service.kill();
    const result = await answered;
    await revive(own.fleet);
    expectRan(result, write);
    expect(executed(result)).toBe(1);
    await settled(write, result);
  });

  test('the owner is killed: calls go on through the other connector', async () => {
    const { id, call, executed } = await connect();
    const before = ownerOf(id);
    await before.kill();
    const write = call();
    const result = await send(write);
    expectRan(result, write);
    expect(executed(result)).toBe(1);
    expect(ownerOf(id).pid).not.toBe(before.pid);
    await revive(own.fleet);
  });

  test('the owner is stopped beyond its lease: the other serves what waited, and the late one sends nothing', async () => {
    const { id, upstream, hang, call, executed } = await connect({ concurrency: 1 });
    hang();
    const [acted, queued] = [call(), call()];
    const first = send(acted);
    await until(() => upstream.executions.all.length === 1);
    const second = send(queued);
    await bothOnTheirWay(queued);
    const stopped = ownerOf(id);
    stopped.send('SIGSTOP');
    const [unknown, ran] = await Promise.all([first, second]);
    expectUnknown(unknown);
    expectRan(ran, queued);
    const closedBefore = connectionsClosed(stopped);
    stopped.send('SIGCONT');
    // It finds that the server is another's, and lets its connection go.
    await until(() => connectionsClosed(stopped) > closedBefore);
    expect([executed(unknown), executed(ran), upstream.executions.all.length]).toEqual([1, 1, 2]);
    await settled(queued, ran);
  }, 60_000);
});

/** The child of a server over stdio that names it on its command line. */
function childOf(id: string): number | undefined {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .find((pid) => commandLineOf(pid).includes(`--stderr=${id}\0`));
}

function isAlive(pid: number): boolean {
  return commandLineOf(pid) !== '';
}

/** Its words, each with a NUL behind it; empty for a process that is gone. */
function commandLineOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}

function connectionsClosed({ log }: Service): number {
  return log.filter(({ msg }) => msg === 'connection to an upstream server closed').length;
}
