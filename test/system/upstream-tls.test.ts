import { writeFileSync } from 'node:fs';
import { connect, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createServer, type Server } from 'node:tls';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createAuthority, type Certificate } from '../servers/certificates.ts';
import { type ScriptableUpstream, tool } from '../servers/index.ts';
import { textOf, type Host } from './host.ts';
import { scratchFolder } from './service.ts';
import { UpstreamFleet } from './upstream-fleet.ts';

const ours = createAuthority('an authority of the company');
const folder = scratchFolder();
const terminators: Server[] = [];
let own: UpstreamFleet;
let host: Host;
let upstream: ScriptableUpstream;

beforeAll(async () => {
  const authority = join(folder.path, 'ca.pem');
  writeFileSync(authority, ours.cert);
  own = await UpstreamFleet.start('standalone', { NODE_EXTRA_CA_CERTS: authority });
  host = await own.fleet.host('modern');
  upstream = await own.upstream({ pages: [[tool('pay')]] });
});
afterAll(async () => {
  await own.dispose();
  for (const terminator of terminators) terminator.close();
  folder.remove();
});

/** Takes TLS off in front of the upstream; resolves to the URL for `localhost`. */
async function behindTls({ cert, key }: Certificate, names: (string | false)[] = []): Promise<string> {
  const terminator = createServer({ cert, key }, (client) => {
    names.push(client.servername ?? false);
    const inner = connect(Number(new URL(upstream.url).port), '127.0.0.1');
    for (const [from, to] of [
      [client, inner],
      [inner, client],
    ] as const) {
      from.on('error', () => to.destroy());
      from.pipe(to);
    }
  });
  terminators.push(terminator);
  await new Promise<void>((resolve) => terminator.listen(0, '127.0.0.1', resolve));
  return `https://localhost:${(terminator.address() as AddressInfo).port}/mcp`;
}

test('an upstream with a certificate of an authority in NODE_EXTRA_CA_CERTS is called over TLS, by its name', async () => {
  const names: (string | false)[] = [];
  await own.connect({ id: 'bank', url: await behindTls(ours.issue('localhost'), names) }, host);
  expect(textOf(await host.call('bank__pay', { n: 1 }))).toBe('{"n":1}');
  expect(upstream.executions.all).toHaveLength(1);
  // The address was looked up and pinned; what the server is asked for is still its name.
  expect(new Set(names)).toEqual(new Set(['localhost']));
});

test.each([
  ['of an authority that nobody named', () => createAuthority('a stranger').issue('localhost')],
  ['for another name', () => ours.issue('bank.example')],
])('one with a certificate %s is not connected, and nothing is sent to it', async (what, certificate) => {
  const before = upstream.accepted;
  // No id is longer.
  const id = what.replaceAll(' ', '-').slice(0, 32);
  own.set({ id, url: await behindTls(certificate()) });
  expect(await own.diagnostic(id)).toMatch(/localhost was not reached: the connection failed \([A-Z_]+\)/);
  expect(upstream.accepted).toBe(before);
});
