import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PassThrough } from 'node:stream';
import { afterEach } from '@jest/globals';
import { everyLane, laneOf, systemClock, type CallError, type Progress, type Run } from '@holdfast/run';
import { openStore, type Claim, type Store } from '@holdfast/store';
import {
  defaultRules,
  defineTool,
  readListedTool,
  type ServerCatalogue,
  type ServerRules,
  type ToolDefinition,
} from '@holdfast/tools';
import { z } from 'zod';
import {
  envelope,
  exchange,
  messagesOfLines,
  openHost,
  type Exchange,
  type Host,
  type Message,
  type Sending,
} from '../../../test/system/host.js';
import { keyAuth, type AuthProvider } from './auth.js';
import type { IdentityHooks } from './call.js';
import { McpEndpoint, type McpSettings } from './endpoint.js';
import { loopbackHosts } from './http.js';
import type { LimitSettings } from './limits.js';
import type { CallObserver } from './observer.js';
import { Refusals } from './refusals.js';
import { serveHostOverStdio } from './stdio.js';

export * from '../../../test/system/host.js';

/** Named keys of the callers that the gateways of these tests know. */
export const desk = 'key-of-desk';
export const ci = 'key-of-ci';
const keys = new Map([
  ['desk', desk],
  ['ci', ci],
]);

const body = (): never => {
  throw new Error('the tests end runs by hand');
};

/** `work` takes any object, `refund_order` an order, `lookup_order` is read-only. */
export const definitions: readonly ToolDefinition[] = [
  defineTool({ name: 'work', description: 'Works.', input: { type: 'object' }, run: body }),
  defineTool({
    name: 'refund_order',
    description: 'Refunds.',
    input: { order_id: z.string(), lines: z.array(z.object({ price: z.number() })).optional() },
    run: body,
  }),
  defineTool({ name: 'lookup_order', description: 'Looks.', input: {}, readOnly: true, run: body }),
].map(({ definition }) => definition);

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** Has `cleanup` called after the test, before those that were asked for earlier. */
export function afterTest(cleanup: () => unknown): void {
  cleanups.push(cleanup);
}

/** Polls until `look` finds something. The test's own time limit ends what never comes. */
export async function until<T>(look: () => Promise<T> | T): Promise<Exclude<T, undefined | false | null>> {
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false && found !== null)
      return found as Exclude<T, undefined | false | null>;
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

/** `target` with some members replaced. */
export function changed<T extends object>(target: T, change: Partial<T>): T {
  return new Proxy(target, {
    get: (_target, name) => {
      const member = Reflect.get(
        name in change ? change : target,
        name,
        name in change ? change : target,
      ) as unknown;
      return typeof member === 'function' && !(name in change) ? (member.bind(target) as unknown) : member;
    },
  });
}

/** A store whose signals reach nobody. */
export function deaf(store: Store, hearing = false): Store {
  return changed(store, { subscribe: () => () => {}, hearing });
}

export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields: object;
}

/** One gateway over HTTP, and the hand of the test that works for it. */
export interface TestGateway {
  readonly url: string;
  readonly endpoint: McpEndpoint;
  readonly store: Store;
  /** What it logged, but for what only a developer reads. */
  readonly log: readonly LogLine[];
  readonly debugLog: readonly LogLine[];
  /** What the observer was told, a word each: `fresh`, `reattached`, and the outcome of a call. */
  readonly seen: readonly string[];
  /** How many calls have begun and are not answered. */
  waiting(): number;
  host(era: Host['era'], key?: string): Promise<Host & { readonly session?: string }>;
  /** One HTTP request as a host with the key of `desk` sends it; `headers` add, replace, and with undefined take away. */
  send(sending: Sending): Exchange;
  /** The next run in the queue, claimed. */
  claim(): Promise<Claim>;
  report(claim: Claim, ...values: (number | Progress)[]): Promise<void>;
  /** Ends a run: with a text, or with an error. */
  finish(claim: Claim, end: string | CallError): Promise<void>;
  /** From now on every run ends at once, with `text`, or with the `CallToolResult` that is given as JSON text. */
  finishAll(text?: string, result?: string): void;
  runs(): Promise<Run[]>;
}

export interface GatewayChange {
  readonly store?: Store;
  readonly settings?: Partial<McpSettings>;
  readonly limits?: Partial<LimitSettings>;
  readonly auth?: AuthProvider;
  readonly hooks?: IdentityHooks;
}

/** What the connector would publish of a server called Docs with these entries of its `tools/list`. */
export function serverOf(
  entries: readonly object[],
  {
    rules: change,
    ...fields
  }: Partial<Omit<ServerCatalogue, 'rules'>> & { readonly rules?: Partial<ServerRules> } = {},
): ServerCatalogue {
  const tools = entries.map((entry) => {
    const read = readListedTool({ inputSchema: { type: 'object' }, ...entry });
    if ('problem' in read) throw new Error(read.problem);
    return read.tool;
  });
  const identity = '5e'.repeat(32);
  return {
    key: 'docs_5e5e5e5e',
    id: 'docs',
    name: 'Docs',
    identity,
    rules: { ...defaultRules, ...change },
    tools,
    ...fields,
  };
}

/** Limits that no test reaches by accident. */
const roomy: LimitSettings = {
  messageValues: 100_000,
  requestBytes: 1e9,
  callerRequestBytes: 1e9,
  unreadBytes: 1e9,
  callerUnreadBytes: 1e9,
  unreadMs: 60_000,
  callerStreams: 1e9,
  callerCalls: 1e9,
  callerCallsPerSecond: 1e9,
};

const runIdKey = Buffer.alloc(32, 7);

export async function memoryStore(): Promise<Store> {
  const store = await openStore('memory:');
  afterTest(() => store.close());
  await store.tools.register('default', definitions);
  return store;
}

/** A gateway of its own, closed after the test; over the same `store` it is another replica. */
export async function openGateway(change: GatewayChange = {}): Promise<TestGateway> {
  const store = change.store ?? (await memoryStore());
  const log: LogLine[] = [];
  const debugLog: LogLine[] = [];
  const seen: string[] = [];
  let waiting = 0;
  const line = (level: string) => (fields: object, message: string) =>
    void (level === 'debug' ? debugLog : log).push({ level, message, fields });
  const logger = { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') };
  const observer: CallObserver = {
    refused: (reason) => void seen.push(`refused ${reason}`),
    runSubmitted: ({ reattached }) => seen.push(reattached ? 'reattached' : 'fresh'),
    runFinished: ({ error }) => void seen.push(error),
    callStarted: () => void waiting++,
    callFinished: ({ outcome }) => {
      waiting--;
      seen.push(outcome);
    },
  };
  const endpoint = new McpEndpoint({
    store,
    auth: change.auth ?? keyAuth(keys),
    hooks: change.hooks ?? {},
    serverInfo: { name: 'holdfast', version: '0' },
    log: logger,
    observer,
    refusals: new Refusals(logger, observer, systemClock),
    settings: {
      workflowPrefix: 'mcp:tool:',
      waitTimeoutMs: 0,
      dedupeWindowMs: 0,
      naming: 'double-underscore',
      nameLength: 64,
      hostCancel: 'detach',
      keepAliveMs: 15_000,
      runIdKeys: [runIdKey],
      origins: undefined,
      hosts: loopbackHosts,
      maxBodyBytes: 64 * 1024,
      limits: { ...roomy, ...change.limits },
      pollIntervalMs: 20,
      listTtlMs: 0,
      sessions: { max: 100, idleMs: 60_000 },
      legacy: 'sessions',
      ...change.settings,
    },
  });
  const server = createServer((req, res) => void endpoint.handle(req, res));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  afterTest(async () => {
    await endpoint.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  const worker = `worker of ${url}`;
  const { tools, servers } = (await store.tools.list())!;
  const own = tools.map(({ name }) => `mcp:tool:${name}`);
  const workflows = [...own, ...servers.map(({ key }) => laneOf(key))];
  await store.workers.join({ id: worker, group: 'default', workflows: [...own, everyLane] }, 600_000);

  const claimOne = async (): Promise<Claim | undefined> => {
    const request = {
      worker,
      workflows,
      definitions: [],
      definitionGraceMs: 0,
      limit: 1,
      isDurable: false,
      sweep: true,
    };
    return (await store.runs.claim(request))[0];
  };
  let reported = 0;
  const finish: TestGateway['finish'] = async (claim, end) => {
    const result = JSON.stringify({ content: [{ type: 'text', text: end }] });
    await store.runs.finish(
      claim,
      typeof end === 'string' ? { state: 'succeeded', result } : { state: 'failed', error: end },
    );
  };
  return {
    url,
    endpoint,
    store,
    log,
    debugLog,
    seen,
    waiting: () => waiting,
    host: (era, key = desk) => openHost(era, url, key),
    send: ({ headers, ...sending }) => {
      const all = {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        authorization: `Bearer ${desk}`,
        ...headers,
      };
      const given = Object.entries(all).filter(([, value]) => value !== undefined);
      return exchange(url, { ...sending, headers: Object.fromEntries(given) });
    },
    claim: () => until(claimOne),
    report: async (claim, ...values) => {
      const events = values.map((value) => ({
        n: claim.run.attempt * 1_000_000 + ++reported,
        ...(typeof value === 'number' ? { value } : value),
      }));
      await store.runs.report(claim, events);
    },
    finish,
    finishAll: (text = 'done', result) => {
      const drain = async (): Promise<void> => {
        for (let claim = await claimOne(); claim !== undefined; claim = await claimOne()) {
          if (result === undefined) await finish(claim, text);
          else await store.runs.finish(claim, { state: 'succeeded', result });
        }
      };
      afterTest(store.subscribe(({ kind }) => void (kind === 'queued' && drain())));
    },
    runs: () => store.runs.list({ limit: 100 }),
  };
}

/** A host over stdio of a gateway. */
export interface StdioHost {
  write(text: string): void;
  send(message: object): void;
  /** All that was answered: exactly one message a line. */
  messages(): Message[];
  received(): string;
  answer(id: unknown): Promise<Message>;
  hangUp(): Promise<void>;
}

export function openStdio(gateway: TestGateway): StdioHost {
  const [input, output] = [new PassThrough(), new PassThrough()];
  let received = '';
  output.setEncoding('utf8').on('data', (text: string) => (received += text));
  const served = serveHostOverStdio(gateway.endpoint.core, input, output);
  const messages = (): Message[] => messagesOfLines(received);
  return {
    write: (text) => void input.write(text),
    send: (message) => void input.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`),
    messages,
    received: () => received,
    answer: (id) => until(() => messages().find((message) => message.id === id)),
    hangUp: () => (input.end(), served),
  };
}

/** The eras and transports by which a request comes. */
export const ways = ['legacy', 'modern', 'legacy over stdio', 'modern over stdio'] as const;

/** Sends one request and resolves to the message that answers it, byte for byte. `params` are JSON text. */
export async function ask(
  gateway: TestGateway,
  way: (typeof ways)[number],
  method: string,
  params = '{}',
): Promise<string> {
  const [era, ...overStdio] = way.split(' ') as [Host['era'], ...string[]];
  const members = params.slice(1, -1);
  const modern = `{${members && `${members},`}"_meta":${JSON.stringify(envelope)}}`;
  const body = `{"jsonrpc":"2.0","id":"asked","method":"${method}","params":${era === 'modern' ? modern : params}}`;
  let lines: string;
  if (overStdio.length > 0) {
    const host = openStdio(gateway);
    host.write(`${body}\n`);
    await host.answer('asked');
    lines = host.received();
    await host.hangUp();
  } else {
    const name = /"name":"([^"]*)"/.exec(params)?.[1];
    const headers =
      era === 'legacy'
        ? { 'mcp-session-id': (await gateway.host('legacy')).session }
        : {
            'mcp-protocol-version': '2026-07-28',
            'mcp-method': method,
            ...(name !== undefined && { 'mcp-name': name }),
          };
    lines = (await gateway.send({ headers, body }).answer).body.replaceAll(/^data: /gm, '');
  }
  return lines.split('\n').find((line) => line.includes('"id":"asked"'))!;
}

/** A log for units that are not asked about theirs. */
export const quiet = { debug() {}, info() {}, warn() {}, error() {} };
