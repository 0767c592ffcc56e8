import type { IncomingMessage } from 'node:http';
import { expect, test } from '@jest/globals';
import { connect, messageOf, reply, send, serveHttp } from './test-http.js';

/** A server whose answers set these cookies; `seen` has the cookies of each POST. */
async function balanced(
  setCookie: (request: IncomingMessage) => string[],
): Promise<{ origin: string; seen: (string | undefined)[] }> {
  const seen: (string | undefined)[] = [];
  const { origin } = await serveHttp(async (request, response) => {
    if (request.method === 'POST') seen.push(request.headers.cookie);
    const asked = await messageOf(request);
    const headers = { 'set-cookie': setCookie(request) };
    if (asked === undefined) return reply(response, 405, undefined, headers);
    if (asked.method === 'server/discover') return reply(response, 404, undefined, headers);
    if (asked.id === undefined) return reply(response, 202, undefined, headers);
    const result =
      asked.method === 'initialize'
        ? {
            protocolVersion: '2025-11-25',
            capabilities: { tools: {} },
            serverInfo: { name: 'n', version: '1' },
          }
        : { content: [] };
    reply(response, 200, { jsonrpc: '2.0', id: asked.id, result }, headers);
  });
  return { origin, seen };
}

test('G43: the cookie of a balancer comes back with every later request of the connection', async () => {
  const { origin, seen } = await balanced(() => ['lb=node-2; Path=/; HttpOnly']);
  await send(await connect(`${origin}/mcp`));
  expect(seen).toEqual([undefined, 'lb=node-2', 'lb=node-2', 'lb=node-2']);
  seen.length = 0;
  await connect(`${origin}/mcp`);
  expect(seen[0]).toBeUndefined();
});

test('G43: cookies are replaced, removed, and kept to their path, scheme and host', async () => {
  let given = [
    'a=1',
    'b=2; Path=/other',
    'c=3; Secure',
    'd=4; Domain=elsewhere.example',
    'e=5; Max-Age=0',
    'f=6; Path=/mcp',
  ];
  const { origin, seen } = await balanced(() => given);
  const connection = await connect(`${origin}/mcp`);
  expect(seen.at(-1)).toBe('a=1; f=6');
  given = ['a=9', 'f=; Expires=Thu, 01 Jan 1970 00:00:00 GMT'];
  await send(connection);
  given = [];
  await send(connection);
  expect(seen.at(-1)).toBe('a=9');
});

test('G43: cookies of the operator stay, and are not replaced', async () => {
  const { origin, seen } = await balanced(() => ['lb=node-2', 'mine=theirs']);
  await send(await connect(`${origin}/mcp`, { headers: { Cookie: 'mine=1' } }));
  expect(seen.at(0)).toBe('mine=1');
  expect(seen.at(-1)).toBe('mine=1; lb=node-2');
});

test('G43: what is kept is bounded, in number and size', async () => {
  let count = 0;
  const { origin, seen } = await balanced(() => [
    ...Array.from({ length: 40 }, () => `n${count++}=${'v'.repeat(50)}`),
    `big=${'x'.repeat(5_000)}`,
  ]);
  const connection = await connect(`${origin}/mcp`);
  for (let i = 0; i < 5; i += 1) await send(connection);
  expect(seen.at(-1)!.split('; ').length).toBeLessThanOrEqual(50);
  expect(seen.at(-1)).not.toContain('big=');
});
