import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { createServer, request as requestTls, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { tool } from '../servers/index.ts';
import { bearer, eras, errorNameOf, greeting, textOf, type Host } from './host.ts';
import { keys } from './fleet.ts';
import { UpstreamFleet } from './upstream-fleet.ts';

let own: UpstreamFleet;
let host: Host;
beforeAll(async () => {
  own = await UpstreamFleet.start('standalone', {
    MCP_TOKEN: 'hunter2-in-a-header',
    HOLDFAST_ALLOWED_HOSTS: 'mcp.example.com,127.0.0.1',
  });
  host = await own.fleet.host('modern');
});
afterAll(() => own.dispose());

const secret = 'hunter2-in-a-header';
const headers = { Authorization: 'Bearer ${env:MCP_TOKEN}', 'X-Api-Key': '${env:MCP_TOKEN}' };

describe('an upstream that redirects to another origin', () => {
  test.each([
    [302, 'MCPCallOutcomeUnknown', 'unknown'],
    [307, 'MCPConnectionError', 'refused'],
    [308, 'MCPConnectionError', 'refused'],
  ])(
    'F104 with %i on a call: the other never sees a header, and the call ends as %s',
    async (status, name, outcome) => {
      const foreign = await own.upstream();
      const upstream = await own.upstream({ pages: [[tool('pay')]] });
      const id = `redirect-${status}`;
      await own.connect({ id, url: upstream.url, headers }, host);
      expect(upstream.requests('tools/list')[0]!.headers['x-api-key']).toBe(secret);
      for (const location of [
        foreign.url,
        foreign.url.replace('127.0.0.1', 'localhost'),
        foreign.url.replace('http:', 'https:'),
      ]) {
        upstream.faults.splice(0);
        upstream.faults.push({ on: 'tools/call', do: { kind: 'redirect', status, location } });
        const result = await host.call(`${id}__pay`, {});
        expect(errorNameOf(result)).toBe(name);
        expect(result._meta!['holdfast/error']!.outcome).toBe(outcome);
        expect(JSON.stringify(result)).not.toContain(secret);
      }
      expect([foreign.accepted, upstream.executions.all.length]).toEqual([0, 0]);
    },
  );

  test.each(['server/discover', 'initialize', 'tools/list'])(
    'F104 variant: with 307 on %s is not connected, and the other sees nothing',
    async (on) => {
      const foreign = await own.upstream();
      const upstream = await own.upstream({ era: on === 'initialize' ? 'legacy' : 'both' });
      upstream.faults.push({ on, do: { kind: 'redirect', status: 307, location: foreign.url } });
      if (on === 'server/discover')
        upstream.faults.push({
          on: 'initialize',
          do: { kind: 'redirect', status: 308, location: foreign.url },
        });
      const id = `moved-${on.replace(/\W/g, '-').toLowerCase()}`;
      own.set({ id, url: upstream.url, headers });
      expect(await own.diagnostic(id)).not.toContain(secret);
      expect(foreign.accepted).toBe(0);
    },
  );

  test('F104 variant: to itself with 307 is followed, with its headers, and executed once; 302 is not, and says nothing of the call', async () => {
    const upstream = await own.upstream({ pages: [[tool('pay')]] });
    await own.connect({ id: 'itself', url: upstream.url, headers }, host);
    const on = 'tools/call';
    upstream.faults.push({ on, times: 1, do: { kind: 'redirect', status: 307, location: '{self}/mcp' } });
    expect(textOf(await host.call('itself__pay', { n: 1 }))).toBe('{"n":1}');
    expect(upstream.requests(on).map(({ headers: sent }) => sent['x-api-key'])).toEqual([secret, secret]);
    expect(upstream.executions.all).toHaveLength(1);
    upstream.faults.push({ on, times: 1, do: { kind: 'redirect', status: 302, location: '{self}/mcp' } });
    expect(errorNameOf(await host.call('itself__pay', { n: 2 }))).toBe('MCPCallOutcomeUnknown');
    expect(upstream.executions.all).toHaveLength(1);
  });
});

describe('behind a proxy that ends TLS', () => {
  let proxy: Server;
  let certificate: string;
  beforeAll(async () => {
    const [key, cert] = ['key', 'cert'].map((name) => join(own.fleet.folder, `${name}.pem`)) as [
      string,
      string,
    ];
    execFileSync('openssl', [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '1'],
      ...['-subj', '/CN=mcp.example.com', '-addext', 'subjectAltName=DNS:mcp.example.com'],
      ...['-keyout', key, '-out', cert],
    ], { stdio: 'ignore' }); // prettier-ignore
    certificate = readFileSync(cert, 'utf8');
    proxy = createServer({ key: readFileSync(key), cert: certificate }, (req, res) => {
      const forwarded = {
        ...req.headers,
        'x-forwarded-proto': 'https',
        'x-forwarded-host': req.headers.host,
        'x-forwarded-for': '203.0.113.7',
      };
      const { origin } = new URL(own.fleet.url());
      const on = request(origin + req.url!, { method: req.method, headers: forwarded }, (answer) => {
        res.writeHead(answer.statusCode!, answer.headers);
        answer.pipe(res);
      });
      req.pipe(on);
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  });
  afterAll(() => {
    proxy.close().closeAllConnections();
  });

  function post(
    path: string,
    sent: ReturnType<typeof greeting>,
  ): Promise<{ status: number; headers: object; body: string }> {
    return new Promise((resolve, reject) => {
      const { port } = proxy.address() as AddressInfo;
      const options = { host: '127.0.0.1', port, path, method: sent.method ?? 'POST', ca: certificate, servername: 'mcp.example.com', agent: false as const }; // prettier-ignore
      const req = requestTls({ ...options, headers: { ...sent.headers, host: 'mcp.example.com' } }, (res) => {
        let body = '';
        res.setEncoding('utf8').on('data', (text: string) => (body += text));
        res.on('end', () => resolve({ status: res.statusCode!, headers: res.headers, body }));
      });
      req.on('error', reject).end(sent.body === undefined ? undefined : JSON.stringify(sent.body));
    });
  }

  test.each(eras)('F106 /mcp and /mcp/ are both served to a %s host, without a redirect', async (era) => {
    for (const path of ['/mcp', '/mcp/']) {
      const { status, headers, body } = await post(path, greeting(era, bearer(keys.desk)));
      expect([path, status]).toEqual([path, 200]);
      expect(headers).not.toHaveProperty('location');
      expect(body).toContain('"result"');
    }
  });

  test('F106 variant: without a token both are 401 with a challenge, and other methods 405, never 3xx', async () => {
    for (const path of ['/mcp', '/mcp/', '/mcp?x=1', '/mcp/?x=1']) {
      const refused = await post(path, greeting('modern'));
      expect([path, refused.status]).toEqual([path, 401]);
      expect(refused.headers).toHaveProperty('www-authenticate');
      const put = await post(path, { method: 'PUT', headers: bearer(keys.desk) });
      expect([path, put.status]).toEqual([path, 405]);
    }
  });
});
