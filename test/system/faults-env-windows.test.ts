import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Host } from './host.ts';
import { root } from './service.ts';
import { stdioServer, UpstreamFleet } from './upstream-fleet.ts';

let own: UpstreamFleet;
let host: Host;
/** What a deployment has in its environment and no child may have. */
const ours = {
  DATABASE_URL: 'postgres://u:hunter2@db/x',
  GITHUB_TOKEN: 'hunter2',
  KUBERNETES_SERVICE_HOST: '10.0.0.1',
  OTEL_EXPORTER_OTLP_HEADERS: 'api-key=hunter2',
  EDITOR: 'vi',
  MCP_OWN: 'of-the-child',
};
const safe = ['PATH', 'HOME', 'TMPDIR', 'LANG', 'LC_ALL'];

beforeAll(async () => {
  own = await UpstreamFleet.start('standalone', { ...ours, NODE_ENV: 'production' });
  host = await own.fleet.host('modern');
});
afterAll(() => own.dispose());

async function environmentWith(id: string, settings: object): Promise<Record<string, string>> {
  await own.connect({ ...stdioServer(id, ['environment']), ...settings }, host);
  return (await host.call(`${id}__environment`, {})).structuredContent as Record<string, string>;
}

test.each([
  ['no variable', {}],
  ['one variable', { ONE: 'configured' }],
  ['an empty variable', { ONE: '' }],
])(
  'F136 a child for which %s is configured has a few safe ones and that, and none of ours',
  async (what, env) => {
    const id = what.replaceAll(' ', '-');
    const seen = await environmentWith(id, Object.keys(env).length === 0 ? {} : { env });
    const { ONE, ...rest } = seen;
    expect(ONE).toBe((env as { ONE?: string }).ONE);
    expect(Object.keys(rest).filter((name) => !safe.includes(name))).toEqual([]);
    expect(JSON.stringify(seen)).not.toContain('hunter2');
  },
);

test('F136 variant: scrub passes what is no credential; a variable of ours reaches a child by its name alone', async () => {
  const scrubbed = await environmentWith('scrubbed', { env_policy: 'scrub', env: { OWN: '${env:MCP_OWN}' } });
  expect(scrubbed).toMatchObject({ EDITOR: 'vi', NODE_ENV: 'production', OWN: '***' });
  expect(Object.keys(scrubbed).filter((name) => /TOKEN|DATABASE|HOLDFAST|OTEL/.test(name))).toEqual([]);
  expect(JSON.stringify(scrubbed)).not.toContain('hunter2');
  own.set({ ...stdioServer('setting-ours', ['environment']), env: { HOLDFAST_STORE: 'x' } });
  expect(await own.diagnostic('setting-ours')).toMatch(/HOLDFAST_STORE is a name of ours/);
});

test('F138 a command in a path with spaces gets its arguments verbatim, without a shell', async () => {
  const folder = join(own.fleet.folder, 'my tools');
  mkdirSync(folder);
  const command = join(folder, 'run me.sh');
  const script = join(root, 'test/servers/stdio-upstream.mjs');
  writeFileSync(command, `#!/bin/sh\nexec "${process.execPath}" "${script}" "$@"\n`);
  chmodSync(command, 0o755);
  const [, list] = stdioServer('x', ['arguments']).args;
  const args = [list!, 'a b', '"quoted"', "it's", '$HOME', ';', '`id`', '*', '', '--x=\n', '%PATH%', '^&|'];
  const [name] = await own.connect({ id: 'spaces', command, args, cwd: folder }, host);
  // What is no word and no path may be a secret, and does not come back (G14).
  const argv = ['--list=***', ...args.slice(1)];
  expect((await host.call(name!, {})).structuredContent).toEqual({ argv, cwd: folder });
});

test.each([
  ['F138 a command that is missing', { command: 'no-such-server' }, /the command no-such-server was not found/],
  ['F138 variant: a command that is a folder', { command: '/' }, /the command \/ may not be executed/],
  ['F138 variant: a folder that is missing', { command: '${node}', cwd: '/no/such/folder' }, /the folder \/no\/such\/folder \(cwd\) does not exist/],
])('%s is told by its name', async (title, settings, said) => {
  const id = `wrong-${title.length}`;
  own.set({ id, ...settings });
  expect(await own.diagnostic(id)).toMatch(said);
}); // prettier-ignore
