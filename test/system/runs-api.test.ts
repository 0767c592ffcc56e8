import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { adminKey, Fleet, keys } from './fleet.ts';
import { runOf } from './host.ts';
import { stopEverything } from './service.ts';

interface Listed {
  readonly id: string;
  readonly tool: string;
  readonly state: string;
  readonly principal: { readonly realm: string; readonly id: string } | null;
}

describe.each(['standalone', 'postgres'] as const)('runs of a %s fleet', (kind) => {
  const token = 'a-token-that-is-nobody-s-business';
  let fleet: Fleet;
  /** Runs in the order in which they were made. */
  const made: string[] = [];

  beforeAll(async () => {
    fleet = await Fleet.start(kind, {}, { gateways: 1, workers: 1 });
    const desk = await fleet.host('modern');
    const ci = await fleet.host('legacy', { key: keys.ci });
    made.push(runOf(await desk.call('refund_order', { order_id: 'o-1' }, { token })).id);
    made.push(runOf(await desk.call('lookup_order', { order_id: 'o-2' })).id);
    made.push(runOf(await ci.call('lookup_order', { order_id: 'o-3' })).id);
    made.push(runOf(await ci.call('boom', { msg: 'no such order' })).id);
    made.push(runOf(await ci.call('lookup_order', { order_id: 'o-4' })).id);
  });
  afterAll(async () => {
    await fleet.dispose();
    await stopEverything();
  });

  const list = async (query: string): Promise<{ runs: Listed[]; cursor?: string }> => {
    const { status, body } = await fleet.api(`/runs${query}`);
    expect({ query, status }).toEqual({ query, status: 200 });
    return body as unknown as { runs: Listed[]; cursor?: string };
  };
  const numbers = (runs: readonly Listed[]): number[] => runs.map(({ id }) => made.indexOf(id));

  test('are listed to an admin, the newest first', async () => {
    const { runs, ...more } = await list('');
    expect(numbers(runs)).toEqual([4, 3, 2, 1, 0]);
    expect(more).toEqual({});
    expect(runs.at(-1)).toEqual({
      id: made[0],
      tool: 'refund_order',
      tool_class: 'write',
      principal: { realm: 'apikey', id: 'desk' },
      state: 'succeeded',
      attempt: 1,
      submitted_at: expect.any(String),
      started_at: expect.any(String),
      finished_at: expect.any(String),
    });
  });

  test.each([
    ['?state=failed', [3]],
    ['?state=queued', []],
    ['?tool=lookup_order', [4, 2, 1]],
    ['?principal=ci', [4, 3, 2]],
    ['?tool=lookup_order&principal=ci&state=succeeded', [4, 2]],
    ['?tool=no_such_tool', []],
  ])('are filtered by %s', async (query, expected) => {
    expect(numbers((await list(query)).runs)).toEqual(expected);
  });

  test('come in pages to the end, with their filter', async () => {
    const pages: number[][] = [];
    let cursor: string | undefined;
    do {
      const page = await list(`?limit=2&tool=lookup_order${cursor === undefined ? '' : `&cursor=${cursor}`}`);
      pages.push(numbers(page.runs));
      cursor = page.cursor;
    } while (cursor !== undefined);
    expect(pages).toEqual([[4, 2], [1]]);
  });

  test.each([
    ['state', 'finished'],
    ['limit', '0'],
    ['limit', '201'],
    ['limit', 'many'],
    ['cursor', 'here'],
    ['cursor', '-1'],
    ['tool', 'x'.repeat(257)],
    ['colour', 'red'],
  ])('a query with a wrong %s is refused by name', async (field, value) => {
    const { status, body } = await fleet.api(`/runs?${field}=${value}`);
    expect(status).toBe(400);
    expect(body).toEqual({ error: { name: 'BadRequest', message: expect.stringContaining(field) } });
  });

  test('are not listed without an admin key', async () => {
    expect((await fleet.api('/runs', '')).status).toBe(401);
    expect((await fleet.api('/runs', 'wrong')).status).toBe(401);
    expect((await fleet.api('/runs', keys.desk)).status).toBe(403);
    const anonymous = await fetch(`${fleet.gateways[0]!.base}/api/runs`);
    expect(anonymous.status).toBe(401);
    expect(anonymous.headers.get('www-authenticate')).toBe('Bearer');
    expect(await anonymous.json()).toEqual({
      error: { name: 'Unauthorized', message: expect.stringContaining('HOLDFAST_ADMIN_KEYS') },
    });
  });

  test('one is shown to its caller and to an admin, and is not there for anybody else', async () => {
    const path = `/runs/${made[0]}`;
    for (const key of [adminKey, keys.desk]) {
      const { status, body } = await fleet.api(path, key);
      expect(status).toBe(200);
      expect(body).toMatchObject({
        id: made[0],
        arguments: { order_id: 'o-1' },
        result: { content: [{ type: 'text', text: 'refunded o-1' }] },
      });
      expect((body['events'] as { event: string }[]).map(({ event }) => event)).toEqual([
        'submitted',
        'attempt_started',
        'succeeded',
      ]);
    }
    const others = await fleet.api(path, keys.ci);
    expect(others.status).toBe(404);
    for (const id of [`r0_${made[0]!.slice(3)}`, 'nonsense', '..%2f..%2fhealthz'])
      expect(await fleet.api(`/runs/${id}`, keys.ci)).toEqual(others);
    expect((await fleet.api(path, 'wrong')).status).toBe(401);
  });

  test('a failed one tells its error', async () => {
    expect(await fleet.run(made[3]!)).toMatchObject({
      state: 'failed',
      error: { name: 'ToolError', message: 'no such order', outcome: 'ran' },
    });
  });

  test('hold no key and no token, and a list of them no arguments', async () => {
    const shown = await Promise.all(made.map((id) => fleet.run(id)));
    const listed = JSON.stringify(await list(''));
    const everything = JSON.stringify(shown) + listed;
    for (const secret of [token, adminKey, ...Object.values(keys)]) expect(everything).not.toContain(secret);
    expect(listed).not.toContain('o-1');
    expect(listed).not.toContain('refunded');
  });

  test('a page of another origin sees nothing of them', async () => {
    const answer = await fetch(`${fleet.gateways[0]!.base}/api/runs`, {
      headers: { authorization: `Bearer ${adminKey}`, origin: 'https://elsewhere.example' },
    });
    expect(answer.status).toBe(403);
    expect(await answer.json()).toEqual({ error: { name: 'Forbidden', message: expect.any(String) } });
  });
});
