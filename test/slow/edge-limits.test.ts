import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import { afterAll, afterEach, expect, test } from '@jest/globals';
import { envelope, exchange, openHost, resultOf, textOf, type Answer } from '../system/host.ts';
import {
  scratchFolder,
  startGateway,
  startWorker,
  stopEverything,
  type Listening,
} from '../system/service.ts';

const folder = scratchFolder();
const sockets: Socket[] = [];
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await stopEverything();
});
afterAll(() => folder.remove());

const greedy = 'key-of-the-greedy-caller';
const other = 'key-of-the-other-caller';

/** A gateway with the heap that Node takes in 512 MiB, and a worker beside it. */
async function start(): Promise<Listening> {
  const env = {
    HOLDFAST_STORE: `sqlite:${folder.path}/${crypto.randomUUID()}.db`,
    HOLDFAST_OPS_PORT: '0',
  };
  const gateway = await startGateway({
    ...env,
    NODE_OPTIONS: '--max-old-space-size=256',
    HOLDFAST_PORT: '0',
    HOLDFAST_AUTH: 'keys',
    HOLDFAST_API_KEYS: JSON.stringify({ greedy, other }),
  });
  await startWorker({ ...env, HOLDFAST_TOOLS: `${import.meta.dirname}/../system/tools/large-result.ts` });
  return gateway;
}

const post = ({ base }: Listening, body: string, headers: Record<string, string> = {}): Promise<Answer> =>
  exchange(`${base}/mcp`, {
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      authorization: `Bearer ${greedy}`,
      ...headers,
    },
    body,
  }).answer;

const initialize = (members: string): string =>
  `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",${members}}}`;

/** Sends `count` at once and resolves to how each was answered. */
async function storm(count: number, send: () => Promise<Answer>): Promise<string[]> {
  const answers = await Promise.all(Array.from({ length: count }, send));
  return answers.map(({ status, messages }) => `${status} ${messages[0]?.error?.message ?? ''}`);
}

test('G21 G22 G23 G30: what ended a gateway of 256 MB is refused by its limit, and another caller is served meanwhile', async () => {
  const gateway = await start();
  const host = await openHost('modern', `${gateway.base}/mcp`, other);
  const large = 'x'.repeat(4_000_000);
  const attacks: [number, string, RegExp][] = [
    [60, initialize(`"capabilities":{},"clientInfo":{"name":"n","version":"1","pad":"${large}"}`), /^200 $|^429 .*HOLDFAST_LIMITS_CALLER_REQUEST_BYTES/],
    [20, `{"jsonrpc":"2.0","id":"${large}","method":"ping"}`, /^400 .*256 characters|^429 /],
    [20, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"large","_meta":{"progressToken":"${large}"}}}`, /^400 |^429 /],
    [20, initialize(`"capabilities":{},"clientInfo":[${'{},'.repeat(1_390_000)}{}]`), /^413 .*HOLDFAST_LIMITS_MESSAGE_VALUES|^429 /],
    [20, initialize(`"capabilities":{},"clientInfo":${'{"a":'.repeat(6_000)}1${'}'.repeat(6_000)}`), /^400 .*256 levels/],
  ]; // prettier-ignore
  for (const [count, body, expected] of attacks) {
    const meanwhile = host.call('large', { bytes: 1 });
    for (const said of await storm(count, () => post(gateway, body))) expect(said).toMatch(expected);
    expect(textOf(await meanwhile)).toBe('x');
  }
  expect(gateway.service.isRunning).toBe(true);
});

test('G28: 150 unread repeats of a result of 4 MB do not end a gateway of 256 MB, and another caller is served', async () => {
  const gateway = await start();
  const params = { name: 'large', arguments: { bytes: 4_000_000 } };
  const body = JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { ...params, _meta: { ...envelope, idempotency_key: 'same' } },
  });
  const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'large' };
  expect((await post(gateway, body, headers)).status).toBe(200);
  const { hostname, port } = new URL(`${gateway.base}/mcp`);
  const head = Object.entries({ ...headers, accept: 'application/json', 'content-type': 'application/json' });
  for (let n = 0; n < 150; n++) {
    const socket = createConnection({
      port: Number(port),
      host: hostname,
      readableHighWaterMark: 1,
    } as never);
    sockets.push(socket.on('error', () => {}).pause());
    await once(socket, 'connect');
    const lines = head.map(([name, value]) => `${name}: ${value}\r\n`).join('');
    socket.write(
      `POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${greedy}\r\n${lines}Content-Length: ${body.length}\r\n\r\n${body}`,
    );
  }
  const host = await openHost('modern', `${gateway.base}/mcp`, other);
  expect(textOf(resultOf(await host.begin('large', { bytes: 1 }).answer))).toBe('x');
  expect(gateway.service.isRunning).toBe(true);
});
