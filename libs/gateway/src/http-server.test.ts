import { connect } from 'node:net';
import { once } from 'node:events';
import { afterEach, expect, test } from '@jest/globals';
import type { OpsRoutes } from '@holdfast/ops';
import type { Gateway } from './gateway.js';
import { serveGateway, type GatewayServer } from './http-server.js';

const silent = { debug() {}, info() {}, warn() {}, error() {} };
let server: GatewayServer;
afterEach(() => server.close());

test('a request that has come on an idle connection is answered, though no connection is taken any more', async () => {
  const answering = {
    settings: { host: '127.0.0.1', port: 0, mcpPath: '/mcp' },
    handle: (_req: unknown, res: { end(body: string): void }) => res.end('answered'),
  };
  const routes = {} as OpsRoutes;
  server = await serveGateway(answering as unknown as Gateway, routes, silent);
  const host = connect(server.port, '127.0.0.1');
  await once(host, 'connect');
  const ask = (): boolean => host.write('POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n');
  const answer = async (): Promise<string> => String((await once(host, 'data'))[0]);

  ask();
  expect(await answer()).toContain('answered');
  // It is idle again, and what is written now is there before the server looks.
  ask();
  server.refuse();
  expect(await answer()).toContain('answered');
  // The next time it is idle it is let go; nobody else is let in.
  await once(host, 'close');
  const late = connect(server.port, '127.0.0.1');
  expect(await once(late, 'error')).toEqual([expect.objectContaining({ code: 'ECONNREFUSED' })]);
});
