import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { Fleet, readJournal } from './fleet.ts';
import { envelope, messagesOfLines, textOf, type Message } from './host.ts';
import { scratchFolder, Service, stopEverything, until, type Env } from './service.ts';

let folder: ReturnType<typeof scratchFolder>;
beforeEach(() => {
  folder = scratchFolder();
});
afterEach(async () => {
  await stopEverything();
  folder.remove();
});

const journal = (): string[] =>
  readJournal(join(folder.path, 'journal')).map(({ what, attempt }) => `${what} ${attempt}`);

/** A host that has the product as its child, in the folder of the test. */
class StdioHost {
  readonly service: Service;
  #lastId = 0;

  constructor(change: Env = {}) {
    const env = {
      HOLDFAST_EXAMPLES_LOG: join(folder.path, 'journal'),
      HOLDFAST_LEASE_MS: '1000',
      HOLDFAST_POLL_INTERVAL_MS: '50',
      HOLDFAST_LOG_LEVEL: 'debug',
      ...change,
    };
    this.service = new Service('standalone', env, ['stdio'], folder.path);
  }

  tell(method: string, params?: object, id?: number): void {
    const message = { jsonrpc: '2.0', ...(id !== undefined && { id }), method, ...(params && { params }) };
    this.service.stdin.write(`${JSON.stringify(message)}\n`);
  }

  /** Asks and resolves to the answer. */
  async ask(method: string, params: object): Promise<Message> {
    const id = ++this.#lastId;
    this.tell(method, params, id);
    return until(async () => {
      if (!this.service.isRunning) throw new Error(`it ended:\n${this.service.stderr}`);
      return messagesOfLines(this.service.stdout).find((message) => message.id === id);
    });
  }
}

const clientInfo = { name: 'test', version: '1' };
const greeting = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo };

test('stdio serves a legacy host, and stdout holds nothing but messages', async () => {
  const host = new StdioHost();
  const { result: opened } = await host.ask('initialize', greeting);
  expect(opened).toMatchObject({ protocolVersion: '2025-11-25', capabilities: { tools: {} } });
  host.tell('notifications/initialized');
  const { result: list } = await host.ask('tools/list', {});
  expect((list!['tools'] as { name: string }[]).map(({ name }) => name)).toContain('refund_order');
  const call = { name: 'refund_order', arguments: { order_id: 'o-1' }, _meta: { idempotency_key: 'once' } };
  for (let n = 0; n < 2; n++)
    expect(textOf((await host.ask('tools/call', call)).result!)).toBe('refunded o-1');
  expect(journal()).toEqual(['start 1', 'end 1']);

  host.service.stdin.end();
  expect(await host.service.exited).toEqual({ code: 0, signal: null });
  expect(messagesOfLines(host.service.stdout)).toHaveLength(4);
  expect(host.service.log.map(({ msg }) => msg)).toContain('worker serves');
  expect(host.service.stdout).not.toContain('"level"');
});

test('stdio serves a modern host', async () => {
  const host = new StdioHost();
  const list = await host.ask('tools/list', { _meta: envelope });
  expect(list.result).toMatchObject({ cacheScope: 'private', ttlMs: 0 });
  const params = { name: 'lookup_order', arguments: { order_id: 'o-1' }, _meta: envelope };
  expect(textOf((await host.ask('tools/call', params)).result!)).toBe('o-1: shipped');
  const unknown = await host.ask('resources/list', { _meta: envelope });
  expect(unknown.error?.code).toBe(-32601);
  host.service.stdin.end();
  expect((await host.service.exited).code).toBe(0);
});

test('what a host asked before it closed stdin is run to its end and answered', async () => {
  const host = new StdioHost();
  await host.ask('initialize', greeting);
  host.tell('tools/call', { name: 'refund_order', arguments: { order_id: 'o-2', delay_ms: 500 } }, 99);
  await until(() => journal().length > 0);
  host.service.stdin.end();
  expect((await host.service.exited).code).toBe(0);
  expect(journal()).toEqual(['start 1', 'end 1']);
  const answers = messagesOfLines(host.service.stdout);
  expect(textOf(answers.find(({ id }) => id === 99)!.result!)).toBe('refunded o-2');
});

test('the run of a process that was killed goes on at the next start', async () => {
  const killed = new StdioHost();
  await killed.ask('initialize', greeting);
  killed.tell('tools/call', { name: 'refund_order', arguments: { order_id: 'o-3', delay_ms: 1000 } }, 99);
  await until(() => journal().length > 0);
  await killed.service.kill();
  expect(journal()).toEqual(['start 1']);

  const next = new StdioHost();
  await until(() => journal().length === 3);
  expect(journal()).toEqual(['start 1', 'start 2', 'end 2']);
  next.service.stdin.end();
  expect((await next.service.exited).code).toBe(0);
});

test('a run that no tool here serves does not keep the process after its host', async () => {
  const killed = new StdioHost();
  await killed.ask('initialize', greeting);
  killed.tell('tools/call', { name: 'refund_order', arguments: { order_id: 'o-4', delay_ms: 60_000 } }, 99);
  await until(() => journal().length > 0);
  await killed.service.kill();

  writeFileSync(
    join(folder.path, 'other.mjs'),
    `import { defineTool } from '@holdfast/tools';
     export const other = defineTool({ name: 'other', description: 'Another.', input: {}, run: () => 'done' });`,
  );
  const next = new StdioHost({ HOLDFAST_TOOLS: './other.mjs' });
  await next.ask('initialize', greeting);
  next.service.stdin.end();
  expect((await next.service.exited).code).toBe(0);
});

test.each(['postgres', 'valkey'] as const)(
  'G02: on a %s store it serves the tools of its workers and runs none itself',
  async (kind) => {
    const fleet = await Fleet.start(kind, {}, { gateways: 0, workers: 1 });
    const tools = join(folder.path, 'mine.mjs');
    writeFileSync(tools, 'throw new Error("this module is not to be loaded")');
    const host = new StdioHost({ HOLDFAST_STORE: fleet.env['HOLDFAST_STORE']!, HOLDFAST_TOOLS: tools });
    const params = { name: 'refund_order', arguments: { order_id: 'o-5' }, _meta: envelope };
    const { result } = await host.ask('tools/call', params);
    expect(textOf(result!)).toBe('refunded o-5');
    expect(journal()).toEqual([]);
    expect(fleet.wholeJournal().map(({ what }) => what)).toEqual(['start', 'end']);
    host.service.stdin.end();
    expect((await host.service.exited).code).toBe(0);
    await fleet.dispose();
  },
);

test('a wrong setting is told on stderr only', async () => {
  const { service } = new StdioHost({ HOLDFAST_LEASE_MS: 'long' });
  expect((await service.exited).code).toBe(78);
  expect(service.stderr).toMatch(/^HOLDFAST_LEASE_MS: /);
  expect(service.stdout).toBe('');
});

test('what a tool prints goes to stderr: stdout carries the protocol alone', async () => {
  const path = join(folder.path, 'chatty.mjs');
  writeFileSync(
    path,
    `import { defineTool } from '@holdfast/tools';
     console.log('the module says hello');
     export const chat = defineTool({ name: 'chat', description: 'Prints.', input: {}, run: () => {
       console.log('the body says hello');
       process.stdout.write('and so it does\\n');
       return 'said';
     } });`,
  );
  const host = new StdioHost({ HOLDFAST_TOOLS: path });
  host.tell(
    'initialize',
    { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 't', version: '1' } },
    1,
  );
  host.tell('tools/call', { name: 'chat', arguments: {} }, 2);
  await host.service.printed(/"text":"said"/);
  for (const line of host.service.stdout.trim().split('\n'))
    expect(JSON.parse(line)).toHaveProperty('jsonrpc');
  for (const said of ['the module says hello', 'the body says hello', 'and so it does'])
    expect(host.service.stderr).toContain(said);
});
