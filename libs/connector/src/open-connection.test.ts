import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from '@jest/globals';
import { ChildGuard } from '@holdfast/mcp-client';
import { connectionOpener } from './open-connection.js';
import { parseServers } from './parse-servers.js';
import { afterTest } from '../../../test/support/after-test.ts';
import { silent } from '../../../test/support/log.ts';

const folder = mkdtempSync(join(tmpdir(), 'holdfast-credentials-'));
const children = new ChildGuard({ log: silent });
afterAll(() => {
  children.close();
  rmSync(folder, { recursive: true });
});

test('a credentials module that hangs is not waited for by who has given up already', async () => {
  const module = join(folder, 'hangs.mjs');
  writeFileSync(module, 'export default () => new Promise(() => {});');
  const entry = { id: 'crm', url: 'http://127.0.0.1:1/mcp', credentials: { per: 'principal', module } };
  const parsed = parseServers(JSON.stringify({ servers: [entry] }), {
    stdioEnabled: false,
    legacySse: false,
    isProduction: false,
    approvalMode: 'guarded',
  });
  if (typeof parsed === 'string') throw new Error(parsed);
  const open = connectionOpener({
    guard: { allowLoopback: true, requireAllowedHosts: false, network: 'on' },
    placeholders: { node: process.execPath, python: 'python3', repo: folder, home: folder, environment: {} },
    children,
    version: '1',
    log: silent,
  });
  const principal = { realm: 'apikey', id: 'desk' };
  await expect(open(parsed.servers[0]!, principal, AbortSignal.abort())).rejects.toMatchObject({
    code: 'variable',
    message: 'crm: its credentials module gave no headers for this caller',
  });
});

test('G70: of many servers over stdio a few start at a time, until all of them are connected', async () => {
  const own = mkdtempSync(join(tmpdir(), 'holdfast-starts-'));
  const guard = new ChildGuard({ log: silent });
  afterTest(() => (guard.close(), rmSync(own, { recursive: true })));
  const events = join(own, 'events');
  const scripted = fileURLToPath(new URL('../../../test/servers/stdio-upstream.mjs', import.meta.url));
  const ids = Array.from({ length: 8 }, (_, i) => `s${i}`);
  const script = 'echo start >> "$0"; exec "$1" "$2"';
  const args = ['-c', script, events, process.execPath, scripted];
  const parsed = parseServers(
    JSON.stringify({ servers: ids.map((id) => ({ id, command: 'sh', args: [...args, id] })) }),
    { stdioEnabled: true, legacySse: false, isProduction: false, approvalMode: 'guarded' },
  );
  if (typeof parsed === 'string') throw new Error(parsed);
  const open = connectionOpener({
    guard: { allowLoopback: true, requireAllowedHosts: false, network: 'on' },
    placeholders: { node: process.execPath, python: 'python3', repo: own, home: own, environment: {} },
    children: guard,
    version: '1',
    log: silent,
    startsAtOnce: 2,
  });
  await Promise.all(
    parsed.servers.map(async (server) => {
      const connection = await open(server, null, new AbortController().signal);
      appendFileSync(events, 'done\n');
      afterTest(() => connection.close());
    }),
  );
  let starting = 0;
  const atOnce = readFileSync(events, 'utf8').trim().split('\n').map((event) => (starting += event === 'start' ? 1 : -1)); // prettier-ignore
  expect(atOnce).toHaveLength(2 * ids.length);
  expect(Math.max(...atOnce)).toBe(2);
  // One that waits for its turn can be given up.
  await expect(open(parsed.servers[0]!, null, AbortSignal.abort())).rejects.toThrow('the caller gave up');
});
