import { exec, execFile } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect, jest, test } from '@jest/globals';
import { root, scratchFolder, Service, stopEverything, type App, type Env } from '../system/service.ts';

// npm installs what the images of three services hold.
jest.setTimeout(600_000);

const folder = scratchFolder();
afterAll(async () => {
  await stopEverything();
  folder.remove();
});

/** Puts together what the image of a service holds, by the script that its Dockerfile runs. */
async function collected(app: App): Promise<string> {
  const target = join(folder.path, app);
  // As in a checkout that is for its owner alone.
  await promisify(execFile)('sh', ['-c', 'umask 077; exec sh deploy/collect.sh "$0" "$1"', app, target], {
    cwd: root,
  });
  return target;
}

const common: Env = { NODE_ENV: 'production', HOLDFAST_OPS_PORT: '0' };
const store = { HOLDFAST_STORE: `sqlite:${join(folder.path, 'holdfast.db')}` };

test.each<[App, Env, RegExp, string[]]>([
  ['gateway', { HOLDFAST_AUTH: 'none', HOLDFAST_PORT: '0' }, /gateway listens/, ['gateway']],
  [
    'worker',
    { HOLDFAST_TOOLS: '@holdfast/orders', HOLDFAST_CONNECTOR_URL: '127.0.0.1:50051' },
    /worker serves/,
    ['worker'],
  ],
  ['connector', { HOLDFAST_CONNECTOR_BIND: '127.0.0.1:0' }, /connector serves/, ['connector']],
])('what the image of the %s holds is enough to run it, and no more', async (app, env, ready, apps) => {
  const place = await collected(app);
  const service = new Service(app, { ...common, ...store, ...env }, [], place, place);
  await service.printed(ready);
  await service.stop();
  const { stdout, stderr } = service;
  expect({ ...(await service.exited), stdout, stderr }).toEqual({
    code: 0,
    signal: null,
    stdout,
    stderr: '',
  });

  expect(readdirSync(join(place, 'apps'))).toEqual(apps);
  const forAll = '! -type l ( ! -perm -o=r -o -type d ! -perm -o=x )'.replaceAll(/[()]/g, '\\$&');
  const { stdout: closed } = await promisify(exec)(`find . ${forAll}`, { cwd: place });
  expect(closed).toBe('');
  for (const development of ['typescript', 'jest', 'nx', 'eslint', '@types/pg'])
    expect(existsSync(join(place, 'node_modules', development))).toBe(false);
});
