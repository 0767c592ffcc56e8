import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { join } from 'node:path';
import { Fleet } from './fleet.ts';
import { eras, resultOf, runOf, textOf, type Host } from './host.ts';
import { root } from './service.ts';

const callers = Array.from({ length: 50 }, (_, i) => `user-${i}`);
const rounds = 40;

let fleet: Fleet;
/** One host a caller, by turns of either era. */
let hosts: Host[];
beforeAll(async () => {
  fleet = await Fleet.start(
    'postgres',
    {
      HOLDFAST_TOOLS: join(root, 'test/system/tools/echo.ts'),
      HOLDFAST_API_KEYS: JSON.stringify(
        Object.fromEntries(callers.map((name) => [name, `key-of-${name}-in-tests`])),
      ),
      HOLDFAST_LOG_LEVEL: 'info',
    },
    { gateways: 3, workers: 2 },
  );
  hosts = await Promise.all(
    callers.map((name, i) => fleet.host(eras[i % 2]!, { key: `key-of-${name}-in-tests`, gateway: i })),
  );
}, 60_000);
afterAll(() => fleet.dispose());

test('F200 50 callers, all with the id 2, make 2,000 calls over three gateways: none gets what is not its own', async () => {
  const runs = new Set<string>();
  await Promise.all(
    hosts.map(async (host, i) => {
      for (let round = 0; round < rounds; round++) {
        const note = `round ${round}`;
        const options = { id: 2, via: fleet.url(i + round) };
        const answer = await host.begin('whoami', { note }, options).answer;
        const result = resultOf(answer);
        expect(answer.messages.at(-1)!.id).toBe(2);
        expect(textOf(result)).toBe(`${callers[i]} ${note}`);
        runs.add(runOf(result).id);
      }
    }),
  );
  expect(runs.size).toBe(callers.length * rounds);
}, 120_000);

test('F200 variant: one token for all of them, and the same progress token: 50 runs, each with its own progress', async () => {
  const meta = { progressToken: 'p' };
  const results = await Promise.all(
    hosts.map(async (host, i) => {
      const call = { id: 2, token: 'shared', meta, via: fleet.url(i) };
      const { messages } = await host.begin('whoami', { note: 'once' }, call).answer;
      for (const { params } of messages.slice(0, -1))
        expect(params).toMatchObject({ progressToken: 'p', message: `${callers[i]} once` });
      const repeat = await host.call('whoami', { note: 'once' }, { ...call, via: fleet.url(i + 1) });
      expect(runOf(repeat)).toEqual({ ...runOf(messages.at(-1)!.result!), reattached: true });
      return repeat;
    }),
  );
  expect(results.map(textOf)).toEqual(callers.map((name) => `${name} once`));
  expect(new Set(results.map((result) => runOf(result).id)).size).toBe(callers.length);
}, 60_000);

test('F200 variant: a run is shown to its caller, and its token is of no use to others', async () => {
  const [mine, theirs] = hosts as [Host, Host];
  const { id } = runOf(await mine.call('whoami', { note: 'mine' }, { token: 'private' }));
  expect((await fleet.api(`/runs/${id}`, `key-of-${callers[0]}-in-tests`)).status).toBe(200);
  expect((await fleet.api(`/runs/${id}`, `key-of-${callers[1]}-in-tests`)).status).toBe(404);
  const other = await theirs.call('whoami', { note: 'mine' }, { token: 'private' });
  expect(textOf(other)).toBe(`${callers[1]} mine`);
  expect(runOf(other).id).not.toBe(id);
});
