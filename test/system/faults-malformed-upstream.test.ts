import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { tool, type Fault } from '../servers/index.ts';
import { bearer, errorNameOf, exchange, greeting, textOf, type Host } from './host.ts';
import { keys } from './fleet.ts';
import { until } from './service.ts';
import { stdioServer, UpstreamFleet } from './upstream-fleet.ts';

let own: UpstreamFleet;
let host: Host;
const servers: Server[] = [];
beforeAll(async () => {
  own = await UpstreamFleet.start('standalone', { MCP_SECRET: 'hunter2-of-the-child' });
  host = await own.fleet.host('modern');
});
afterAll(async () => {
  await own.dispose();
  for (const server of servers) server.close().closeAllConnections();
});

const printed = (): string => own.services.map(({ stdout, stderr }) => stdout + stderr).join('');

describe('a server on stdio that writes what is no message', () => {
  const noise = String.raw`\ufeffServer ready, key=hunter2\n\n  \r\n\u001b[32minfo\u001b[0m up\n{\"level\":\"info\",\"key\":\"hunter2\"}\n[1]\n42\n\ufeff`;

  test('F89 before its first one: is connected and called, and none of it is in our logs', async () => {
    const [name] = await own.connect(stdioServer('banner', ['echo'], [`--banner=${noise}`]), host);
    expect((await host.call(name!, { n: 1 })).structuredContent!['args']).toEqual({ n: 1 });
    expect(printed()).not.toContain('hunter2');
    expect(printed()).not.toContain('Server ready');
  });

  test('F89 variant: thousands of lines between its answers are counted in a few lines of ours', async () => {
    const [name] = await own.connect(stdioServer('chatty', ['raw']), host);
    const answer = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"heard"}]}}\n';
    const base64 = Buffer.from('DEBUG hunter2\n'.repeat(5_000) + answer).toString('base64');
    expect(textOf(await host.call(name!, { base64 }))).toBe('heard');
    const said = own.services[0]!.log.filter(({ msg }) => /no message of the protocol/.test(String(msg)));
    expect(said.length).toBeLessThan(10);
    expect(printed()).not.toContain('hunter2');
  });
});

describe('a server whose answer to notifications/initialized is odd', () => {
  const odd: [string, Fault['do']][] = [
    ['F90 200 null', { kind: 'raw', body: 'null' }],
    ['F90 200 {}', { kind: 'raw', body: '{}' }],
    ['F90 200 without a body', { kind: 'raw', body: '', headers: { 'Transfer-Encoding': 'chunked' } }],
    ['F90 202 text', { kind: 'raw', status: 202, headers: { 'Content-Type': 'text/plain' }, body: 'ok' }],
    ['F90 200 HTML', { kind: 'raw', headers: { 'Content-Type': 'text/html' }, body: '<html>' }],
    ['F90 variant: 204', { kind: 'status', status: 204 }],
    ['F90 variant: 200 JSON cut off', { kind: 'raw', body: '{"jsonrpc":' }],
    [
      'F90 variant: an answer to a request that was never made',
      { kind: 'raw', body: '{"jsonrpc":"2.0","id":99,"result":{}}' },
    ],
  ];

  test.each(odd)('%s is connected and called', async (title, fault) => {
    const upstream = await own.upstream({ era: 'legacy' });
    upstream.faults.push({ on: 'notifications/initialized', do: fault });
    const id = `odd-${odd.findIndex(([other]) => other === title)}`;
    await own.connect({ id, url: upstream.url }, host);
    expect(textOf(await host.call(`${id}__echo`, { n: 1 }))).toBe('{"n":1}');
  });
});

/** A server of the legacy era that writes its answers as frames of an event stream of its own making. */
async function framing(frame: (json: string) => string): Promise<string> {
  const result: Record<string, object> = {
    initialize: {
      protocolVersion: '2025-06-18',
      capabilities: { tools: {} },
      serverInfo: { name: 'framing', version: '1' },
    },
    'tools/list': { tools: [tool('say').definition] },
    'tools/call': { content: [{ type: 'text', text: 'said' }] },
  };
  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      if (req.method !== 'POST') return void res.writeHead(405).end();
      const { id, method } = JSON.parse(Buffer.concat(chunks).toString()) as { id?: number; method: string };
      if (id === undefined) return void res.writeHead(202).end();
      if (result[method] === undefined) return void res.writeHead(404).end();
      answer(res, JSON.stringify({ jsonrpc: '2.0', id, result: result[method] }));
    });
  });
  const answer = (res: ServerResponse, json: string): void => {
    res.writeHead(200, { 'Content-Type': 'text/event-stream' });
    res.end(frame(json));
  };
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
}

describe('a server that answers by frames', () => {
  const frames: [string, (json: string) => string][] = [
    ['F92 of data alone', (json) => `data: ${json}\n\n`],
    ['F92 of data without a space', (json) => `data:${json}\n\n`],
    ['F92 with an id and no event', (json) => `id: 7\ndata: ${json}\n\n`],
    ['F92 with event: message', (json) => `event: message\ndata: ${json}\n\n`],
    ['F92 with comments between', (json) => `: one\n\n: two\ndata: ${json}\n: three\n\n`],
    ['F92 variant: with line ends of \\r\\n and a BOM', (json) => `\ufeffdata: ${json}\r\n\r\n`],
    ['F92 variant: with line ends of \\r', (json) => `retry: 5\rdata: ${json}\r\r`],
    [
      'F92 variant: over several data lines, behind one of no data',
      (json) => `data\n\ndata: ${json.replace(',', ',\ndata: ')}\n\n`,
    ],
  ];

  test.each(frames)('%s is connected and called', async (title, frame) => {
    const id = `frames-${frames.findIndex(([other]) => other === title)}`;
    const [name] = await own.connect({ id, url: await framing(frame) }, host);
    expect(textOf(await host.call(name!, {}))).toBe('said');
  });
});

describe('a server that answers GET as it should not', () => {
  const answers: [title: string, fault: Fault['do'], most?: number][] = [
    ['F96 200 text', { kind: 'raw', headers: { 'Content-Type': 'text/plain' }, body: 'hello' }],
    ['F96 200 HTML', { kind: 'raw', headers: { 'Content-Type': 'text/html' }, body: '<html>' }],
    ['F96 404', { kind: 'status', status: 404 }],
    ['F96 405', { kind: 'status', status: 405 }],
    ['F96 501', { kind: 'status', status: 501 }],
    ['F96 variant: an event stream that ends at once', { kind: 'drop-mid-stream' }, 6],
    // Each try follows five times.
    ['F96 variant: 307 to itself', { kind: 'redirect', status: 307, location: '{self}/mcp' }, 4 * 6],
  ];

  test('F96 is asked a few times at most, with rising delay, and is called meanwhile', async () => {
    const givenUp = (): number =>
      own.services[0]!.log.filter(({ msg }) => msg === 'upstream server offers no stream of changes').length;
    const before = givenUp();
    const asked = await Promise.all(
      answers.map(async ([, fault], i) => {
        const upstream = await own.upstream({ era: 'legacy' });
        upstream.faults.push({ on: 'GET', do: fault });
        await own.connect({ id: `get-${i}`, url: upstream.url }, host);
        return () => upstream.log.filter(({ http }) => http === 'GET').length;
      }),
    );
    // All but the one whose streams end, which is asked after 1, 2, 4, … seconds.
    await until(() => givenUp() >= before + answers.length - 1);
    for (const [i, [title, , most = 4]] of answers.entries()) {
      const count = asked[i]!();
      expect([title, count <= most, count]).toEqual([title, true, count]);
      expect(textOf(await host.call(`get-${i}__echo`, {}))).toBe('{}');
    }
  });

  test('F96 as a server: GET is a stream for a session and 405 for hosts of today, and never 200 of text', async () => {
    const headers = { ...bearer(keys.desk), accept: 'text/event-stream' };
    const modern = { ...headers, 'mcp-protocol-version': '2026-07-28' };
    const answer = await exchange(own.fleet.url(), { method: 'GET', headers: modern }).answer;
    expect(answer.status).toBe(405);
    expect(answer.headers['allow']).toMatch(/POST/);
    const { session } = await own.fleet.host('legacy');
    const stream = exchange(own.fleet.url(), {
      method: 'GET',
      headers: { ...headers, 'mcp-session-id': session!, 'mcp-protocol-version': '2025-11-25' },
    });
    await until(() => stream.received() !== '');
    stream.cut();
    const plain = { ...headers, accept: 'text/html', 'mcp-session-id': session! };
    expect((await exchange(own.fleet.url(), { method: 'GET', headers: plain }).answer).status).toBe(406);
  });
});

describe('a server on stdio that dies while it is connected', () => {
  test('F97 is told at once by its exit code and its last words, without secrets', async () => {
    const { args, ...entry } = stdioServer('dying', ['echo']);
    own.set({
      ...entry,
      args: [args[0], '--die=7:cannot open the vault with hunter2-of-the-child, giving up'],
      env: { VAULT: '${env:MCP_SECRET}' },
      connect_retries: 1,
      // Longer than this test may take: whoever waited for it would not be done.
      connect_timeout: 120,
    });
    const said = await own.diagnostic('dying');
    expect(said).toMatch(/exited with code 7/);
    expect(said).toMatch(/cannot open the vault with \*\*\*, giving up/);
    expect(printed()).not.toContain('hunter2-of-the-child');
  });

  test('F97 variant: in the middle of a call, whose caller hears it at once; the next call has a new child', async () => {
    await own.connect(stdioServer('fragile', ['exit', 'pid', 'silent', 'seen']), host);
    const pid = async (): Promise<number> =>
      (await host.call('fragile__pid', {})).structuredContent!['pid'] as number;
    /** Begins a call that is never answered, and waits until the child has it. */
    const hang = async (): Promise<ReturnType<Host['begin']>> => {
      const call = host.begin('fragile__silent', {});
      await until(async () =>
        JSON.stringify((await host.call('fragile__seen', {})).structuredContent).includes('"silent"'),
      );
      return call;
    };
    const first = await pid();
    const hanging = await hang();
    const exiting = await host.call('fragile__exit', { code: 3, stderr: 'out of memory\n' });
    for (const result of [exiting, (await hanging.answer).messages.at(-1)!.result!]) {
      expect(errorNameOf(result)).toBe('MCPCallOutcomeUnknown');
      expect(textOf(result)).toMatch(/exited with code 3.*out of memory/s);
    }
    const second = await pid();
    expect(second).not.toBe(first);
    const killed = await hang();
    process.kill(second, 'SIGKILL');
    expect(textOf((await killed.answer).messages.at(-1)!.result!)).toMatch(/ended by SIGKILL/);
    expect(await pid()).not.toBe(second);
  });
});

describe('a request without its session', () => {
  test('F99 as a server: 400 with a hint after initialize, and no session is made', async () => {
    const auth = bearer(keys.desk);
    const opened = await exchange(own.fleet.url(), greeting('legacy', auth)).answer;
    expect(opened.status).toBe(200);
    for (const body of [
      { jsonrpc: '2.0', method: 'notifications/initialized' },
      { jsonrpc: '2.0', id: 1, method: 'tools/list' },
    ]) {
      const headers = { ...greeting('legacy', auth).headers };
      const answer = await exchange(own.fleet.url(), { headers, body }).answer;
      expect(answer.status).toBe(400);
      expect(answer.body).toMatch(/mcp-session-id/i);
      expect(answer.headers['mcp-session-id']).toBeUndefined();
    }
  });

  test('F99 as a client: an upstream that gives no session id is connected and called without one', async () => {
    const upstream = await own.upstream({ era: 'legacy', sessions: false });
    await own.connect({ id: 'sessionless', url: upstream.url }, host);
    expect(textOf(await host.call('sessionless__echo', { n: 1 }))).toBe('{"n":1}');
    expect(upstream.log.every(({ headers }) => !('mcp-session-id' in headers))).toBe(true);
  });

  test('F99 variant: an upstream with an empty session id, and one whose id no header could carry back', async () => {
    const empty = await own.upstream({ era: 'legacy', sessions: false });
    const initialized =
      '{"jsonrpc":"2.0","id":{id},"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}'; // prettier-ignore
    const answering = (session: string): Fault => ({
      on: 'initialize',
      do: { kind: 'raw', headers: { 'Mcp-Session-Id': session }, body: initialized },
    });
    empty.faults.push(answering(''));
    await own.connect({ id: 'empty-session', url: empty.url }, host);
    expect(textOf(await host.call('empty-session__echo', {}))).toBe('{}');
    const odd = await own.upstream({ era: 'legacy', sessions: false });
    odd.faults.push(answering('caf\u00e9 1'));
    own.set({ id: 'odd-session', name: 'Odd session', url: odd.url });
    expect(await own.diagnostic('odd-session')).toMatch(/session id that is not visible ASCII/);
  });
});

describe('answers that are not to what was asked', () => {
  test('F144 ids given back as text are ours, unknown ones are ignored, and a second answer too', async () => {
    await own.connect(stdioServer('texts', ['echo'], ['--string-ids']), host);
    expect((await host.call('texts__echo', { n: 1 })).structuredContent!['args']).toEqual({ n: 1 });
    await own.connect(stdioServer('twice', ['raw', 'echo']), host);
    const answer = (id: string, text: string): string =>
      `{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":"${text}"}]}}\n`;
    const lines = answer('999999', 'nobody') + answer('ID', 'first') + answer('ID', 'second');
    const base64 = Buffer.from(lines).toString('base64');
    expect(textOf(await host.call('twice__raw', { base64 }))).toBe('first');
    expect((await host.call('twice__echo', { n: 2 })).structuredContent!['args']).toEqual({ n: 2 });
  });

  test.each([
    ['an id of another', '{"jsonrpc":"2.0","id":"other","result":{}}'],
    ['no id', '{"jsonrpc":"2.0","result":{}}'],
    ['the request itself', '{"jsonrpc":"2.0","id":{id},"method":"tools/call"}'],
    ['neither result nor error', '{"jsonrpc":"2.0","id":{id}}'],
    ['HTML', '<html>welcome, hunter2</html>'],
    ['nothing', ''],
  ])('F144 variant: over HTTP %s fails the call at once, once, without the text', async (what, body) => {
    const upstream = await own.upstream({ pages: [[tool('pay')]] });
    upstream.faults.push({ on: 'tools/call', do: { kind: 'raw', body } });
    const id = `not-${what.replaceAll(' ', '-')}`.toLowerCase();
    await own.connect({ id, url: upstream.url }, host);
    const result = await host.call(`${id}__pay`, {});
    expect(errorNameOf(result)).toBe('MCPCallOutcomeUnknown');
    expect(textOf(result)).not.toContain('hunter2');
    expect(upstream.executions.all).toHaveLength(1);
  });
});
