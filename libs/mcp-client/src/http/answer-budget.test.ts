import type { ServerResponse } from 'node:http';
import { expect, test } from '@jest/globals';
import { connect, messageOf, reply, send, serveHttp } from './test-http.js';

const piece = Buffer.alloc(1024 * 1024, 'x');

/** A server whose answer to a call is written by `answer`, with the bytes that it could write. */
async function serverOf(
  answer: (response: ServerResponse, id: unknown, written: (bytes: number) => void) => void,
) {
  let bytes = 0;
  const { origin } = await serveHttp(async (request, response) => {
    const asked = await messageOf(request);
    if (asked === undefined) return reply(response, 405);
    if (asked.method === 'server/discover') return reply(response, 404);
    if (asked.id === undefined) return reply(response, 202);
    if (asked.params?.['name'] === 'large') return answer(response, asked.id, (more) => (bytes += more));
    const result =
      asked.method === 'initialize'
        ? {
            protocolVersion: '2025-11-25',
            capabilities: { tools: {} },
            serverInfo: { name: 'n', version: '1' },
          }
        : { content: [{ type: 'text', text: 'small' }] };
    reply(response, 200, { jsonrpc: '2.0', id: asked.id, result });
  });
  return { origin, bytes: () => bytes };
}

/** Writes up to 2 GB, as fast as it is read. */
function endless(response: ServerResponse, start: string, written: (bytes: number) => void): void {
  response.write(start);
  let left = 2_000;
  const write = (): void => {
    while (left-- > 0 && !response.destroyed) {
      written(piece.length);
      if (!response.write(piece)) return void response.once('drain', write);
    }
  };
  write();
}

test.each([
  ['one event of a stream', 'text/event-stream', 'data: {"jsonrpc":"2.0","result":{"text":"'],
  ['JSON', 'application/json', '{"jsonrpc":"2.0","result":{"text":"'],
])(
  'G57: five answers of 2 GB at once, each %s, are not read beyond what is kept',
  async (_what, type, start) => {
    const { origin, bytes } = await serverOf((response, _id, written) => {
      response.writeHead(200, { 'content-type': type });
      endless(response, start, written);
    });
    const connections = await Promise.all(
      Array.from({ length: 5 }, () => connect(origin, { maxAnswerBytes: 4 * 1024 * 1024 })),
    );
    const calls = connections.map((connection) => send(connection, { tool: 'large' }, { timeoutMs: 30_000 }));
    for (const sent of await Promise.all(calls))
      expect(sent).toMatchObject({
        kind: 'lost',
        why: 'dropped',
        reason: expect.stringContaining('size limit'),
      });
    expect(bytes()).toBeLessThan(200 * 1024 * 1024);
  },
);

test('G57: answers under way share a limit, and it is free again after them', async () => {
  const { origin, bytes } = await serverOf((response, _id, written) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    endless(response, '"', written);
  });
  const connections = await Promise.all(
    Array.from({ length: 5 }, () => connect(origin, { maxAnswerBytes: 2 ** 40 })),
  );
  const calls = connections.map((connection) => send(connection, { tool: 'large' }, { timeoutMs: 30_000 }));
  for (const sent of await Promise.all(calls))
    expect(sent).toMatchObject({ kind: 'lost', reason: expect.stringContaining('limit of the connector') });
  expect(bytes()).toBeLessThan(600 * 1024 * 1024);
  expect(await send(await connect(origin))).toMatchObject({ kind: 'result' });
});

test.each([
  ['empty objects', '{},', 3_000_000],
  ['small texts', '{"type":"text","text":"x"},', 300_000],
  ['numbers', '1,', 3_000_000],
  ['lists', '[[]],', 1_000_000],
])(
  'G24: an answer of many %s is refused before it is parsed, as JSON and as an event',
  async (_what, part, count) => {
    const many = part.repeat(count);
    let isStream = false;
    const { origin } = await serverOf((response, id) => {
      const text = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"content":[${many.slice(0, -1)}]}}`;
      response.writeHead(200, { 'content-type': isStream ? 'text/event-stream' : 'application/json' });
      response.end(isStream ? `data: ${text}\n\n` : text);
    });
    for (isStream of [false, true]) {
      const connection = await connect(origin);
      expect(await send(connection, { tool: 'large' })).toMatchObject({
        kind: 'lost',
        why: 'dropped',
        reason: expect.stringContaining('values'),
      });
    }
  },
);

test('G24: punctuation inside texts is no value', async () => {
  const text = ',{["\\'.repeat(100_000);
  const { origin } = await serverOf((response, id) =>
    reply(response, 200, { jsonrpc: '2.0', id, result: { content: [{ type: 'text', text }] } }),
  );
  expect(await send(await connect(origin), { tool: 'large' })).toMatchObject({
    kind: 'result',
    result: { content: [{ text }] },
  });
});
