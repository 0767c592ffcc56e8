import { describe, expect, test } from '@jest/globals';
import {
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
