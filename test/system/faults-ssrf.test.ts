import { createServer, type AddressInfo, type Server } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { tool } from '../servers/index.ts';
import { errorNameOf, type Host } from './host.ts';
import { toolsOf, UpstreamFleet } from './upstream-fleet.ts';

let own: UpstreamFleet;
let host: Host;
/** Sees whether anybody connects to loopback. */
let sentinel: Server;
let port: number;
let visitors = 0;
beforeAll(async () => {
  own = await UpstreamFleet.start('standalone');
  host = await own.fleet.host('modern');
  sentinel = createServer((socket) => {
    visitors++;
    socket.destroy();
  });
  await new Promise<void>((resolve) => sentinel.listen(0, '0.0.0.0', resolve));
  ({ port } = sentinel.address() as AddressInfo);
});
afterAll(async () => {
  await own.dispose();
  sentinel.close();
});

const spellings = ['0.0.0.0', '[::ffff:127.0.0.1]', '2130706433', '0x7f.1', '0177.0.0.1'];

describe('a URL that means loopback by another spelling', () => {
  test.each(spellings)('F124 %s is refused, and loopback sees no connection', async (spelling) => {
    const id = `spelt-${spellings.indexOf(spelling)}`;
    own.set({ id, url: `https://${spelling}:${port}/mcp`, connect_retries: 1 });
    expect(await own.diagnostic(id)).toMatch(/the address guard refuses the host/);
    expect((await toolsOf(host)).filter(({ name }) => name.startsWith(id))).toEqual([]);
    expect(visitors).toBe(0);
  });

  test.each(spellings)(
    'F124 variant: %s is refused too where plain http and that very host are allowed',
    async (spelling) => {
      const id = `allowed-${spellings.indexOf(spelling)}`;
      const { hostname } = new URL(`http://${spelling}`);
      own.set({
        id,
        url: `http://${spelling}:${port}/mcp`,
        allow_http: true,
        allowed_hosts: [hostname, spelling],
        connect_retries: 1,
      });
      expect(await own.diagnostic(id)).toMatch(/the address guard refuses the host/);
      expect(visitors).toBe(0);
    },
  );

  test('F124 variant: a redirect of a call to loopback, and to where a cloud keeps its credentials, is not followed', async () => {
    const upstream = await own.upstream({ pages: [[tool('pay')]] });
    await own.connect({ id: 'redirecting', url: upstream.url }, host);
    for (const location of [
      `http://127.0.0.1:${port}/mcp`,
      `http://0.0.0.0:${port}/mcp`,
      'http://169.254.169.254/latest/meta-data/',
      'file:///etc/passwd',
      '//localhost/x',
    ]) {
      upstream.faults.splice(0);
      upstream.faults.push({ on: 'tools/call', do: { kind: 'redirect', status: 307, location } });
      const result = await host.call('redirecting__pay', {});
      expect([location, errorNameOf(result)]).toEqual([location, 'MCPConnectionError']);
    }
    expect([visitors, upstream.executions.all.length]).toEqual([0, 0]);
  });
});

describe('an operator who lists hosts', () => {
  test('F124 variant: gets no other, however the name is spelt', async () => {
    for (const [i, url] of [
      `http://localhost:${port}/mcp`,
      'https://mcp.example.com.evil.example/mcp',
      'https://mcp.example.com@evil.example/mcp',
      'https://evil.example\\@mcp.example.com/mcp',
    ].entries()) {
      own.set({ id: `listed-${i}`, url, allowed_hosts: ['mcp.example.com'], connect_retries: 1 });
      expect(await own.diagnostic(`listed-${i}`)).toBeDefined();
    }
    expect(visitors).toBe(0);
  });
});
