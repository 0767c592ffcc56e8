import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, jest, test } from '@jest/globals';
import { nginxThatLearns, program } from '../servers/index.ts';
import { eventually, freePort } from '../servers/supervised.ts';

// HAProxy and nginx may have to be installed first.
jest.setTimeout(300_000);

const root = join(import.meta.dirname, '../..');
const written = (name: string): string => readFileSync(join(root, 'deploy/ingress', name), 'utf8');
const { parse } = createRequire(join(root, 'libs/connector/package.json'))('yaml') as {
  parse(text: string): unknown;
};

const chart = readFileSync(join(root, 'helm/holdfast/files/sticky-nginx.conf'), 'utf8');

/** One that stands for a gateway. It keeps what it was sent, and does with it what the path says. */
interface Backend {
  readonly port: number;
  readonly seen: string[];
  close(): Promise<void>;
}

async function startBackend(name: string): Promise<Backend> {
  const seen: string[] = [];
  const server: Server = createServer((asked, answer) => {
    const { url, method } = asked;
    if (url === '/readyz') return void answer.end();
    seen.push(`${method} ${url}`);
    if (url === '/breaks') return void asked.socket.destroy();
    if (url === '/initialize') answer.setHeader('Mcp-Session-Id', `session of ${name}`);
    if (url !== '/stream') return void answer.end(name);
    // Goes on only when somebody has read what there was.
    answer.writeHead(200, { 'Content-Type': 'text/event-stream' });
    answer.write('data: first\n\n');
    asked.on('close', () => answer.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    seen,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function ask(port: number, method: string, path: string, session?: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const headers = session === undefined ? {} : { 'Mcp-Session-Id': session };
    const asked = request({ port, host: '127.0.0.1', method, path, headers, agent: false }, resolve);
    asked.on('error', reject);
    asked.end(method === 'POST' ? '{}' : undefined);
  });
}

async function body(answer: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of answer) text += String(chunk);
  return text;
}

const unpacked = mkdtempSync(join(tmpdir(), 'holdfast-nginx-'));
afterAll(() => rmSync(unpacked, { recursive: true, force: true }));
let learning: ReturnType<typeof nginxThatLearns> | undefined;

type Command = readonly [string, ...string[]];
interface Proxy {
  /** Installed, where it is not there. */
  command(): Promise<Command>;
  readonly serve: (file: string) => string[];
  readonly check: (file: string) => string[];
}
const nginx: Omit<Proxy, 'command'> = {
  serve: (file) => ['-c', file, '-g', 'daemon off;'],
  check: (file) => ['-t', '-c', file],
};
const proxies = {
  haproxy: {
    command: async () => [await program('haproxy')],
    serve: (file) => ['-db', '-f', file],
    check: (file) => ['-c', '-V', '-f', file],
  },
  nginx: { ...nginx, command: async () => [await program('nginx')] },
  'nginx that learns': { ...nginx, command: () => (learning ??= nginxThatLearns(unpacked)) },
} satisfies Record<string, Proxy>;
type Name = keyof typeof proxies;

const stops: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

async function start(name: Name, file: string): Promise<{ port: number; backends: [Backend, Backend] }> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-ingress-'));
  stops.push(() => rmSync(folder, { recursive: true, force: true }));
  const backends: [Backend, Backend] = [await startBackend('one'), await startBackend('two')];
  stops.push(async () => {
    for (const backend of backends) await backend.close();
  });
  const port = await freePort();
  const path = join(folder, file);
  const text = written(file)
    .replaceAll('gateway-1:8000', `127.0.0.1:${backends[0].port}`)
    .replaceAll('gateway-2:8000', `127.0.0.1:${backends[1].port}`)
    .replace(/(bind |listen )\S*8080/, `$1127.0.0.1:${port}`)
    .replaceAll('/tmp/', `${folder}/`);
  writeFileSync(path, text);
  const proxy: Proxy = proxies[name];
  const [command, ...before] = await proxy.command();
  const child: ChildProcess = spawn(command, [...before, ...proxy.serve(path)], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr!.on('data', (chunk) => (said += String(chunk)));
  const gone = once(child, 'exit');
  stops.push(async () => {
    child.kill(name === 'haproxy' ? 'SIGKILL' : 'SIGTERM');
    await gone;
  });
  await eventually(`${name} answers`, async () => {
    if (child.exitCode !== null) throw new Error(said);
    return (await ask(port, 'GET', '/proxy-health')).resume().statusCode === 200 ? true : undefined;
  });
  return { port, backends };
}

const sticky: [Name, string][] = [
  ['haproxy', 'haproxy-sticky.cfg'],
  ['nginx that learns', 'nginx-sticky.conf'],
];
const plain: [Name, string][] = [
  ['haproxy', 'haproxy.cfg'],
  ['nginx', 'nginx.conf'],
];
const all = [...plain, ...sticky];

test.each(all)('%s finds no fault in %s', async (name, file) => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-ingress-'));
  stops.push(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, file);
  // nginx looks names up before it says anything.
  writeFileSync(path, written(file).replaceAll(/gateway-\d:8000/g, '127.0.0.1:8000'));
  const proxy: Proxy = proxies[name];
  const [command, ...before] = await proxy.command();
  const { status, stderr } = spawnSync(command, [...before, ...proxy.check(path)], { encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, stderr]);
  expect(stderr).not.toMatch(/\[(WARNING|ALERT|warn|emerg)\]/);
});

test('nginx finds no fault in the one of the chart', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-ingress-'));
  stops.push(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'nginx.conf');
  writeFileSync(path, chart.replace('@RESOLVER@', '127.0.0.1').replace('@GATEWAYS@', 'gateways.test:8000'));
  const [command, ...before] = await proxies['nginx that learns'].command();
  const { status, stderr } = spawnSync(command, [...before, ...nginx.check(path)], { encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, stderr]);
  expect(stderr).not.toMatch(/\[(warn|emerg)\]/);
});

describe.each(all)('%s with %s', (proxy, file) => {
  test('sends a POST that was lost on its way to nobody else', async () => {
    const { port, backends } = await start(proxy, file);
    expect((await ask(port, 'POST', '/breaks')).resume().statusCode).toBe(502);
    // Another one goes through, and would come after what is repeated.
    expect(await body(await ask(port, 'POST', '/fine'))).toMatch(/one|two/);
    expect(backends.flatMap(({ seen }) => seen).filter((line) => line === 'POST /breaks')).toHaveLength(1);
  });

  test('leads everything to the other gateway from the moment on that one takes no connection', async () => {
    const { port, backends } = await start(proxy, file);
    await backends[0].close();
    const answers = await Promise.all(
      Array.from({ length: 20 }, async () => body(await ask(port, 'POST', '/fine'))),
    );
    expect(new Set(answers)).toEqual(new Set(['two']));
  });

  test('passes on what a stream says while it is open', async () => {
    const { port } = await start(proxy, file);
    const answer = await ask(port, 'GET', '/stream');
    const [chunk] = (await once(answer, 'data')) as [Buffer];
    expect(String(chunk)).toContain('data: first');
    answer.destroy();
  });
});

test.each(sticky)(
  '%s with %s leads a session to the gateway that minted its id, and to the other when that is gone',
  async (proxy, file) => {
    const { port, backends } = await start(proxy, file);
    const opened = (await ask(port, 'POST', '/initialize')).resume();
    const session = String(opened.headers['mcp-session-id']);
    const home = session.endsWith('one') ? 'one' : 'two';
    for (let i = 0; i < 20; i++) expect(await body(await ask(port, 'POST', '/call', session))).toBe(home);
    await backends[home === 'one' ? 0 : 1].close();
    const other = home === 'one' ? 'two' : 'one';
    for (let i = 0; i < 20; i++) expect(await body(await ask(port, 'POST', '/call', session))).toBe(other);
  },
);

test.each(plain)('%s with %s has a session served by both gateways', async (proxy, file) => {
  const { port } = await start(proxy, file);
  const answers = new Set<string>();
  await eventually('both have answered', async () => {
    answers.add(await body(await ask(port, 'POST', '/call', 'session of one')));
    return answers.size === 2 ? true : undefined;
  });
});

describe('of two configurations of a proxy', () => {
  const without = (text: string, learning: RegExp): string =>
    text.replace(learning, '').replace(/^(#.*\n)+/, '');

  test.each([
    ['haproxy', 'cfg', /^ {2}# The gateway creates[\s\S]*?stick on req.*\n/m],
    ['nginx', 'conf', /^ {4}# The gateway creates[\s\S]*?header;\n/m],
    ['envoy', 'yaml', /^ {18}# Adds the address[\s\S]*?mcp-session-id \}\n/m],
  ])('the sticky one of %s differs in what makes it stick only', (name, ending, learning) => {
    expect(written(`${name}-sticky.${ending}`)).toMatch(learning);
    expect(without(written(`${name}-sticky.${ending}`), learning)).toBe(
      without(written(`${name}.${ending}`), learning),
    );
  });
});

test('the nginx of the chart differs in how it finds gateways, what the Ingress before it knows, and its size', () => {
  const bare = (text: string): string => text.replaceAll(/^ *(#.*)?\n/gm, '');
  expect(bare(chart)).toBe(
    bare(written('nginx-sticky.conf'))
      .replace(/^( *)server gateway-1:8000(.*);\n.*\n/m, '$1server @GATEWAYS@ resolve$2;\n')
      .replace(/^ *upstream/m, '  resolver @RESOLVER@ valid=2s;\n$&')
      .replace('$scheme', '$http_x_forwarded_proto')
      .replace('worker_processes auto', 'worker_processes 2'),
  );
});

test.each(['envoy.yaml', 'envoy-sticky.yaml'])('%s waits, probes and repeats as the others do', (file) => {
  const { static_resources: made } = parse(written(file)) as {
    static_resources: { clusters: Record<string, unknown>[]; listeners: unknown[] };
  };
  const [cluster] = made.clusters;
  expect(cluster).toMatchObject({
    connect_timeout: '2s',
    close_connections_on_host_health_failure: false,
    health_checks: [{ http_health_check: { path: '/readyz' }, interval: '1s', unhealthy_threshold: 2 }],
  });
  expect(JSON.stringify(cluster)).toContain('"max_requests_per_connection":1');
  const listeners = JSON.stringify(made.listeners);
  expect(listeners).toContain('"retry_on":"connect-failure"');
  expect(listeners).toContain('"stream_idle_timeout":"3600s"');
  expect(listeners.includes('stateful_session')).toBe(file === 'envoy-sticky.yaml');
  // The router ends the chain of filters.
  expect(listeners.lastIndexOf('http.router')).toBeGreaterThan(listeners.lastIndexOf('stateful_session'));
});
