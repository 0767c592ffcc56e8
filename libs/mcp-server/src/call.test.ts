import { describe, expect, test } from '@jest/globals';
import { RunError } from '@holdfast/run';
import type { RunStore, Store } from '@holdfast/store';
import { defineTool } from '@holdfast/tools';
import { openToAll } from './auth.js';
import {
  changed,
  ci,
  deaf,
  definitions,
  eras,
  errorNameOf,
  memoryStore,
  openGateway,
  resultOf,
  runOf,
  textOf,
  until,
} from './test-gateway.js';

/** The store with some verbs of its runs replaced. */
const withRuns = (store: Store, change: Partial<RunStore>): Store =>
  changed(store, { runs: changed(store.runs, change) });

describe.each(eras)('on the %s era', (era) => {
  describe('a call', () => {
    test('becomes a run of its caller, and its result names the run', async () => {
      const gateway = await openGateway();
      const host = await gateway.host(era);
      const waiting = host.begin('refund_order', { order_id: 'o-1' });
      const claim = await gateway.claim();
      expect(claim.run).toMatchObject({
        workflow: 'mcp:tool:refund_order',
        tool: 'refund_order',
        toolClass: 'write',
        principal: { realm: 'apikey', id: 'desk' },
        arguments: '{"order_id":"o-1"}',
        digest: expect.stringMatching(/^a1_[0-9a-f]{64}$/),
        definition: definitions.find(({ name }) => name === 'refund_order')!.digest,
      });
      expect(claim.run.id).toMatch(/^r0_/);
      await gateway.finish(claim, 'refunded');
      const result = resultOf(await waiting.answer);
      expect(textOf(result)).toBe('refunded');
      expect(result.isError).toBeUndefined();
      expect(runOf(result)).toEqual({ id: claim.run.id, attempt: 1, reattached: false });
      expect(gateway.seen).toEqual(['fresh', 'ran']);
    });

    test('without arguments has an empty object of them', async () => {
      const gateway = await openGateway();
      gateway.finishAll();
      const host = await gateway.host(era);
      resultOf(await host.send('tools/call', { name: 'work' }).answer);
      expect((await gateway.runs()).map((run) => run.arguments)).toEqual(['{}']);
    });

    test('of a run that failed is a tool error with the name and the facts', async () => {
      const gateway = await openGateway();
      const host = await gateway.host(era);
      const waiting = host.begin('work', {});
      const claim = await gateway.claim();
      const error = { name: 'ToolError', message: 'out of stock', outcome: 'ran', retryable: true } as const;
      await gateway.finish(claim, error);
      const result = resultOf(await waiting.answer);
      expect(result.isError).toBe(true);
      expect(textOf(result)).toBe('ToolError: out of stock');
      const told = { name: 'ToolError', message: 'out of stock', run_id: claim.run.id, retryable: true, outcome: 'ran' }; // prettier-ignore
      expect(result._meta).toMatchObject({
        'holdfast/error': told,
        'holdfast/run': { id: claim.run.id, attempt: 1, reattached: false },
      });
      expect(result.structuredContent).toEqual({ error: told });
    });

    test('of an unknown tool is -32602 and makes no run', async () => {
      const gateway = await openGateway();
      const host = await gateway.host(era);
      for (const name of ['nope', '', 'Work', 'work.', '__proto__', 'constructor']) {
        const failure = await host.call(name, {}).catch((error: unknown) => error);
        expect([name, failure]).toEqual([name, expect.objectContaining({ code: -32602, status: 200 })]);
      }
      expect(await gateway.runs()).toEqual([]);
      expect(gateway.log).toEqual([]);
    });

    test.each([
      [{}, 'order_id: is required'],
      [{ order_id: 7 }, 'order_id: must be string'],
      [{ order_id: 'o', extra: 1 }, 'extra: is not an argument of this tool'],
      [{ order_id: 'o', lines: [{ price: 1 }, { price: 'x' }] }, 'lines[1].price: must be number'],
    ])('with the arguments %j names the path of what is wrong', async (args, message) => {
      const gateway = await openGateway();
      const result = await (await gateway.host(era)).call('refund_order', args, { token: 'k' });
      expect([errorNameOf(result), result._meta!['holdfast/error']!.message]).toEqual([
        'InvalidArguments',
        message,
      ]);
      expect(await gateway.runs()).toEqual([]);
      gateway.finishAll();
      const fixed = await (await gateway.host(era)).call('refund_order', { order_id: 'o' }, { token: 'k' });
      expect(runOf(fixed).reattached).toBe(false);
    });

    test.each([
      '{"n":9007199254740993}',
      '{"n":1e400}',
      '{"n":"\\ud800"}',
      '{"a":[{"n":123456789012345678901}]}',
    ])('with %s, which could not be told apart, is refused', async (raw) => {
      const gateway = await openGateway();
      const result = await (await gateway.host(era)).call('work', {}, { raw });
      expect(errorNameOf(result)).toBe('InvalidArguments');
      expect(await gateway.runs()).toEqual([]);
    });
  });

  describe('a token', () => {
    test('names one run: a repeat waits for it while it runs and gets its result after', async () => {
      const gateway = await openGateway();
      const host = await gateway.host(era);
      const first = host.begin('work', { a: 1, b: [1.0] }, { token: 't' });
      const claim = await gateway.claim();
      const second = host.begin('work', { a: 1, b: [1.0] }, { token: 't', raw: '{"b":[1e0], "a":1.0}' });
      await until(() => gateway.seen.includes('reattached'));
      await gateway.finish(claim, 'once');
      const results = [
        resultOf(await first.answer),
        resultOf(await second.answer),
        await host.call('work', { a: 1, b: [1] }, { token: 't' }),
      ];
      expect(results.map(textOf)).toEqual(['once', 'once', 'once']);
      expect(results.map((result) => runOf(result))).toEqual(
        [false, true, true].map((reattached) => ({ id: claim.run.id, attempt: 1, reattached })),
      );
      expect(claim.run.id).toMatch(/^r1_[0-9a-f]{64}$/);
      expect((await gateway.runs()).length).toBe(1);
    });

    test('with other arguments is a conflict, and the first run is unchanged', async () => {
      const gateway = await openGateway();
      const host = await gateway.host(era);
      const first = host.begin('work', { n: 1 }, { token: 't' });
      const claim = await gateway.claim();
      expect(errorNameOf(await host.call('work', { n: 2 }, { token: 't' }))).toBe('IdempotencyConflict');
      await gateway.finish(claim, 'one');
      expect(errorNameOf(await host.call('work', {}, { token: 't' }))).toBe('IdempotencyConflict');
      expect(textOf(resultOf(await first.answer))).toBe('one');
      expect((await gateway.runs()).length).toBe(1);
    });

    test('of another caller, or with another tool, is another', async () => {
      const gateway = await openGateway();
      gateway.finishAll();
      const ids = [
        await (await gateway.host(era)).call('work', {}, { token: 't' }),
        await (await gateway.host(era, ci)).call('work', {}, { token: 't' }),
        await (await gateway.host(era)).call('lookup_order', {}, { token: 't' }),
      ].map((result) => runOf(result).id);
      expect(new Set(ids).size).toBe(3);
    });

    test('of a run that failed gives the same failure, and nothing runs again', async () => {
      const gateway = await openGateway();
      const host = await gateway.host(era);
      const first = host.begin('work', {}, { token: 't' });
      const claim = await gateway.claim();
      await gateway.finish(claim, { name: 'ToolError', message: 'no', outcome: 'ran', retryable: true });
      await first.answer;
      const second = await host.call('work', {}, { token: 't' });
      expect([errorNameOf(second), runOf(second)]).toEqual([
        'ToolError',
        { id: claim.run.id, attempt: 1, reattached: true },
      ]);
    });

    test.each([null, 1, '', true, {}, [], 'x'.repeat(257), '😀'.repeat(257), '\ud800'])(
      '%j is a tool error, and there is no run',
      async (token) => {
        const gateway = await openGateway();
        const result = await (await gateway.host(era)).call('work', {}, { token });
        expect(result.isError).toBe(true);
        expect(errorNameOf(result)).toBe('InvalidIdempotencyToken');
        expect(await gateway.runs()).toEqual([]);
      },
    );

    test.each(['x', ' ', 'x'.repeat(256), '😀'.repeat(256), '\n\0'])('%j is a token', async (token) => {
      const gateway = await openGateway();
      gateway.finishAll();
      const host = await gateway.host(era);
      await host.call('work', {}, { token });
      expect(runOf(await host.call('work', {}, { token })).reattached).toBe(true);
    });

    test('that is absent makes every call a run of its own, whatever the request id', async () => {
      const gateway = await openGateway();
      gateway.finishAll();
      const host = await gateway.host(era);
      const ids = [await host.call('work', {}, { id: 1 }), await host.call('work', {}, { id: 1 })];
      expect(new Set(ids.map((result) => runOf(result).id)).size).toBe(2);
    });

    test('used at once on two replicas makes one run, and both get its result', async () => {
      const one = await openGateway();
      const other = await openGateway({ store: one.store });
      const calls = await Promise.all(
        [one, other, one, other].map(async (gateway) =>
          (await gateway.host(era)).begin('work', {}, { token: 't' }),
        ),
      );
      await one.finish(await one.claim(), 'done');
      const results = (await Promise.all(calls.map(({ answer }) => answer))).map(resultOf);
      expect(results.map(textOf)).toEqual(['done', 'done', 'done', 'done']);
      expect(results.filter((result) => !runOf(result).reattached).length).toBe(1);
      expect((await one.runs()).length).toBe(1);
    });

    test('still gets its result when the schema is tighter now, and when the tool is gone', async () => {
      const gateway = await openGateway();
      gateway.finishAll();
      const host = await gateway.host(era);
      const { id } = runOf(await host.call('work', { n: 1 }, { token: 't' }));
      const tighter = defineTool({
        name: 'work',
        description: 'Works.',
        input: { type: 'object', properties: { n: { type: 'string' } } },
        run: () => '',
      }).definition;
      for (const tools of [[tighter], []]) {
        await gateway.store.tools.register('default', tools);
        const repeat = await host.call('work', { n: 1 }, { token: 't' });
        expect(runOf(repeat)).toMatchObject({ id, reattached: true });
        expect(errorNameOf(await host.call('work', { n: 2 }, { token: 't' }))).toBe('IdempotencyConflict');
      }
      await expect(host.call('work', { n: 1 }, { token: 'new' })).rejects.toMatchObject({ code: -32602 });
    });

    test('whose run is no longer kept is new, or expired where used tokens are remembered', async () => {
      const gateway = await openGateway();
      gateway.finishAll();
      const host = await gateway.host(era);
      const { id } = runOf(await host.call('work', {}, { token: 't' }));
      const later = new Date(Date.now() + 60_000);
      await gateway.store.runs.removeFinished(later, 10);
      const again = runOf(await host.call('work', {}, { token: 't' }));
      expect(again).toEqual({ id, attempt: 1, reattached: false });
      await gateway.store.runs.removeFinished(later, 10, { rememberUntil: later });
      expect(errorNameOf(await host.call('work', {}, { token: 't' }))).toBe('IdempotencyExpired');
    });

    test('made under the key before finds its run after the key changed', async () => {
      const before = await openGateway({ settings: { runIdKeys: [Buffer.alloc(32, 1)] } });
      before.finishAll();
      const { id } = runOf(await (await before.host(era)).call('work', {}, { token: 't' }));
      const runIdKeys = [Buffer.alloc(32, 2), Buffer.alloc(32, 1)] as const;
      const after = await openGateway({ store: before.store, settings: { runIdKeys } });
      const repeat = runOf(await (await after.host(era)).call('work', {}, { token: 't' }));
      expect(repeat).toEqual({ id, attempt: 1, reattached: true });
    });
  });

  describe('the wait', () => {
    test('ends at its limit with a tool error, and the run goes on', async () => {
      const gateway = await openGateway({ settings: { waitTimeoutMs: 50 } });
      const host = await gateway.host(era);
      const late = await host.call('work', {}, { token: 't' });
      expect(late._meta?.['holdfast/error']).toMatchObject({
        name: 'WaitTimeout',
        outcome: 'pending',
        retryable: true,
        run_id: runOf(late).id,
      });
      expect(gateway.waiting()).toBe(0);
      await gateway.finish(await gateway.claim(), 'done');
      const result = await host.call('work', {}, { token: 't' });
      expect([textOf(result), runOf(result).id]).toEqual(['done', runOf(late).id]);
      expect(gateway.seen).toEqual(['fresh', 'pending', 'reattached', 'ran']);
    });

    test('goes on without signals of the store', async () => {
      const gateway = await openGateway({ store: deaf(await memoryStore()) });
      const waiting = (await gateway.host(era)).begin('work', {});
      await gateway.finish(await gateway.claim(), 'done');
      expect(textOf(resultOf(await waiting.answer))).toBe('done');
    });
  });

  describe('an identity function', () => {
    test('overrides who calls, and sees the id, the meta and the caller', async () => {
      const asked: unknown[] = [];
      const identityFromRequest = (request: unknown) => (asked.push(request), 'somebody');
      const gateway = await openGateway({ hooks: { identityFromRequest } });
      gateway.finishAll();
      const one = await (
        await gateway.host(era)
      ).call('work', {}, { token: 't', id: 'x', meta: { tenant: 7 } });
      const other = await (await gateway.host(era, ci)).call('work', {}, { token: 't' });
      expect(runOf(other)).toEqual({ ...runOf(one), reattached: true });
      expect((await gateway.runs())[0]!.principal).toEqual({ realm: 'override', id: 'somebody' });
      expect(asked[0]).toMatchObject({
        id: 'x',
        _meta: { tenant: 7, idempotency_key: 't' },
        principal: 'desk',
      });
    });

    test.each([null, undefined])('that says %p means nobody: a token is ignored, a malformed one too', async (nobody) => {
      const gateway = await openGateway({ hooks: { identityFromRequest: async () => nobody }, settings: { dedupeWindowMs: 60_000 } });
      gateway.finishAll();
      const host = await gateway.host(era);
      const results = [];
      for (const token of ['t', 't', null, '', 7]) results.push(await host.call('work', {}, { token }));
      expect(new Set(results.map((result) => runOf(result).id)).size).toBe(5);
      expect((await gateway.runs()).map(({ principal }) => principal)).toEqual([null, null, null, null, null]);
      expect(gateway.log).toEqual([]);
    }); // prettier-ignore

    test.each([
      ['throws', () => { throw new Error('secret detail'); }],
      ['gives a number', () => 7],
      ['gives a blank', () => ' '],
      ['gives an object', () => ({ id: 'x' })],
    ])('that %s is an internal error that says nothing, and there is no run', async (_what, identityFromRequest) => {
      const gateway = await openGateway({ hooks: { identityFromRequest } });
      const { body } = await (await gateway.host(era)).begin('work', {}, { token: 't' }).answer;
      expect(body).toContain('internal error');
      expect(body).not.toMatch(/secret|identityFromRequest|Error:.*at /);
      expect(await gateway.runs()).toEqual([]);
      expect(gateway.log.map(({ level }) => level)).toEqual(['error']);
    }); // prettier-ignore
  });

  describe('a token function', () => {
    test('gives the token of a call, in place of the one that was sent', async () => {
      const gateway = await openGateway({
        hooks: { idempotencyFromRequest: async ({ _meta }) => _meta?.['vendor/key'] },
      });
      gateway.finishAll();
      const host = await gateway.host(era);
      const call = (meta: Record<string, unknown>) => host.call('work', {}, { meta });
      const first = runOf(await call({ 'vendor/key': 'a', idempotency_key: '1' }));
      expect(runOf(await call({ 'vendor/key': 'a', idempotency_key: '2' }))).toEqual({
        ...first,
        reattached: true,
      });
      expect(runOf(await call({ idempotency_key: '1' })).id).toMatch(/^r0_/);
      expect(runOf(await call({ 'vendor/key': null })).id).toMatch(/^r0_/);
      expect(errorNameOf(await call({ 'vendor/key': '' }))).toBe('InvalidIdempotencyToken');
    });

    test('that throws is an internal error that says nothing, and there is no run', async () => {
      const idempotencyFromRequest = () => {
        throw new Error('secret detail');
      };
      const gateway = await openGateway({ hooks: { idempotencyFromRequest } });
      const { body } = await (await gateway.host(era)).begin('work', {}).answer;
      expect(body).toContain('internal error');
      expect(body).not.toContain('secret');
      expect(await gateway.runs()).toEqual([]);
    });
  });

  describe('callers without identity', () => {
    test('share one scope, and the first token is warned of once', async () => {
      const gateway = await openGateway({ auth: openToAll });
      gateway.finishAll();
      const host = await gateway.host(era);
      await host.call('work', {});
      expect(gateway.log).toEqual([]);
      const first = runOf(await host.call('work', {}, { token: 'secret-token' }));
      const second = runOf(await (await gateway.host(era)).call('work', {}, { token: 'secret-token' }));
      expect(second).toEqual({ ...first, reattached: true });
      expect(gateway.log.map(({ level }) => level)).toEqual(['warn']);
      expect(JSON.stringify([gateway.log, gateway.debugLog])).not.toContain('secret-token');
    });

    test('that authenticated are not warned of', async () => {
      const gateway = await openGateway();
      gateway.finishAll();
      await (await gateway.host(era)).call('work', {}, { token: 't' });
      expect(gateway.log).toEqual([]);
    });
  });

  describe('calls without a token that repeat within the window', () => {
    test('attach to the first, marked so; other arguments, tools and callers do not', async () => {
      const gateway = await openGateway({ settings: { dedupeWindowMs: 60_000 } });
      gateway.finishAll();
      const host = await gateway.host(era);
      const first = runOf(await host.call('work', { n: 1 }));
      expect(first.id).toMatch(/^r0_/);
      expect(runOf(await host.call('work', { n: 1 }))).toEqual({ ...first, reattached: true });
      const others = [
        await host.call('work', { n: 2 }),
        await host.call('lookup_order', {}),
        await (await gateway.host(era, ci)).call('work', { n: 1 }),
        await host.call('work', { n: 1 }, { token: 't' }),
      ];
      expect(others.map((result) => runOf(result).reattached)).toEqual([false, false, false, false]);
    });

    test('run anew where the tool turns the window off', async () => {
      const store = await memoryStore();
      const tool = { name: 'work', description: 'Works.', input: {}, run: () => '' };
      await store.tools.register('default', [defineTool({ ...tool, dedupeWindowMs: 0 }).definition]);
      const gateway = await openGateway({ store, settings: { dedupeWindowMs: 60_000 } });
      gateway.finishAll();
      const host = await gateway.host(era);
      await host.call('work', {});
      expect(runOf(await host.call('work', {})).reattached).toBe(false);
    });
  });

  describe('a store that fails', () => {
    const failure = new RunError('store-unavailable', 'connect ECONNREFUSED 10.0.0.7 password=hunter2');
    const fail = async (): Promise<never> => {
      throw failure;
    };

    test.each<[string, Partial<RunStore>]>([
      ['while the run is submitted', { submit: fail }],
      ['while a token is looked up', { get: fail, submit: fail }],
    ])('%s is told as an internal error, and nothing of it leaks', async (_what, change) => {
      const store = await memoryStore();
      const gateway = await openGateway({ store: withRuns(store, change) });
      const host = await gateway.host(era);
      const answer = await host.begin('work', {}, { token: 't' }).answer;
      expect(answer.body).not.toMatch(/hunter2|ECONNREFUSED|store/);
      if (era === 'legacy') {
        expect([answer.status, answer.headers['retry-after']]).toEqual([503, '5']);
        expect(answer.messages[0]?.error).toEqual({ code: -32603, message: 'internal error' });
      } else {
        const result = resultOf(answer);
        expect([answer.status, result.isError, textOf(result)]).toEqual([200, true, 'InternalError: internal error']);
        expect(result._meta?.['holdfast/error']).toMatchObject({ name: 'InternalError', outcome: 'unknown' });
      }
      expect(gateway.log.map(({ level }) => level)).toEqual(['error']);
      // G40: the answer and the line have a reference in common.
      const error = era === 'modern' ? resultOf(answer)._meta?.['holdfast/error'] : undefined;
      const reference = answer.headers['x-request-id'] ?? (error as unknown as { data: { reference: string } }).data.reference;
      expect(gateway.log[0]!.fields).toMatchObject({ reference, method: 'tools/call', tool: 'work' });
      expect(gateway.log[0]!.fields).toHaveProperty('requestId', JSON.stringify(answer.messages[0]!.id));
      expect(JSON.stringify(gateway.log[0]!.fields)).not.toMatch(/desk|apikey/);
    }); // prettier-ignore

    test('while a call waits is waited out', async () => {
      const store = await memoryStore();
      let isDown = true;
      const news: RunStore['news'] = (watched) => (isDown ? fail() : store.runs.news(watched));
      const gateway = await openGateway({ store: withRuns(store, { news }) });
      const waiting = (await gateway.host(era)).begin('work', {});
      await gateway.finish(await gateway.claim(), 'done');
      await until(() => gateway.log.some(({ level }) => level === 'warn'));
      isDown = false;
      expect(textOf(resultOf(await waiting.answer))).toBe('done');
    });
  });
});

test('a store that is closed is told as 503 to a host of the era before', async () => {
  const gateway = await openGateway();
  const host = await gateway.host('legacy');
  await gateway.store.close();
  const answer = await host.begin('work', {}).answer;
  expect([answer.status, answer.messages[0]?.error?.message]).toEqual([503, 'internal error']);
});
