import { afterEach, describe, expect, test } from '@jest/globals';
import { join } from 'node:path';
import { runIdOf } from './breaking.ts';
import { Fleet, keys } from './fleet.ts';
import { bearer, errorNameOf, eras, exchange, messagesOf, type Exchange, type Host } from './host.ts';
import { root, startWorker, stopEverything, until } from './service.ts';

const toolsOf = (name: string): string => join(root, 'test/system/tools', `${name}.ts`);

let fleet: Fleet;
afterEach(async () => {
  await fleet.dispose();
  await stopEverything();
});

const accept = 'application/json, text/event-stream';
const ofSession = (session: string | undefined): Record<string, string> => ({
  ...bearer(keys.desk),
  accept,
  'content-type': 'application/json',
  'mcp-session-id': session!,
  'mcp-protocol-version': '2025-11-25',
});

/** What the body of the only run noted, once it noted so many lines. */
async function noted(count: number): Promise<string[]> {
  await until(() => fleet.wholeJournal().length >= count);
  return fleet.wholeJournal().map(({ what }) => what);
}

describe('a host cancels a call by another replica than the one where it waits', () => {
  async function cancelled(hostCancel: 'detach' | 'cancel'): Promise<{ waiting: Exchange; id: string }> {
    fleet = await Fleet.start('postgres', {
      HOLDFAST_TOOLS: toolsOf('attentive'),
      HOLDFAST_HOST_CANCEL: hostCancel,
    });
    const { session, begin } = await fleet.host('legacy');
    const waiting = begin('wait', {}, { id: 'c-1' });
    await until(() => waiting.received().includes('id: '));
    await noted(1);
    const id = await runIdOf(fleet, 'running');
    const notice = await exchange(fleet.url(1), {
      headers: ofSession(session),
      body: { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'c-1' } },
    }).answer;
    expect(notice.status).toBe(202);
    // Nothing is sent for a request that was cancelled.
    expect((await waiting.answer).messages).toEqual([]);
    return { waiting, id };
  }

  test('detach: nobody waits any more, and the run goes on', async () => {
    const { id } = await cancelled('detach');
    expect(await fleet.run(id)).toMatchObject({ state: 'running', attempt: 1 });
    expect(await noted(1)).toEqual(['start']);
  });

  test('cancel: the run is cancelled, and its body is told', async () => {
    const { id } = await cancelled('cancel');
    await until(async () => (await fleet.run(id)).state === 'cancelled');
    expect(await noted(2)).toEqual(['start', 'aborted']);
  });
});

test('a run that is cancelled by the API ends everywhere: its body is told, and its hosts too', async () => {
  fleet = await Fleet.start('postgres', { HOLDFAST_TOOLS: toolsOf('attentive') });
  const hosts: Host[] = await Promise.all(eras.map((era) => fleet.host(era)));
  const waiting = hosts.map((host, i) => host.begin('wait', {}, { token: 't-1', via: fleet.url(i) }));
  await noted(1);
  const id = await runIdOf(fleet, 'running');
  expect(await fleet.cancel(id, 1)).toMatchObject({ status: 200, body: { id, state: 'cancelled' } });
  for (const { answer } of waiting) {
    const { result } = (await answer).messages.at(-1)!;
    expect(errorNameOf(result!)).toBe('RunCancelled');
  }
  expect(await noted(2)).toEqual(['start', 'aborted']);
  expect(await fleet.run(id)).toMatchObject({ state: 'cancelled', attempt: 1 });
  expect((await fleet.cancel(id)).status).toBe(200);
});

test('hosts of both eras hear on every replica that a group of workers brought other tools', async () => {
  fleet = await Fleet.start('postgres');
  const legacy = await Promise.all([0, 1].map((gateway) => fleet.host('legacy', { gateway })));
  const modern = await fleet.host('modern');
  const streams = [
    ...legacy.map(({ session }, i) =>
      exchange(fleet.url(i), {
        method: 'GET',
        headers: { ...ofSession(session), accept: 'text/event-stream' },
      }),
    ),
    ...[0, 1].map((gateway) =>
      modern.send(
        'subscriptions/listen',
        { notifications: { toolsListChanged: true } },
        { via: fleet.url(gateway) },
      ),
    ),
  ];
  await until(() =>
    streams.every(({ received }, i) => received().includes(i < 2 ? ': open' : 'subscriptions/acknowledged')),
  );
  const heard = ({ received }: Exchange): number =>
    messagesOf(received().replace(/^: .*\n\n/gm, '')).filter(
      ({ method }) => method === 'notifications/tools/list_changed',
    ).length;
  const hearAgain = async (change: () => Promise<unknown>): Promise<void> => {
    const before = streams.map(heard);
    await change();
    await until(() => streams.every((stream, i) => heard(stream) > before[i]!));
  };
  const names = (gateway: number): Promise<string[]> =>
    modern
      .send('tools/list', {}, { via: fleet.url(gateway) })
      .answer.then(({ messages }) =>
        (messages[0]!.result!['tools'] as { name: string }[]).map(({ name }) => name),
      );

  const more = { ...fleet.env, HOLDFAST_WORKER_GROUP: 'more' };
  await hearAgain(async () =>
    fleet.workers.push(await startWorker({ ...more, HOLDFAST_TOOLS: toolsOf('echo') })),
  );
  for (const gateway of [0, 1]) expect(await names(gateway)).toContain('whoami');

  await hearAgain(async () =>
    fleet.workers.push(await startWorker({ ...more, HOLDFAST_TOOLS: toolsOf('attentive') })),
  );
  for (const gateway of [0, 1]) {
    expect(await names(gateway)).toContain('wait');
    expect(await names(gateway)).not.toContain('whoami');
  }
});
