import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { RunError, isFinished, type RunId } from '@holdfast/run';
import { startPostgresPair, type PostgresPair } from '../../../test/servers/index.ts';
import { until } from '../../../test/support/until.ts';
import { PostgresHosts } from './postgres-hosts.js';
import { openPostgres } from './postgres.js';
import { newRun } from './test-runs.js';

jest.setTimeout(300_000);

describe('a URL with several hosts', () => {
  const url = 'postgres://us:p%40ss,w:rd@one:5433,two,[::1]:5434/orders?target_session_attrs=read-write';

  test('is one URL for each host, and its name holds neither user nor password', () => {
    const hosts = new PostgresHosts(url);
    expect(hosts.urls).toEqual([
      'postgres://us:p%40ss,w:rd@one:5433/orders?target_session_attrs=read-write',
      'postgres://us:p%40ss,w:rd@two/orders?target_session_attrs=read-write',
      'postgres://us:p%40ss,w:rd@[::1]:5434/orders?target_session_attrs=read-write',
    ]);
    expect(hosts.name).toBe('one:5433,two,[::1]:5434/orders');
  });

  test('leads on when its host is left, and around', () => {
    const hosts = new PostgresHosts('postgres://one,two/orders');
    const [one, two] = hosts.urls as [string, string];
    expect(hosts.current).toBe(one);
    hosts.leave(one);
    hosts.leave(one);
    expect(hosts.current).toBe(two);
    hosts.leave(two);
    expect(hosts.current).toBe(one);
  });

  test('is doubted once for all connections of a time', () => {
    const hosts = new PostgresHosts('postgres://one,two/orders');
    hosts.doubt(0);
    hosts.doubt(0);
    expect(hosts.epoch).toBe(1);
    const single = new PostgresHosts('postgres://one/orders');
    single.doubt(0);
    expect(single.epoch).toBe(0);
  });

  test.each([
    'postgres://us:secret@one:5432,two:x/orders',
    'postgres://us:secret@one:5432,/orders',
    'postgres://us:secret@one,two/orders?target_session_attrs=standby',
    'mysql://us:secret@one/orders',
  ])('%s is refused without its password', (wrong) => {
    const refused = (): PostgresHosts => new PostgresHosts(wrong);
    expect(refused).toThrow(expect.objectContaining({ code: 'store-unfit' }));
    expect(refused).toThrow(expect.objectContaining({ message: expect.not.stringContaining('secret') }));
  });
});

describe('a primary and its standby', () => {
  const opened: { close(): Promise<void> }[] = [];
  let pair: PostgresPair;
  const raise = async (): Promise<string> => {
    pair = await startPostgresPair();
    return pair.createDatabase();
  };
  const open = async (url: string, statementMs?: number) => {
    const store = await openPostgres({ url, ...(statementMs !== undefined && { statementMs }) });
    opened.push(store);
    return store;
  };
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((store) => store.close()));
    await pair.stop();
  });

  test('the store goes on with the new primary by itself, hears it, and has lost nothing that was accepted', async () => {
    const url = await raise();
    const store = await open(url);
    const other = await open(url);
    const accepted: RunId[] = [];
    let isDone = false;
    const submitting = Promise.all(
      Array.from({ length: 8 }, async () => {
        while (!isDone) {
          const run = newRun();
          const error = await store.runs.submit(run).then(
            () => void accepted.push(run.id),
            (reason: RunError) => reason,
          );
          if (!(error instanceof RunError)) continue;
          expect(error).toMatchObject({ code: 'store-unavailable' });
          await pause();
        }
      }),
    );
    await until(() => accepted.length >= 50);
    await pair.killPrimary();
    await pair.promote();
    const before = accepted.length;
    await until(() => accepted.length >= before + 50);
    isDone = true;
    await submitting;
    for (const id of accepted) expect(await store.runs.get(id)).toMatchObject({ id, state: 'queued' });

    await until(() => store.hearing && other.hearing);
    const heard = new Promise<void>((resolve) => {
      other.subscribe(({ kind }) => kind === 'queued' && resolve());
    });
    await store.runs.submit(newRun());
    await heard;
  });

  test('a store that is opened with the standby first takes the primary', async () => {
    const url = await raise();
    const turned = url.replace(/@([^,]+),([^/]+)\//, '@$2,$1/');
    const store = await open(turned);
    const submission = await store.runs.submit(newRun());
    expect(submission).toMatchObject({ kind: 'fresh', run: { state: 'queued' } });
    expect(isFinished((await store.runs.get((submission as { run: { id: RunId } }).run.id))!)).toBe(false);
    expect(store.hearing).toBe(true);
  });

  test('a primary that answers nothing any more is left for the other', async () => {
    const url = await raise();
    const store = await open(url, 500);
    const run = newRun();
    await store.runs.submit(run);
    await pair.pausePrimary();
    await pair.promote();
    await until(() =>
      store.runs.get(run.id).then(
        (found) => found !== undefined,
        () => false,
      ),
    );
    await expect(store.runs.submit(newRun())).resolves.toMatchObject({ kind: 'fresh' });
  });

  test('while none takes writes the store is unavailable, not unfit, and says why of each', async () => {
    const url = await raise();
    await pair.killPrimary();
    await expect(openPostgres({ url: url.replace('postgres@', 'postgres:secret@') })).rejects.toMatchObject({
      code: 'store-unavailable',
      message: expect.stringMatching(
        /no server takes writes \(127\.0\.0\.1:\d+: .*ECONNREFUSED.*; 127\.0\.0\.1:\d+: it takes no writes: it is a replica/,
      ),
    });
    const [, standby] = pair.ports;
    const alone = url.replace(/@[^/]+\//, `@127.0.0.1:${standby}/`);
    await expect(openPostgres({ url: alone })).rejects.toMatchObject({ code: 'store-unavailable' });
  });
});

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 10));
