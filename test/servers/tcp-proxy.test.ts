import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { type AddressInfo, type Server, type Socket, connect, createServer } from 'node:net';
import { type TcpProxy, startTcpProxy } from './index.ts';

let echo: Server;
let proxy: TcpProxy;
let clients: Socket[];

beforeEach(async () => {
  clients = [];
  echo = createServer((socket) => socket.on('error', () => {}).pipe(socket)).listen(0, '127.0.0.1');
  await once(echo, 'listening');
  proxy = await startTcpProxy({ port: (echo.address() as AddressInfo).port });
});

afterEach(async () => {
  for (const client of clients) client.destroy();
  await proxy.close();
  await new Promise((resolve) => echo.close(resolve));
});

async function dial(): Promise<Socket> {
  const client = connect(proxy.port, '127.0.0.1');
  clients.push(client);
  await once(client, 'connect');
  return client;
}

async function ask(client: Socket, text: string): Promise<string> {
  client.write(text);
  const [answer] = await once(client, 'data');
  return String(answer);
}

test('passes bytes both ways', async () => {
  const client = await dial();
  await expect(ask(client, 'hello')).resolves.toBe('hello');
  expect(proxy.connections).toBe(1);
});

test('passes on the end of a stream after its last byte', async () => {
  const client = await dial();
  client.end('x'.repeat(1_000_000));
  let length = 0;
  for await (const bytes of client) length += (bytes as Buffer).length;
  expect(length).toBe(1_000_000);
});

test('cut resets open connections and lets new ones through', async () => {
  const client = await dial();
  await ask(client, 'hello');
  const broken = once(client, 'data');
  proxy.cut();
  await expect(broken).rejects.toMatchObject({ code: 'ECONNRESET' });
  await expect(ask(await dial(), 'again')).resolves.toBe('again');
});

test('refuse resets only new connections', async () => {
  const open = await dial();
  await ask(open, 'hello');
  proxy.refuse(true);
  const late = connect(proxy.port, '127.0.0.1');
  clients.push(late);
  await expect(once(late, 'data')).rejects.toMatchObject({ code: 'ECONNRESET' });
  await expect(ask(open, 'still here')).resolves.toBe('still here');
  proxy.refuse(false);
  await expect(ask(await dial(), 'welcome')).resolves.toBe('welcome');
});

test('blackhole delays bytes, on old and new connections, until it ends', async () => {
  const open = await dial();
  await ask(open, 'hello');
  proxy.blackhole(true);
  const answers: string[] = [];
  const both = [open, await dial()];
  const arrived = both.map((client, n) => {
    const answer = ask(client, `held ${n}`);
    return answer.then((text) => answers.push(text));
  });
  // Meanwhile, a connection without the proxy completes a round trip, and a slower one.
  const direct = connect((echo.address() as AddressInfo).port, '127.0.0.1');
  clients.push(direct);
  for (let n = 0; n < 20; n += 1) await ask(direct, 'ping');
  expect(answers).toEqual([]);
  proxy.blackhole(false);
  await Promise.all(arrived);
  expect(answers.sort()).toEqual(['held 0', 'held 1']);
});

test('close frees the port', async () => {
  await ask(await dial(), 'hello').catch(() => {});
  for (const client of clients) client.on('error', () => {});
  await proxy.close();
  const late = connect(proxy.port, '127.0.0.1');
  await expect(once(late, 'connect')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
});
