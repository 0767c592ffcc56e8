import { readFileSync } from 'node:fs';
import { afterAll, afterEach, expect, test } from '@jest/globals';
import { keys } from './fleet.ts';
import { openHost } from './host.ts';
import {
  root,
  scratchFolder,
  Service,
  startStandalone,
  startWorker,
  stopEverything,
  type App,
  type Env,
} from './service.ts';

const folder = scratchFolder();
afterEach(stopEverything);
afterAll(() => folder.remove());

/** What a service that cannot start says, problem by problem. */
async function refusal(
  app: App,
  env: Env,
): Promise<{ code: number | null; problems: string[]; stdout: string }> {
  const service = new Service(app, env, [], folder.path);
  const { code } = await service.exited;
  return { code, problems: service.stderr.trimEnd().split('\n'), stdout: service.stdout };
}

const variablesOf = (problems: readonly string[]): string[] =>
  problems.map((problem) => /^([A-Z_]+): ./.exec(problem)?.[1] ?? problem);

test('npm start runs the one process without any setting', () => {
  const { scripts } = JSON.parse(readFileSync(`${root}/package.json`, 'utf8')) as {
    scripts: { start: string };
  };
  expect(scripts.start).toMatch(/^tsc -b apps\/standalone && exec node apps\/standalone\/dist\/main\.js$/);
});

test('the one process prints where it serves, how to add it and where runs can be seen', async () => {
  const { service, base } = await startStandalone({}, folder.path);
  expect(service.stdout).toContain(`Holdfast serves ${base}/mcp\n`);
  expect(service.stdout).toContain(`claude mcp add --transport http holdfast ${base}/mcp\n`);
  const [, runs] = /^ +Runs +(\S+)$/m.exec(service.stdout)!;
  expect(runs).toBe(`${base}/api/runs`);

  const host = await openHost('modern', `${base}/mcp`);
  await host.call('lookup_order', { order_id: 'o-1' });
  const answer = (await (await fetch(runs!)).json()) as { runs: { tool: string }[] };
  expect(answer.runs.map(({ tool }) => tool)).toEqual(['lookup_order']);
  expect(await service.stop()).toBe(0);
});

test('with keys the one process prints how to give one, and prints no key', async () => {
  const env = {
    HOLDFAST_STORE: 'memory:',
    HOLDFAST_AUTH: 'keys',
    HOLDFAST_API_KEYS: JSON.stringify(keys),
    HOLDFAST_LOG_LEVEL: 'debug',
  };
  const { service, base } = await startStandalone(env, folder.path);
  expect(service.stdout).toContain(
    `claude mcp add --transport http holdfast ${base}/mcp --header "Authorization: Bearer <key>"\n`,
  );
  expect(service.stdout).toMatch(/^ +Runs +\S+\/api\/runs \(closed: set HOLDFAST_ADMIN_KEYS\)$/m);
  await (await openHost('legacy', `${base}/mcp`, keys.desk)).call('lookup_order', { order_id: 'o-1' });
  await service.stop();
  for (const key of Object.values(keys)) expect(service.stdout + service.stderr).not.toContain(key);
});

test('--help tells the commands and the settings', async () => {
  const service = new Service('standalone', {}, ['--help'], folder.path);
  expect(await service.exited).toEqual({ code: 0, signal: null });
  expect(service.stdout).toMatch(/main\.js stdio.*\n[^]*--watch[^]*HOLDFAST_TOOLS[^]*HOLDFAST_STORE/);
  expect(service.stderr).toBe('');
});

test('a command or an option that there is not ends with what there is', async () => {
  for (const argument of ['serv', '--port=8000']) {
    const service = new Service('standalone', {}, [argument], folder.path);
    expect((await service.exited).code).toBe(1);
    expect(service.stderr).toContain(argument.replace('=8000', ''));
    expect(service.stdout).toBe('');
  }
});

test('a gateway without settings names all that it needs', async () => {
  const { code, problems, stdout } = await refusal('gateway', {});
  expect(code).toBe(78);
  expect(variablesOf(problems).sort()).toEqual(['HOLDFAST_AUTH', 'HOLDFAST_STORE']);
  expect(stdout).toBe('');
});

test('a worker without settings names all that it needs', async () => {
  const { code, problems } = await refusal('worker', {});
  expect(code).toBe(78);
  expect(variablesOf(problems).sort()).toEqual(['HOLDFAST_STORE', 'HOLDFAST_TOOLS']);
});

test('a worker may be without tools of its own, when it calls upstreams', async () => {
  const env = { HOLDFAST_STORE: `sqlite:${folder.path}/upstreams-only.db`, HOLDFAST_TOOLS: 'off' };
  const { code, problems } = await refusal('worker', { ...env, HOLDFAST_CONNECTOR_URL: 'off' });
  expect(code).toBe(78);
  expect(variablesOf(problems)).toEqual(['HOLDFAST_TOOLS']);
  const worker = await startWorker(env);
  expect(worker.log).toContainEqual(expect.objectContaining({ msg: 'worker serves', tools: 0 }));
  expect(await worker.stop()).toBe(0);
});

test('the one process may be without tools of its own as well', async () => {
  const { service, base } = await startStandalone({ HOLDFAST_STORE: 'memory:', HOLDFAST_TOOLS: 'off' });
  const host = await openHost('modern', `${base}/mcp`);
  const { messages } = await host.send('tools/list').answer;
  expect(messages[0]?.result).toMatchObject({ tools: [] });
  expect(await service.stop()).toBe(0);
});

test.each(['gateway', 'standalone'] as const)(
  'a %s lists every wrong setting, one a line, and echoes no secret',
  async (app) => {
    const { code, problems, stdout } = await refusal(app, {
      HOLDFAST_STORE: 'mysql://root:hunter2@db/holdfast',
      HOLDFAST_AUTH: 'keys,module,oauth',
      HOLDFAST_API_KEYS: '{"desk":"hunter2 with spaces","ci":7}',
      HOLDFAST_ADMIN_KEYS: '{"admin":"hunter2"',
      HOLDFAST_PORT: '80000',
      HOLDFAST_WAIT_TIMEOUT_MS: 'soon',
      HOLDFAST_LEGACY: 'maybe',
      HOLDFAST_ALLOW_UNAUTHENTICATED: 'perhaps',
      HOLDFAST_RUN_ID_KEY: 'hunter2',
      HOLDFAST_MCP_PATH: 'mcp',
    });
    expect(code).toBe(78);
    expect([...new Set(variablesOf(problems))].sort()).toEqual([
      'HOLDFAST_ADMIN_KEYS',
      'HOLDFAST_ALLOW_UNAUTHENTICATED',
      'HOLDFAST_API_KEYS',
      'HOLDFAST_AUTH',
      'HOLDFAST_LEGACY',
      'HOLDFAST_MCP_PATH',
      'HOLDFAST_PORT',
      'HOLDFAST_RUN_ID_KEY',
      'HOLDFAST_STORE',
      'HOLDFAST_WAIT_TIMEOUT_MS',
    ]);
    expect(problems.join() + stdout).not.toContain('hunter2');
  },
);

test('what a chosen way to authenticate needs is named beside the other problems', async () => {
  const env = { HOLDFAST_AUTH: 'keys,module', HOLDFAST_PORT: 'http' };
  const { code, problems } = await refusal('standalone', env);
  expect(code).toBe(78);
  expect(variablesOf(problems).sort()).toEqual([
    'HOLDFAST_API_KEYS',
    'HOLDFAST_AUTH_MODULE',
    'HOLDFAST_PORT',
  ]);
});

test('modules that cannot be loaded are wrong settings, all of them', async () => {
  const env = {
    HOLDFAST_STORE: 'memory:',
    HOLDFAST_AUTH: 'module',
    HOLDFAST_AUTH_MODULE: './no-such-auth.mjs',
    HOLDFAST_IDENTITY_MODULE: './no-such-identity.mjs',
  };
  const { code, problems } = await refusal('standalone', env);
  expect(code).toBe(78);
  expect(variablesOf(problems)).toEqual(['HOLDFAST_AUTH_MODULE', 'HOLDFAST_IDENTITY_MODULE']);
});

test('separate services refuse a store that they cannot share', async () => {
  for (const app of ['gateway', 'worker'] as const) {
    const { code, problems } = await refusal(app, {
      HOLDFAST_STORE: 'memory:',
      HOLDFAST_AUTH: 'none',
      HOLDFAST_TOOLS: `${root}/examples/orders/dist/index.js`,
    });
    expect(code).toBe(78);
    expect(variablesOf(problems)).toEqual(['HOLDFAST_STORE']);
  }
});
