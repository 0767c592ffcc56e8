import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, test } from '@jest/globals';
import { createAuthority, type Certificate } from '../servers/certificates.ts';
import { ScriptableUpstream, testDatabase } from '../servers/index.ts';
import { shortSettings } from './fleet.ts';
import { errorNameOf, openHost, textOf, type Host, type ToolResult } from './host.ts';
import {
  freePort,
  scratchFolder,
  Service,
  startConnector,
  startGateway,
  startWorker,
  stopEverything,
  until,
  type Env,
} from './service.ts';
import { toolsOf } from './upstream-fleet.ts';

const folder = scratchFolder();
const upstreams: ScriptableUpstream[] = [];
afterEach(async () => {
  await stopEverything();
  await Promise.all(upstreams.splice(0).map((upstream) => upstream.close()));
});
afterAll(() => folder.remove());

const ours = createAuthority('authority of ours');
const name = 'connector.test';

function file(path: string, text: string): string {
  writeFileSync(join(folder.path, path), text, { mode: 0o600 });
  return join(folder.path, path);
}

/** The settings of mutual TLS, with files of their own. */
function tls(of: string, { cert, key }: Certificate, ca = ours.cert): Env {
  return {
    HOLDFAST_CONNECTOR_TLS_CERT: file(`${of}.cert.pem`, cert),
    HOLDFAST_CONNECTOR_TLS_KEY: file(`${of}.key.pem`, key),
    HOLDFAST_CONNECTOR_TLS_CA: file(`${of}.ca.pem`, ca),
  };
}

interface Deployment {
  readonly env: Env;
  readonly host: Host;
  readonly upstream: ScriptableUpstream;
  readonly connector: Service;
}

/** A connector with one server, a gateway, and no worker. */
async function deploy(security: Env): Promise<Deployment> {
  const upstream = await ScriptableUpstream.start({});
  upstreams.push(upstream);
  const env = {
    ...shortSettings,
    HOLDFAST_STORE: await testDatabase(),
    // Of calls that no connector takes this is all that there is to wait for.
    HOLDFAST_CONNECTOR_WAIT_MS: '3000',
  };
  const servers = JSON.stringify({ servers: [{ id: 'up', url: upstream.url, concurrency: 1 }] });
  const connector = await startConnector({
    ...env,
    ...security,
    HOLDFAST_SERVERS_FILE: file('servers.json', servers),
  });
  const { base } = await startGateway(env);
  const host = await openHost('modern', `${base}/mcp`, 'key-of-desk-in-tests');
  await until(async () => (await toolsOf(host)).some(({ name: listed }) => listed === 'up__echo'), 50);
  return { env, host, upstream, connector };
}

const workerUrl: Env = { HOLDFAST_CONNECTOR_URL: `${name}:50051` };

describe('between worker and connector', () => {
  const token = { HOLDFAST_CONNECTOR_TOKEN: 'the-token-of-this-deployment' };
  const certificates = tls('connector', ours.issue(name));

  test.each<[string, Env]>([
    ['the shared token', token],
    ['mutual TLS', certificates],
    ['mutual TLS by address', tls('address', ours.issue('127.0.0.1'))],
  ])('a call goes through with %s at both ends', async (with_, security) => {
    const { env, host, upstream } = await deploy(security);
    const url = with_.endsWith('address') ? {} : workerUrl;
    const worker = await startWorker({ ...env, ...security, ...url });
    expect(textOf(await host.call('up__echo', { n: 1 }))).toBe('{"n":1}');
    expect(upstream.requests('tools/call')).toHaveLength(1);
    expect(`${worker.stdout}${worker.stderr}`).not.toContain('the-token-of-this-deployment');
  });

  test('nothing is sent for a worker without them, and its call says so', async () => {
    const stranger = createAuthority('authority of a stranger');
    const security = { ...token, ...certificates };
    const worker = tls('worker', ours.issue('worker.test'));
    const wrong: Record<string, [Env, RegExp]> = {
      'no token': [worker, /UNAUTHENTICATED/],
      'another token': [
        { ...worker, HOLDFAST_CONNECTOR_TOKEN: 'another-token-for-another' },
        /UNAUTHENTICATED/,
      ],
      'no certificate': [token, /UNAVAILABLE/],
      'a certificate of a stranger': [
        { ...token, ...tls('stranger', stranger.issue('worker.test')) },
        /UNAVAILABLE/,
      ],
      'a connector of a stranger': [
        { ...token, ...tls('deceived', ours.issue('worker.test'), stranger.cert) },
        /UNAVAILABLE/,
      ],
      'a connector of another name': [
        { ...token, ...worker, HOLDFAST_CONNECTOR_URL: 'other.test:50051' },
        /UNAVAILABLE/,
      ],
    };
    const { env, host, upstream, connector } = await deploy(security);
    const workers = await Promise.all(
      Object.values(wrong).map(([own]) => startWorker({ ...env, ...workerUrl, ...own })),
    );
    const complaints = (): (string | undefined)[] =>
      workers.map(({ log }) => {
        const failure = log.find(({ msg }) => /connector did not answer/.test(String(msg)));
        return failure && JSON.stringify(failure['err']);
      });
    const calls: Promise<ToolResult>[] = [];
    for (const n of workers.keys()) {
      calls.push(host.call('up__echo', { n }));
      // The server takes one call of each, so whoever has one leaves the next to another.
      await until(() => complaints().filter((complaint) => complaint !== undefined).length > n);
    }
    const results = await Promise.all(calls);
    for (const result of results) {
      expect(errorNameOf(result)).toBe('MCPServerUnavailable');
      expect(textOf(result)).toMatch(/no connector takes calls for up; the call was not sent/);
      expect(result._meta?.['holdfast/error']?.outcome).toBe('not_sent');
    }
    for (const [n, [why, [, reason]]] of Object.entries(wrong).entries())
      expect([why, complaints()[n]]).toEqual([why, expect.stringMatching(reason)]);
    expect(upstream.requests('tools/call')).toHaveLength(0);
    expect(`${connector.stdout}${connector.stderr}`).not.toMatch(/the-token-of|another-token/);

    await Promise.all(workers.map((one) => one.kill()));
    await startWorker({ ...env, ...workerUrl, ...worker, ...token });
    expect(textOf(await host.call('up__echo', { n: 9 }))).toBe('{"n":9}');
    expect(upstream.requests('tools/call')).toHaveLength(1);
  }, 120_000);
});

describe('a connector refuses to start', () => {
  const pem = ours.issue(name);
  const missing = join(folder.path, 'missing.pem');
  test.each<[string, Env, RegExp]>([
    [
      'beyond loopback without token and certificates',
      { HOLDFAST_CONNECTOR_BIND: '0.0.0.0:50051', HOLDFAST_CONNECTOR_ADVERTISE: 'connector.test:50051' },
      /HOLDFAST_CONNECTOR_TOKEN: is required where a connector listens on 0\.0\.0\.0/,
    ],
    [
      'on every address without one to tell workers',
      { HOLDFAST_CONNECTOR_BIND: '[::]:50051', HOLDFAST_CONNECTOR_TOKEN: 'the-token-of-this-deployment' },
      /HOLDFAST_CONNECTOR_ADVERTISE: is required/,
    ],
    [
      'with a certificate and no key',
      { HOLDFAST_CONNECTOR_TLS_CERT: missing },
      /HOLDFAST_CONNECTOR_TLS_CERT: goes with HOLDFAST_CONNECTOR_TLS_KEY/,
    ],
    [
      'with a certificate that cannot be read',
      { ...tls('unread', pem), HOLDFAST_CONNECTOR_TLS_CERT: missing },
      /HOLDFAST_CONNECTOR_TLS_CERT: cannot be read/,
    ],
    [
      'with a certificate that is none',
      tls('none', { ...pem, cert: 'no certificate' }),
      /HOLDFAST_CONNECTOR_TLS_CERT/,
    ],
    [
      'with the key of another certificate',
      tls('other', { ...pem, key: ours.issue(name).key }),
      /HOLDFAST_CONNECTOR_TLS_KEY/,
    ],
  ])('%s', async (_, change, message) => {
    const bind = { HOLDFAST_CONNECTOR_BIND: `127.0.0.1:${await freePort()}` };
    const env = { HOLDFAST_STORE: 'sqlite:unused.db', HOLDFAST_OPS_PORT: '0' };
    const service = new Service('connector', { ...env, ...bind, ...change });
    expect(await service.exited).toEqual({ code: 78, signal: null });
    expect(service.stderr).toMatch(message);
  });
});
