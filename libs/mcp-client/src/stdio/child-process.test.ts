import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { childEnvironment } from './child-environment.js';
import { ChildGuard } from './child-guard.js';
import { childTimings, startChild, type ChildOptions } from './child-process.js';
import { recordingLog } from '../../../../test/support/log.ts';
import {
  connect,
  openGuard,
  processes,
  runningIn,
  scriptedServer,
  send,
  stdioSettings,
  structured,
} from './test-stdio.js';
import { afterTest } from '../../../../test/support/after-test.ts';
import { until } from '../../../../test/support/until.ts';

async function start(
  change: Partial<ChildOptions> & { readonly command?: string; readonly args?: string[] } = {},
) {
  const { command = process.execPath, args = [scriptedServer], ...options } = change;
  const child = await startChild({
    server: 'files',
    settings: stdioSettings({ command, args }),
    secrets: [],
    environment: { PATH: '/usr/bin:/bin' },
    guard: openGuard(),
    ...options,
  });
  afterTest(() => child.stop());
  return child;
}

/** A shell that starts a node which ignores the end of its stdin, both in one group. */
const stubborn = [
  '-c',
  `"${process.execPath}" -e 'process.stdin.resume(); setInterval(() => {}, 1000); console.log("up")' & wait`,
];

describe('a child', () => {
  test('gets its arguments verbatim, from a path with spaces (F138)', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-child-'));
    afterTest(() => rmSync(folder, { recursive: true }));
    const command = join(folder, 'my tools', 'run me.sh');
    mkdirSync(join(folder, 'my tools'));
    writeFileSync(command, `#!/bin/sh\nexec "${process.execPath}" "${scriptedServer}" "$@"\n`);
    chmodSync(command, 0o755);
    const args = ['a b', '"quoted"', "it's", '$HOME', ';', '`id`', '*', '', '--x=\n'];
    const connection = await connect([], { settings: stdioSettings({ command, args, cwd: folder }) });
    expect(structured(await send(connection, 'arguments'))).toEqual({ argv: args, cwd: folder });
  });

  test('whose command is missing is told by its name (F138)', async () => {
    await expect(start({ command: 'no-such-server' })).rejects.toMatchObject({
      code: 'unreachable',
      message: 'files: the command no-such-server was not found; give its full path, or put it on PATH',
    });
    await expect(start({ command: '/' })).rejects.toThrow(
      'files: the command / may not be executed (EACCES)',
    );
    await expect(start({ settings: stdioSettings({ cwd: '/no/such/folder' }) })).rejects.toThrow('files: the folder /no/such/folder (cwd) does not exist'); // prettier-ignore
    await expect(start({ command: 'a\0b' })).rejects.toThrow('cannot be started (ERR_INVALID_ARG_VALUE)');
  });

  test('gets a few harmless variables and its own, and none of our secrets (F136)', async () => {
    const environment = { PATH: '/usr/bin:/bin', HOME: '/home/x', LANG: 'C', DATABASE_URL: 'postgres://u:p@h/d', GITHUB_TOKEN: 't', KUBERNETES_SERVICE_HOST: '10.0.0.1', OTEL_EXPORTER_OTLP_HEADERS: 'k=v', HOLDFAST_SECRET_KEY: 's', EDITOR: 'vi' }; // prettier-ignore
    for (const env of [{}, { ONE: 'configured' }, { ONE: '' }] as Record<string, string>[]) {
      const settings = stdioSettings({ env });
      const connection = await connect([], { settings, environment });
      expect(structured(await send(connection, 'environment'))).toEqual({
        PATH: '/usr/bin:/bin',
        HOME: '/home/x',
        LANG: 'C',
        ...env,
      });
    }
  });

  test('may get all variables but those that look like credentials, and can set none of ours', () => {
    const kept = { PATH: '/bin', EDITOR: 'vi', HTTP_PROXY: 'http://proxy:3128', PWD: '/' };
    const dropped = { GITHUB_TOKEN: '1', aws_secret_access_key: '1', MY_API_KEY: '1', DB_PASSWORD: '1', GOOGLE_APPLICATION_CREDENTIALS: '1', APP_DATABASE_URL: '1', PGPASSFILE: '1', POSTGRES_HOST: '1', REDIS_URL: '1', VALKEY_URL: '1', MYSQL_PWD: '1', MONGO_URL: '1', OTEL_EXPORTER_OTLP_HEADERS: '1', BROKER: 'amqp://user:pw@mq/', HOLDFAST_STORE: '1', holdfast_store: '1' }; // prettier-ignore
    const env = { GITHUB_TOKEN: 'own', HOLDFAST_STORE: 'own' };
    expect(childEnvironment({ env, envPolicy: 'scrub' }, { ...kept, ...dropped, GONE: undefined })).toEqual({
      ...kept,
      GITHUB_TOKEN: 'own',
    });
    expect(childEnvironment({ env, envPolicy: 'allow-list' }, { ...kept, ...dropped })).toEqual({
      PATH: '/bin',
      GITHUB_TOKEN: 'own',
    });
  });

  test('keeps the last 20 lines of its stderr, each cut, secrets masked before the cut', async () => {
    const secret = 'correct-horse-battery';
    const lines = `for (let i = 0; i < 30; i += 1) console.error('line ' + i + ' ' + 'x'.repeat(i === 29 ? 480 : 0) + ${JSON.stringify(secret)} + 'y'.repeat(600)); process.exitCode = 3`;
    const child = await start({ args: ['-e', lines], secrets: [secret] });
    await child.ended;
    const [head, ...tail] = child.describe().split('\n');
    expect(head).toBe('exited with code 3; its last lines on stderr:');
    expect(tail).toHaveLength(20);
    expect(tail[0]).toMatch(/^line 10 \*\*\*y+$/);
    expect(tail.map((line) => line.length)).toEqual(Array<number>(20).fill(500));
    expect(child.describe()).not.toContain('corr');
  });

  test('that leaves by itself when its stdin closes is not killed', async () => {
    const child = await start({ args: ['-e', 'process.stdin.resume().on("end", () => process.exit(0))'] });
    await child.stop();
    expect(runningIn(child.pid)).toEqual([]);
  });

  test('is gone with all that it started, though that ignores the end of its stdin, ten times (F130)', async () => {
    const guard = openGuard();
    const children = await Promise.all(
      Array.from({ length: 10 }, () => start({ command: '/bin/sh', args: stubborn, guard })),
    );
    // Shell and node each; the node is up.
    await Promise.all(children.map((child) => new Promise((resolve) => child.stdout.once('data', resolve))));
    for (const { pid } of children) expect(runningIn(pid)).toHaveLength(2);
    await Promise.all(children.map((child) => Promise.all([child.stop(), child.stop()])));
    for (const { pid } of children) await until(() => runningIn(pid).length === 0);
  });

  test('that dies takes with it what it started (F130)', async () => {
    const child = await start({ args: [scriptedServer, '--grandchild'] });
    await until(() => runningIn(child.pid).length === 2);
    process.kill(child.pid, 'SIGTERM');
    await child.ended;
    expect(child.describe()).toBe('was ended by SIGTERM');
    await until(() => runningIn(child.pid).length === 0);
  });

  test('ends though a process that left its group holds its pipes', async () => {
    const child = await start({ command: '/bin/sh', args: ['-c', 'setsid sleep 60 & echo $!; exit 0'] });
    const escaped = await new Promise<number>((resolve) =>
      createInterface({ input: child.stdout }).once('line', (line) => resolve(Number(line))),
    );
    afterTest(() => process.kill(escaped, 'SIGKILL'));
    await child.ended;
    expect(child.describe()).toBe('exited with code 0');
  });

  test('leaves no zombie: 5 servers which exit after each answer, under 50 calls (F132)', async () => {
    const guard = openGuard();
    guard.start();
    const ours = () => processes().filter(({ parent }) => parent === process.pid);
    const before = new Set(ours().map(({ pid }) => pid));
    const server = async () => {
      for (let i = 0; i < 10; i += 1) {
        const connection = await connect(['--once'], { guard });
        expect(await send(connection, 'echo')).toMatchObject({ kind: 'result' });
        await until(() => !connection.isOpen);
      }
    };
    await Promise.all(Array.from({ length: 5 }, server));
    // One that nobody reaped would stay among them.
    await until(() => ours().every(({ pid }) => before.has(pid)));
  });
});

describe('what a child gets and shows', () => {
  test('G81: scrub takes credentials out by name and by value', () => {
    const kept = { PATH: '/bin', EDITOR: 'vi', HTTP_PROXY: 'http://proxy:3128', PWD: '/', LANG: 'C.UTF-8', TERM: 'xterm', COLUMNS: '80', HOMEPAGE: 'https://h.example/a?b=c', TZ: 'Europe/Vienna', PYTHONPATH: '/a:/b' }; // prettier-ignore
    const byName = ['AUTHORIZATION', 'PROXY_AUTHORIZATION', 'COOKIE', 'SESSION', 'SESSION_ID', 'PHPSESSION', 'DB_PASS', 'MYSQL_PWD', 'GH_PAT', 'BEARER', 'JWT', 'SENTRY_DSN', 'PRIVATE_PEM', 'passphrase', 'SLACK_WEBHOOK', 'AZURE_CONNECTION_STRING', 'NPM_AUTH', 'REQUEST_SIGNATURE']; // prettier-ignore
    const byValue = ['-----BEGIN RSA PRIVATE KEY-----\nMII', 'sk_live_4eC39HqLyjWDarjtT1zdp7dc', 'sk-proj-abcdefgh1234', 'ghp_0123456789abcdef0123', 'xoxb-1-2', 'AKIAIOSFODNN7EXAMPLE', 'Bearer abcdef', 'eyJhbGciOi.eyJzdWIi.x', 'postgres://u:p@h/db', 'redis://:p@h', 'Server=h;Password=p;', 'host=h user=u password=p', 'u:p@tcp(h:3306)/db', 'https://h.example/?api_key=x']; // prettier-ignore
    const parent = {
      ...kept,
      ...Object.fromEntries(byName.map((name) => [name, 'plain'])),
      ...Object.fromEntries(byValue.map((value, i) => [`HARMLESS_${i}`, value])),
    };
    expect(childEnvironment({ env: {}, envPolicy: 'scrub' }, parent)).toEqual(kept);
  });

  test.each([
    [['--api-key', 'hunter2'], 'bad key hunter2'],
    [['--api-key=hunter2'], 'bad key hunter2'],
    [['hunter2'], 'bad key hunter2'],
    [['--password', 'correct'], 'bad correct'],
    [['--header', 'Authorization: Bearer hunter2'], 'bad hunter2'],
    [['KEY=hunter2', 'x'], 'bad hunter2'],
    [['-c', 'TOKEN=hunter2 exec run'], 'bad hunter2'],
    [['postgres://user:hunter2@db/x'], 'password hunter2 of user'],
    [['wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'], 'bad wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'],
    [['sk_live_4eC39HqLyjWDarjtT1zdp7dc'], 'got sk_live_4eC39HqLyjWDarjtT1zdp7dc'],
  ])('G19: a key in its arguments %j is masked in what it printed', async (keys, text) => {
    const script = `console.error(${JSON.stringify(text)}); process.exitCode = 3`;
    const child = await start({ args: ['-e', script, '--', ...keys] });
    await child.ended;
    expect(child.describe()).toMatch(/^exited with code 3; its last lines on stderr:\n/);
    expect(child.describe()).toContain('***');
    expect(child.describe()).not.toMatch(/hunter2|correct|wJalr|sk_live/);
  });

  test('G19: paths, packages, ports and plain words stay readable', async () => {
    const shown = ['/app/server.js', './data', 'server.mjs', '@scope/files@1.2.3', 'mcp-server-git', 'stdio', '--port', '8080', 'https://h.example/mcp', '-y']; // prettier-ignore
    const script = `console.error(${JSON.stringify(shown.join(' | '))}); process.exitCode = 3`;
    const child = await start({ args: ['-e', script, '--', ...shown] });
    await child.ended;
    for (const text of shown) expect(child.describe()).toContain(text);
  });

  test('G81: open descriptors of this process do not reach it', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-child-'));
    afterTest(() => rmSync(folder, { recursive: true }));
    writeFileSync(join(folder, 'secret'), 'hunter2');
    const parent = fileURLToPath(new URL('../../../../test/servers/stdio-parent.mjs', import.meta.url));
    const list = 'cat /proc/self/fd/20 /proc/self/fd/40; ls -l /proc/self/fd';
    const command = `exec 20<secret 40<secret; exec "$0" --disable-warning=ExperimentalWarning "$1" /bin/sh -c '${list}'`; // prettier-ignore
    const open = spawn('bash', ['-c', command, process.execPath, parent], {
      cwd: folder,
      env: { SHOW: '1' },
    });
    afterTest(() => open.kill('SIGKILL'));
    let shown = '';
    open.stdout.on('data', (chunk: Buffer) => (shown += chunk.toString()));
    await until(() => /total 0[\s\S]*\b2 ->/.test(shown));
    expect(shown).not.toContain('secret');
    expect(shown).not.toContain('hunter2');
  });

  test('G29: it reads no variable of ours from /proc, and we keep all of them', async () => {
    const parent = fileURLToPath(new URL('../../../../test/servers/stdio-parent.mjs', import.meta.url));
    const read = 'tr "\\0" "\\n" < /proc/$PPID/environ; echo done';
    const open = spawn(
      process.execPath,
      ['--disable-warning=ExperimentalWarning', parent, '/bin/sh', '-c', read],
      {
        env: { SHOW: '1', HIDE: 'hunter2' },
      },
    );
    afterTest(() => open.kill('SIGKILL'));
    let shown = '';
    open.stdout.on('data', (chunk: Buffer) => (shown += chunk.toString()));
    await until(() => shown.endsWith('done\n'));
    const [hidden, , ...environ] = shown.split('\n');
    expect(hidden).toBe('true hunter2');
    expect(environ.filter((line) => line !== '')).toEqual(['done']);
  });

  test('G29: it stands in an empty folder of its own, which goes with it', async () => {
    const where = async () => {
      const child = await start({
        command: '/bin/sh',
        args: ['-c', 'pwd; ls -A; echo x > left; read -r line'],
      });
      const folder = await new Promise<string>((resolve) => child.stdout.once('data', (text: Buffer) => resolve(text.toString()))); // prettier-ignore
      return { child, folder };
    };
    const [one, other] = [await where(), await where()];
    expect(one.folder).toMatch(/holdfast-child-\w+\n$/);
    expect(one.folder).not.toBe(other.folder);
    await one.child.stop();
    await until(() => !existsSync(one.folder.trim()));
    expect(existsSync(other.folder.trim())).toBe(true);
  });

  test('G29: it has a user of its own where this process may give it one', async () => {
    const options = {
      command: '/bin/sh',
      args: ['-c', 'id -u; id -g; id -G; touch mine && ls'],
      userId: 61_184,
    };
    if (process.getuid!() !== 0) return expect(start(options)).rejects.toThrow('cannot be started (EPERM)');
    const child = await start(options);
    let shown = '';
    child.stdout.on('data', (chunk: Buffer) => (shown += chunk.toString()));
    await child.ended;
    expect(shown).toBe('61184\n61184\n61184\nmine\n');
  });

  test('G48: one that cleans up after SIGTERM is given the time', async () => {
    const script = `setInterval(() => {}, 1000); process.on('SIGTERM', () => setTimeout(() => { console.error('cleaned up'); process.exit(0); }, 20)); process.stdin.resume().on('end', () => console.error('end of input')); console.log('up')`; // prettier-ignore
    const child = await start({
      args: ['-e', script],
      timings: { ...childTimings, eofMs: 200, termMs: 30_000 },
    });
    await new Promise((resolve) => child.stdout.once('data', resolve));
    await child.stop();
    expect(child.describe()).toBe('was stopped; its last lines on stderr:\nend of input\ncleaned up');
  });

  test('G48: one that ignores SIGTERM is killed', async () => {
    const script = `setInterval(() => {}, 1000); process.on('SIGTERM', () => console.error('ignored')); console.log('up')`;
    const child = await start({ args: ['-e', script], timings: { ...childTimings, eofMs: 10, termMs: 200 } });
    await new Promise((resolve) => child.stdout.once('data', resolve));
    await child.stop();
    expect(child.describe()).toContain('ignored');
    expect(runningIn(child.pid)).toEqual([]);
  });
});

describe('the guard of children', () => {
  const parent = fileURLToPath(new URL('../../../../test/servers/stdio-parent.mjs', import.meta.url));

  /** A process with a guard and a stubborn child; resolves once all of it is up. */
  async function openParent() {
    const guarding = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', parent, '/bin/sh', ...stubborn], {
      stdio: ['ignore', 'pipe', 'inherit'],
    }); // prettier-ignore
    const lines = createInterface({ input: guarding.stdout });
    const [group, watchdog] = await new Promise<number[]>((resolve) =>
      lines.once('line', (line) => resolve(JSON.parse(line) as number[])),
    );
    afterTest(() => guarding.kill('SIGKILL'));
    await until(() => runningIn(group!).length === 2);
    return { guarding, group: group!, watchdog: watchdog! };
  }

  test('leaves no process of a child when we are killed (F135)', async () => {
    const { guarding, group, watchdog } = await openParent();
    guarding.kill('SIGKILL');
    await until(() => runningIn(group).length === 0);
    await until(() => runningIn(watchdog).length === 0);
  });

  test('holds when its watchdog was killed before us: there is a new one', async () => {
    const { log, lines } = recordingLog();
    const guard = new ChildGuard({ log });
    const child = await start({ command: '/bin/sh', args: stubborn, guard });
    const first = guard.pid!;
    process.kill(first, 'SIGKILL');
    const second = await until(() => guard.pid !== undefined && guard.pid !== first && guard.pid);
    expect(runningIn(second)).toHaveLength(1);
    guard.close();
    await until(() => runningIn(child.pid).length === 0);
    expect(lines).toEqual([]);
  });

  test('kills no group that is gone, whose id may be that of another now', async () => {
    const guard = openGuard();
    const child = await start({ command: '/bin/sh', args: stubborn });
    guard.start();
    guard.add(999_999_999);
    guard.add(child.pid);
    guard.add(888_888_888);
    guard.remove(child.pid);
    const watchdog = guard.pid!;
    guard.close();
    await until(() => runningIn(watchdog).length === 0);
    expect(runningIn(child.pid).length).toBeGreaterThan(0);
  });

  test('tells its watchdog nothing of our environment', () => {
    const guard = openGuard();
    guard.start();
    expect(execFileSync('tr', ['\\0', '\\n'], { input: execFileSync('cat', [`/proc/${guard.pid}/environ`]) }).toString()).not.toMatch(/PATH=\/|HOME=/); // prettier-ignore
  });
});
