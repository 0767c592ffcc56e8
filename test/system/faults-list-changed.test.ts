import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { tool, type ScriptableUpstream } from '../servers/index.ts';
import { errorNameOf, exchange, textOf, type Exchange, type Host } from './host.ts';
import { keys } from './fleet.ts';
import { runIdOf } from './breaking.ts';
import { until } from './service.ts';
import { toolsOf, UpstreamFleet } from './upstream-fleet.ts';

let own: UpstreamFleet;
let host: Host;
let stream: Exchange;
beforeAll(async () => {
  own = await UpstreamFleet.start('standalone');
  const listening = await own.fleet.host('legacy');
  host = listening;
  stream = exchange(own.fleet.url(), {
    method: 'GET',
    headers: {
      authorization: `Bearer ${keys.desk}`,
      accept: 'text/event-stream',
      'mcp-session-id': listening.session!,
      'mcp-protocol-version': '2025-11-25',
    },
  });
});
afterAll(() => own.dispose());

const told = (): number => stream.received().split('notifications/tools/list_changed').length - 1;
const lists = (upstream: ScriptableUpstream): number => upstream.requests('tools/list').length;
const listening = (upstream: ScriptableUpstream): Promise<boolean> => until(() => upstream.listeners === 1);

describe.each(['legacy', 'modern'] as const)('an upstream of the %s era', (era) => {
  test('F77 that says after each list that its tools changed is listed less and less, and hosts hear nothing', async () => {
    const upstream = await own.upstream({ era, changesPerList: 3 });
    const began = performance.now();
    await own.connect({ id: `echoing-${era}`, url: upstream.url }, host);
    await listening(upstream);
    const before = told();
    upstream.toolsChanged();
    // Each list has it say so again: the second and third come after pauses of at least one and of two seconds.
    await until(() => lists(upstream) >= 4);
    expect(performance.now() - began).toBeGreaterThan(3_000);
    expect(told()).toBe(before);
  });

  test('F79 that says so 200 times inside one call is listed twice at most, and hosts see the last state', async () => {
    const upstream = await own.upstream({ era, pages: [[tool('stir', { changes: 200 })]] });
    const id = `stirring-${era}`;
    await own.connect({ id, url: upstream.url }, host);
    await listening(upstream);
    const before = lists(upstream);
    upstream.script.pages = [[tool('stir', { changes: 200 }), tool('last')]];
    await host.call(`${id}__stir`, {});
    upstream.toolsChanged(200);
    await until(async () => (await toolsOf(host)).some(({ name }) => name === `${id}__last`));
    expect(lists(upstream) - before).toBeLessThanOrEqual(2);
  });

  test('F81 that removes one tool and changes another: the first is gone by name, the second is called as it is now', async () => {
    const kept = (property: string): ReturnType<typeof tool> =>
      tool('kept', {
        definition: {
          inputSchema: {
            type: 'object',
            properties: { [property]: { type: 'string' } },
            additionalProperties: false,
          },
        },
      });
    const upstream = await own.upstream({ era, pages: [[tool('goes'), tool('holds'), kept('old')]] });
    const id = `changing-${era}`;
    await own.connect({ id, name: 'Server that changes', url: upstream.url, concurrency: 1 }, host);
    await listening(upstream);
    const old = await host.call(`${id}__goes`, { n: 1 }, { token: `goes-${era}` });
    const before = told();
    // One call is under way, and one that was accepted waits for its turn.

    upstream.faults.push({ on: 'tools/call', tool: 'holds', do: { kind: 'hang' } });
    const holding = host.begin(`${id}__holds`, {});
    await until(() => upstream.executions.all.length === 2);

    const waiting = host.call(`${id}__goes`, { n: 2 }, { token: `waits-${era}` });
    waiting.catch(() => {});
    await until(async () => {
      const { body } = await own.fleet.api(`/runs?tool=${id}__goes`);
      return (body['runs'] as unknown[]).length === 2;
    });
    upstream.script.pages = [[kept('new'), tool('holds')]];
    upstream.toolsChanged();
    await until(() => told() > before);

    await own.fleet.cancel(await runIdOf(own.fleet, `running&tool=${id}__holds`));

    await holding.answer;

    const withdrawn = await waiting;

    expect(errorNameOf(withdrawn)).toBe('ToolWithdrawn');
    expect(textOf(withdrawn)).toMatch(/Server that changes does not (publish|offer) goes any more; list/);
    // One that comes later gets the same word.
    const late = await host.call(`${id}__goes`, {});
    expect(errorNameOf(late)).toBe('ToolWithdrawn');
    expect(textOf(late)).toContain(`does not offer ${id}__goes any more; list the tools again`);
    expect(errorNameOf(await host.call(`${id}__kept`, { old: 'x' }))).toBe('InvalidArguments');
    expect(textOf(await host.call(`${id}__kept`, { new: 'x' }))).toBe('{"new":"x"}');
    const executed = upstream.executions.all.map(({ tool }) => tool);
    expect(executed).toEqual(['goes', 'holds', 'kept']);
    // What was called while it was there is answered still.
    const again = await host.call(`${id}__goes`, { n: 1 }, { token: `goes-${era}` });
    expect(again.content).toEqual(old.content);
    expect(executed).toEqual(upstream.executions.all.map(({ tool }) => tool));
  });
});

test('F77 variant: a server on whose list nothing but the order changed is no news to hosts', async () => {
  const upstream = await own.upstream({ pages: [[tool('a'), tool('b')]] });
  await own.connect({ id: 'order', url: upstream.url }, host);
  await listening(upstream);
  const before = told();
  const at = lists(upstream);
  upstream.script.pages = [[tool('b'), tool('a')]];
  upstream.toolsChanged();
  await until(() => lists(upstream) > at);
  // What comes after it is heard, so nothing is on its way.
  upstream.script.pages = [[tool('b'), tool('a'), tool('c')]];
  upstream.toolsChanged();
  await until(() => told() > before);
  expect(told()).toBe(before + 1);
});

test('F79 variant: a re-list that fails keeps the tools of before, and they are called', async () => {
  const upstream = await own.upstream({ era: 'legacy', pages: [[tool('steady')]] });
  await own.connect({ id: 'failing', url: upstream.url }, host);
  await listening(upstream);
  upstream.faults.push({ on: 'tools/list', times: 1, do: { kind: 'raw', body: '{"jsonrpc":"2.0","id":{id},"result":{"tools":"none"}}' } }); // prettier-ignore
  upstream.toolsChanged();
  expect(await own.diagnostic('failing')).toMatch(/cannot be read to their end/);
  expect((await toolsOf(host)).map(({ name }) => name)).toContain('failing__steady');
  expect(textOf(await host.call('failing__steady', {}))).toBe('{}');
});

describe('a tool that goes between the list of a host and the call', () => {
  test('F81 variant: with its server, or behind a filter of the operator, is refused and reaches nobody', async () => {
    const upstream = await own.upstream({ pages: [[tool('x'), tool('y')]] });
    const entry = { id: 'leaving', name: 'Leaving', url: upstream.url };
    await own.connect(entry, host);
    own.set({ ...entry, deny: ['x'] });
    await until(async () => !(await toolsOf(host)).some(({ name }) => name === 'leaving__x'));
    expect(errorNameOf(await host.call('leaving__x', {}))).toBe('ToolWithdrawn');
    expect(textOf(await host.call('leaving__y', {}))).toBe('{}');
    own.remove('leaving');
    await until(async () => !(await toolsOf(host)).some(({ name }) => name === 'leaving__y'));
    expect(errorNameOf(await host.call('leaving__y', {}))).toBe('ToolWithdrawn');
    expect(upstream.executions.all.map(({ tool }) => tool)).toEqual(['y']);
  });
});
