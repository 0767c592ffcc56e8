import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { Agent } from 'undici';
import { reset } from '../../../../test/servers/index.js';
import { exchange, type HttpAnswer, type HttpRequest } from './http-exchange.js';
import { bytesUpTo, readText } from './http-body.js';

const agents: Agent[] = [];
const servers: Server[] = [];
const sockets = new Set<Socket>();
let agent: Agent;

beforeEach(() => {
  agent = new Agent({ allowH2: false, pipelining: 1 });
  agents.push(agent);
});
afterEach(async () => {
  for (const one of agents.splice(0)) await one.destroy();
  for (const socket of sockets) socket.destroy();
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve));
});

/** A server that speaks bytes. */
async function serve(on: (socket: Socket) => void): Promise<URL> {
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('close', () => sockets.delete(socket));
    on(socket);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp?x=1`);
}

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

/** One POST, and whether its first byte left. */
function post(
  url: URL,
  rest: Partial<HttpRequest> = {},
): { answer: Promise<HttpAnswer>; isSent: () => boolean } {
  let isSent = false;
  const answer = exchange(agent, {
    method: 'POST',
    url,
    headers: { 'x-key': 'k' },
    body: '{"a":"é"}',
    onFirstByte: () => (isSent = true),
    signal: new AbortController().signal,
    ...rest,
  });
  answer.catch(() => {});
  return { answer, isSent: () => isSent };
}

const textOf = async ({ body }: HttpAnswer): Promise<string> => readText(body, bytesUpTo(1_000));

/** Resolves when the socket has received what matches. */
function received(socket: Socket, pattern: RegExp): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      if (pattern.test(text)) resolve(text);
    });
  });
}

describe('before the first byte', () => {
  test('the connection is open, and nothing was written', async () => {
    const steps: string[] = [];
    const connected = Promise.withResolvers<Socket>();
    const url = await serve((socket) => {
      socket.on('data', () => steps.push('bytes'));
      void received(socket, /\}$/).then(() => socket.write(ok));
      connected.resolve(socket);
    });
    const { answer, isSent } = post(url, {
      beforeFirstByte: async () => {
        const socket = await connected.promise;
        // Bytes that were written already would have come by the time an echo of the server's stack does.
        await new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve)));
        steps.push(`ready after ${socket.bytesRead} bytes`);
      },
      onFirstByte: () => steps.push('sent'),
    });
    expect(await textOf(await answer)).toBe('ok');
    expect(isSent()).toBe(false);
    expect(steps.slice(0, 2)).toEqual(['ready after 0 bytes', 'sent']);
  });

  test('head and body leave together, with the length in bytes', async () => {
    const seen = Promise.withResolvers<string>();
    const url = await serve((socket) => {
      void received(socket, /\}$/).then((text) => {
        seen.resolve(text);
        socket.write(ok);
      });
    });
    await textOf(await post(url).answer);
    expect(await seen.promise).toMatch(
      /^POST \/mcp\?x=1 HTTP\/1\.1\r\n[^]*x-key: k\r\n[^]*content-length: 10\r\n\r\n\{"a":"é"\}$/,
    );
  });

  test('what it throws ends the exchange, and no byte leaves', async () => {
    let bytes = 0;
    const url = await serve((socket) => socket.on('data', (chunk: Buffer) => (bytes += chunk.length)));
    const mine = new Error('the mark is taken');
    const { answer, isSent } = post(url, { beforeFirstByte: () => Promise.reject(mine) });
    await expect(answer).rejects.toBe(mine);
    expect([isSent(), bytes]).toEqual([false, 0]);
  });

  test('an end by the signal keeps every byte back', async () => {
    let bytes = 0;
    const closed = Promise.withResolvers<void>();
    const url = await serve((socket) => {
      socket.on('data', (chunk: Buffer) => (bytes += chunk.length));
      socket.once('close', () => closed.resolve());
    });
    const control = new AbortController();
    const held = Promise.withResolvers<void>();
    const { answer, isSent } = post(url, {
      signal: control.signal,
      beforeFirstByte: () => {
        control.abort(new Error('enough'));
        return held.promise;
      },
    });
    await expect(answer).rejects.toThrow('enough');
    held.resolve();
    await closed.promise;
    expect([isSent(), bytes]).toEqual([false, 0]);
  });

  test('a server that answers before it was asked is not believed', async () => {
    const url = await serve((socket) => socket.write(ok));
    const held = Promise.withResolvers<void>();
    const { answer, isSent } = post(url, { beforeFirstByte: () => held.promise });
    await expect(answer).rejects.toThrow('before it was asked');
    held.resolve();
    expect(isSent()).toBe(false);
  });

  test('a socket that the server resets is not taken for sent', async () => {
    const accepted = Promise.withResolvers<Socket>();
    const url = await serve((socket) => accepted.resolve(socket));
    let tries = 0;
    const { answer, isSent } = post(url, {
      beforeFirstByte: async () => {
        tries += 1;
        const noticed = new Promise((resolve) => agent.once('disconnect', resolve));
        reset(await accepted.promise);
        await noticed;
      },
    });
    await expect(answer).rejects.toThrow();
    expect([isSent(), tries]).toEqual([false, 1]);
  });
});

test('a refused connection is not sent', async () => {
  const url = await serve(() => {});
  await new Promise((resolve) => servers.pop()!.close(resolve));
  const { answer, isSent } = post(url);
  await expect(answer).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  expect(isSent()).toBe(false);
});

test('a TLS handshake that fails is not sent', async () => {
  const url = await serve((socket) => socket.end('this is no TLS'));
  const { answer, isSent } = post(new URL(url.href.replace('http:', 'https:')));
  await expect(answer).rejects.toThrow();
  expect(isSent()).toBe(false);
});

test('a connection that was closed while idle is replaced before anything is sent', async () => {
  let connections = 0;
  const idle = Promise.withResolvers<Socket>();
  const url = await serve((socket) => {
    connections += 1;
    socket.on('data', (chunk: Buffer) => {
      if (chunk.toString().endsWith('}')) socket.write(ok);
    });
    idle.resolve(socket);
  });
  expect(await textOf(await post(url).answer)).toBe('ok');
  const gone = new Promise((resolve) => agent.once('disconnect', resolve));
  reset(await idle.promise);
  await gone;
  const second = post(url);
  expect(await textOf(await second.answer)).toBe('ok');
  expect([connections, second.isSent()]).toEqual([2, true]);
});

test('a connection that is dropped after the request came is sent', async () => {
  const url = await serve((socket) => void received(socket, /\}$/).then(() => reset(socket)));
  const { answer, isSent } = post(url);
  await expect(answer).rejects.toThrow();
  expect(isSent()).toBe(true);
});

test('a body that breaks off is told to whoever reads it', async () => {
  const url = await serve(
    (socket) =>
      void received(socket, /\}$/).then(() => {
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf');
        socket.end();
      }),
  );
  await expect(post(url).answer.then(textOf)).rejects.toThrow();
});

test('the signal ends the reading of a body, and the connection', async () => {
  const closed = Promise.withResolvers<void>();
  const url = await serve((socket) => {
    socket.once('close', () => closed.resolve());
    void received(socket, /\}$/).then(() =>
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf'),
    );
  });
  const control = new AbortController();
  const { body } = await post(url, { signal: control.signal }).answer;
  const reading = readText(body, bytesUpTo(1_000));
  control.abort(new Error('enough'));
  await expect(reading).rejects.toThrow('enough');
  await closed.promise;
});

test('a redirect is an answer like any other', async () => {
  const url = await serve(
    (socket) =>
      void received(socket, /\}$/).then(() =>
        socket.write('HTTP/1.1 307 Over There\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n'),
      ),
  );
  const { status, headers } = await post(url).answer;
  expect([status, headers.location]).toEqual([307, 'http://127.0.0.1:1/']);
});
