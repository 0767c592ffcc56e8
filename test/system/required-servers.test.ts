import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { ScriptableUpstream } from '../servers/index.ts';
import { shortSettings } from './fleet.ts';
import { scratchFolder, Service, startStandalone, stopEverything } from './service.ts';

const folder = scratchFolder();
afterAll(async () => {
  await stopEverything();
  folder.remove();
});

function settings(url: string): Record<string, string> {
  const path = join(folder.path, 'servers.yaml');
  writeFileSync(
    path,
    `servers:
  - id: needed
    url: ${url}
    required: true
    connect_retries: 2
    connect_backoff: 0.05
`,
  );
  return {
    ...shortSettings,
    HOLDFAST_AUTH: 'none',
    HOLDFAST_ADMIN_KEYS: '',
    HOLDFAST_STORE: `sqlite:${join(folder.path, 'holdfast.db')}`,
    HOLDFAST_SERVERS_FILE: path,
  };
}

test('a required server that cannot be connected ends the start, naming it (X7)', async () => {
  const service = new Service('standalone', { HOLDFAST_PORT: '0', ...settings('http://127.0.0.1:1/mcp') });
  expect((await service.exited).code).toBe(1);
  expect(service.stderr).toMatch(/a required server is not connected: needed: .*127\.0\.0\.1/);
});

test('a service is ready once its required servers are connected', async () => {
  const upstream = await ScriptableUpstream.start();
  const { service } = await startStandalone(settings(upstream.url));
  expect(service.log.some(({ msg }) => msg === 'server connected')).toBe(true);
  expect(await service.stop()).toBe(0);
  await upstream.close();
});
