import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { keys } from './fleet.ts';
import type { Host } from './host.ts';
import { marked, processes } from './processes.ts';
import { startConnector, until, type Service } from './service.ts';
import { stdioServer, toolsOf, UpstreamFleet, type ServerEntry } from './upstream-fleet.ts';

let own: UpstreamFleet;
let host: Host;
beforeAll(async () => {
  own = await UpstreamFleet.start('postgres', {}, { gateways: 1, workers: 1, connectors: 1 });
  host = await own.fleet.host('modern');
});
afterAll(() => own.dispose());

/** On the command line of each process of a server, and of no other. */
const newMark = (): string => `--mark=${randomUUID()}`;
const gone = (mark: string): Promise<boolean> => until(() => marked(mark).length === 0, 20);

/** A shell that starts a node, which starts another and ignores the end of its stdin. */
function wrapped(id: string, mark: string): ServerEntry {
  const { args } = stdioServer(id, ['echo', 'pid'], ['--ignore-eof', '--grandchild', mark]);
  return { id, command: '/bin/sh', args: ['-c', '"$@"; exit', 'sh', '${node}', ...args] };
}

async function pidOf(id: string, by = host): Promise<number> {
  return (await by.call(`${id}__pid`, {})).structuredContent!['pid'] as number;
}

describe('a wrapper that starts what ignores the end of its stdin', () => {
  test('F130 leaves nothing behind when its server is removed, ten times', async () => {
    const mark = newMark();
    const ids = Array.from({ length: 10 }, (_, i) => `wrapped-${i}`);
    own.add(...ids.map((id) => wrapped(id, mark)));
    for (const id of ids) await own.listed(host, id);
    expect(marked(mark)).toHaveLength(30);
    for (const id of ids) own.remove(id);
    await gone(mark);
  }, 90_000);

  test('F130 variant: when it is disabled, gets other settings, or is killed itself', async () => {
    const [first, second] = [newMark(), newMark()];
    await own.connect(wrapped('changing', first), host);
    own.set({ ...wrapped('changing', second), timeout: 5 });
    await gone(first);
    const pid = await until(() => pidOf('changing').catch(() => undefined), 50);
    expect(marked(second)).toContain(pid);
    const shell = processes().find(
      ({ command }) => command.startsWith('/bin/sh') && command.includes(second),
    )!;
    process.kill(shell.pid, 'SIGKILL');
    await until(() => !marked(second).includes(pid));
    expect(await pidOf('changing')).not.toBe(pid);
    own.set({ ...wrapped('changing', second), enabled: false });
    await gone(second);
  });
});

describe('servers which exit after each answer', () => {
  const zombies = (): number[] =>
    own.services.flatMap(({ pid }) =>
      processes()
        .filter(({ parent, state }) => parent === pid && state === 'Z')
        .map((row) => row.pid),
    );

  test('F132 five of them under fifty calls leave no zombie, and one child each at most', async () => {
    const mark = newMark();
    const ids = Array.from({ length: 5 }, (_, i) => `once-${i}`);
    own.add(
      ...ids.map((id) => ({
        ...stdioServer(id, ['echo'], ['--once', mark]),
        overrides: { echo: 'read' },
        connect_backoff: 0,
        retry: 5,
      })),
    );
    for (const id of ids) await own.listed(host, id);
    const results = await Promise.all(
      Array.from({ length: 50 }, (_, n) => host.call(`${ids[n % 5]}__echo`, { n })),
    );
    const good = results.filter(({ isError }) => isError !== true);
    expect(good.length).toBeGreaterThan(0);
    await until(() => marked(mark).length <= 5 && zombies().length === 0);
    for (const id of ids) own.remove(id);
    await gone(mark);
    expect(zombies()).toEqual([]);
  }, 60_000);

  test('F132 variant: one that cannot start is tried over and over, and leaves nothing', async () => {
    const mark = newMark();
    const { args, ...entry } = stdioServer('never', ['echo']);
    own.set({ ...entry, args: [args[0], '--die=1:no', mark], connect_retries: 10, connect_backoff: 0 });
    expect(await own.diagnostic('never')).toMatch(/exited with code 1/);
    await until(() => marked(mark).length === 0 && zombies().length === 0);
    own.remove('never');
  });
});

describe('a connector that goes', () => {
  const servers = ['kept-1', 'kept-2'];

  test.each(['SIGTERM', 'SIGKILL'] as const)(
    'F135 by %s takes its children along, and the next has exactly one of each server',
    async (signal) => {
      const mark = newMark();
      for (const id of servers)
        await own.connect(stdioServer(id, ['pid', 'echo'], ['--ignore-eof', mark, `--of=${id}`]), host);
      const old = await Promise.all(servers.map((id) => pidOf(id)));
      expect(marked(mark).sort()).toEqual([...old].sort());
      const connector = own.fleet.connectors[0]!;
      connector.send(signal);
      await connector.exited;
      await until(() => old.every((pid) => !marked(mark).includes(pid)), 20);
      own.fleet.connectors[0] = await startConnector(own.fleet.env);
      const pids = await Promise.all(servers.map((id) => pidOf(id)));
      expect(marked(mark).sort()).toEqual([...pids].sort());
      for (const id of servers) own.remove(id);
      await gone(mark);
      await until(async () => !(await toolsOf(host)).some(({ name }) => name.startsWith('kept-')), 50);
    },
    60_000,
  );

  test('F135 variant: the connector that takes over has one child, though the old one is only stopped for a while', async () => {
    const mark = newMark();
    await own.connect(stdioServer('moving', ['pid'], ['--ignore-eof', mark]), host);
    const first = await pidOf('moving');
    const owner = own.fleet.connectors[0]!;
    expect(processes().find(({ pid }) => pid === first)!.parent).toBe(owner.pid);
    const other: Service = await startConnector(own.fleet.env);
    own.fleet.connectors.push(other);
    owner.send('SIGSTOP');
    // Its lease runs out, and the other starts a child of its own.
    await until(() => marked(mark).length === 2);
    owner.send('SIGCONT');
    await until(() => marked(mark).length === 1);
    const [second] = marked(mark);
    expect(processes().find(({ pid }) => pid === second)!.parent).toBe(other.pid);
    expect(await pidOf('moving')).toBe(second);
    await owner.kill();
    expect(marked(mark)).toEqual([second]);
    own.fleet.connectors.shift();
  }, 60_000);
});

test('F202 a server on stdio has one child for each caller where its sessions are by principal', async () => {
  const other = await own.fleet.host('legacy', { key: keys.ci });
  const again = await own.fleet.host('legacy');
  await own.connect({ ...stdioServer('apart', ['pid']), session_scope: 'principal' }, host);
  const pids = [await pidOf('apart'), await pidOf('apart', other), await pidOf('apart', again)];
  expect(pids[0]).not.toBe(pids[1]);
  // Two sessions of one caller are one caller.
  expect(pids[2]).toBe(pids[0]);
  await own.connect(stdioServer('together', ['pid']), host);
  expect(await pidOf('together', other)).toBe(await pidOf('together'));
});
