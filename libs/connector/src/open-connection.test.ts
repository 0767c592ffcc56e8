import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from '@jest/globals';
import { ChildGuard } from '@holdfast/mcp-client';
import { connectionOpener } from './open-connection.js';
import { parseServers } from './parse-servers.js';
import { silent } from '../../../test/support/log.ts';

const folder = mkdtempSync(join(tmpdir(), 'holdfast-credentials-'));
const children = new ChildGuard({ log: silent });
afterEach(() => {
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
