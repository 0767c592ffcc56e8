import { describe, expect, test } from '@jest/globals';
import {
  definitions,
  openGateway,
  openStdio,
  until,
  type GatewayChange,
  type StdioHost,
  type TestGateway,
} from './test-gateway.js';

interface Opened extends StdioHost {
  readonly gateway: TestGateway;
}

async function openHost(change: GatewayChange = {}): Promise<Opened> {
  const gateway = await openGateway(change);
  return { ...openStdio(gateway), gateway };
}

async function initialized(change?: GatewayChange): Promise<Opened> {
  const host = await openHost(change);
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 't', version: '1' } };
  host.send({ id: 'init', method: 'initialize', params });
  await host.answer('init');
  host.send({ method: 'notifications/initialized' });
  return host;
}

const envelope = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
};
const call = (id: unknown, meta: object = {}) => ({
  id,
  method: 'tools/call',
  params: { name: 'work', arguments: {}, _meta: meta },
});

describe('a host over stdio', () => {
  test('of the older eras is initialized, lists, calls, and is nobody', async () => {
    const host = await initialized();
    host.gateway.finishAll('done');
    host.send({ id: 1, method: 'tools/list' });
    expect((await host.answer(1)).result!['tools']).toHaveLength(3);
    host.send(call(2));
    expect((await host.answer(2)).result?.content).toEqual([{ type: 'text', text: 'done' }]);
    expect((await host.gateway.runs())[0]!.principal).toBeNull();
  });

  test('of the modern era calls without a handshake', async () => {
    const host = await openHost();
    host.gateway.finishAll('done');
    host.send(call('m', envelope));
    expect((await host.answer('m')).result).toMatchObject({
      resultType: 'complete',
      content: [{ type: 'text', text: 'done' }],
    });
  });

  test('gets progress that rises, before the result', async () => {
    const host = await initialized();
    host.send(call(1, { progressToken: 0 }));
    const claim = await host.gateway.claim();
    await host.gateway.report(claim, 1, 1, 2);
    await host.gateway.finish(claim, 'done');
    await host.answer(1);
    const told = host.messages().slice(1);
    expect(told.map(({ method }) => method ?? 'result')).toEqual([
      ...Array<string>(3).fill('notifications/progress'),
      'result',
    ]);
    const values = told.slice(0, -1).map(({ params }) => params!['progress'] as number);
    expect(values).toEqual([1, expect.closeTo(1), 2]);
    expect(values[1]).toBeGreaterThan(1);
  });

  test.each(['9007199254740993', '-12345678901234567890', '1.5', '"a"', '0', '""'])('gets the id %s back as it sent it', async (id) => {
    const host = await initialized();
    host.gateway.finishAll();
    for (const method of ['ping', 'nothing/here'])
      host.write(`{"jsonrpc":"2.0","id":${id},"method":"${method}"}\n`);
    host.write(`{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"work"}}\n`);
    await until(() => host.messages().length === 4);
    expect(host.received().split(`"id":${id}`).length).toBe(4);
  }); // prettier-ignore

  test('is told what was wrong with a line, under id null, and is served on', async () => {
    const host = await initialized();
    const lines = ['{', '[]', '"x"', 'null', '7', '[{"jsonrpc":"2.0","id":1,"method":"ping"}]', '{}', '{"jsonrpc":"2.0","id":null,"method":"ping"}', '{"jsonrpc":"2.0","id":{},"method":"ping"}', '{"id":1,"method":"ping"}', '{"jsonrpc":"2.0","id":1,"method":7}']; // prettier-ignore
    for (const line of lines) host.write(`${line}\n`);
    host.write('\n  \r\n');
    host.send({ id: 'after', method: 'ping' });
    await host.answer('after');
    const told = host.messages().slice(1, -1);
    expect(told.map(({ id, error }) => [id, error?.code])).toEqual([
      [null, -32700],
      ...Array<unknown>(lines.length - 1).fill([null, -32600]),
    ]);
  });

  test('may cut its lines anywhere and put line separators in its texts', async () => {
    const host = await initialized();
    const message = JSON.stringify({ jsonrpc: '2.0', id: 'é\u2028😀', method: 'ping' });
    const bytes = Buffer.from(`${message}\n`);
    for (const byte of bytes) host.write(Buffer.of(byte) as never);
    expect(await host.answer('é\u2028😀')).toMatchObject({ result: {} });
  });

  test('hears of changed tools: an older host at once, a newer one where it asked for it', async () => {
    const host = await initialized();
    const changed = () =>
      host.messages().filter(({ method }) => method === 'notifications/tools/list_changed');
    host.send({ id: 1, method: 'tools/list' });
    await host.answer(1);
    await host.gateway.store.tools.register('default', []);
    await until(() => changed().length === 1);
    expect(changed()[0]).not.toHaveProperty('params');

    const modern = openStdio(host.gateway);
    const listen = (id: unknown, notifications: unknown): void =>
      modern.send({ id, method: 'subscriptions/listen', params: { notifications, _meta: envelope } });
    listen('all', { toolsListChanged: true, promptsListChanged: true });
    listen('none', {});
    listen('bad', [true]);
    await modern.answer('bad');
    expect(modern.messages()).toMatchObject([
      {
        method: 'notifications/subscriptions/acknowledged',
        params: { notifications: { toolsListChanged: true } },
      },
      { method: 'notifications/subscriptions/acknowledged', params: { notifications: {} } },
      { id: 'none', result: { resultType: 'complete' } },
      { id: 'bad', error: { code: -32602 } },
    ]);
    await host.gateway.store.tools.register('default', definitions);
    await until(() => modern.messages().length === 5);
    expect(modern.messages()[4]).toEqual({
      jsonrpc: '2.0',
      method: 'notifications/tools/list_changed',
      params: { _meta: { 'io.modelcontextprotocol/subscriptionId': 'all' } },
    });
    modern.send({ method: 'notifications/cancelled', params: { requestId: 'all' } });
    await host.gateway.store.tools.register('default', []);
    await until(() => changed().length === 3);
    await modern.hangUp();
    expect(modern.messages()).toHaveLength(5);
  });

  test('may have 1,024 subscriptions, and one more when one has ended', async () => {
    const host = openStdio(await openGateway());
    const listen = (id: number): void => {
      const params = { notifications: { toolsListChanged: true }, _meta: envelope };
      host.send({ id, method: 'subscriptions/listen', params });
    };
    for (let id = 1; id <= 1_025; id++) listen(id);
    expect((await host.answer(1_025)).error?.code).toBe(-32603);
    host.send({ method: 'notifications/cancelled', params: { requestId: 1 } });
    listen(1_026);
    const acknowledged = () => host.messages().filter(({ method }) => method?.endsWith('acknowledged'));
    await until(() => acknowledged().length === 1_025);
    expect(host.messages().filter(({ error }) => error !== undefined)).toHaveLength(1);
  });

  test('says the era of each request in its envelope', async () => {
    const host = openStdio(await openGateway());
    const version = 'io.modelcontextprotocol/protocolVersion';
    const requests = [
      ['server/discover', envelope],
      ['ping', {}],
      ['ping', envelope],
      ['server/discover', {}],
      ['tools/list', { ...envelope, [version]: '2999-01-01' }],
      ['tools/list', { ...envelope, [version]: 7 }],
      ['tools/list', { [version]: '2026-07-28' }],
    ];
    for (const [id, [method, meta]] of requests.entries()) host.send({ id, method, params: { _meta: meta } });
    await until(() => host.messages().length === requests.length);
    const codes = [...host.messages()]
      .sort((a, b) => Number(a.id) - Number(b.id))
      .map(({ error }) => error?.code);
    expect(codes).toEqual([undefined, undefined, -32601, -32601, -32022, -32602, -32602]);
  });

  test('may send a line as long as the limit, and is told of a longer one', async () => {
    const host = await initialized({ settings: { maxBodyBytes: 2_000 } });
    const line = (id: string, bytes: number): string => {
      const text = JSON.stringify({ jsonrpc: '2.0', id, method: 'ping', params: { pad: '' } });
      return text.replace('"pad":""', `"pad":"${'é'.repeat((bytes - text.length) / 2)}"`);
    };
    host.write(`${line('fits', 2_000)}\n`);
    for (let sent = 0; sent < 50; sent++) host.write(line('long', 2_000));
    host.write(`\n${line('longer', 2_002)}\n${line('after', 2_000)}\n`);
    await host.answer('after');
    const told = host.messages().map(({ id, error }) => `${id as string} ${error?.code}`);
    expect(told.sort()).toEqual([
      'after undefined',
      'fits undefined',
      'init undefined',
      'null -32600',
      'null -32600',
    ]);
  });

  test('that cancels gets nothing more, and the run goes on', async () => {
    const host = await initialized();
    host.send(call(1));
    const claim = await host.gateway.claim();
    host.send({ method: 'notifications/cancelled', params: { requestId: 1 } });
    await until(() => host.gateway.waiting() === 0);
    await host.gateway.finish(claim, 'done');
    host.send({ id: 2, method: 'ping' });
    await host.answer(2);
    expect(host.messages().map(({ id }) => id)).toEqual(['init', 2]);
    expect(host.gateway.log).toEqual([]);
  });

  test('that closes its end is gone, and the run goes on', async () => {
    const host = await initialized();
    host.send(call(1));
    await host.gateway.claim();
    await host.hangUp();
    await until(() => host.gateway.waiting() === 0);
    expect((await host.gateway.runs())[0]!.state).toBe('running');
    expect(host.gateway.log).toEqual([]);
  });
});
