import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { endsOfCancel, freshRunId, type NewRun, type Principal, type Run, type RunId } from '@holdfast/run';
import { defaultRules, type ServerCatalogue, type ToolDefinition } from '@holdfast/tools';
import type { Claim, ClaimPool, ClaimRequest, ServerOwner, Signal, Store } from './contract.js';
import { newRun } from './test-runs.js';

/** Where a suite finds its store. */
export interface Space {
  /** Opens the store; each call as another process would. */
  open(): Promise<Store>;
  /** Removes what the suite left. */
  dispose(): Promise<void>;
}

let counter = 0;
const unique = (name: string): string => `${name}-${++counter}`;
const instant = (seconds: number): Date => new Date(Date.UTC(2020, 0, 1) + seconds * 1000);

const tokenId = (): RunId => `r1_${(++counter).toString(16).padStart(64, '0')}` as RunId;

/**
 * What every store keeps. One function, no opt-outs: a store that cannot pass a line is not
 * a store of Holdfast. Two store objects on one space stand for two processes.
 */
export function storeConformance(name: string, makeSpace: () => Promise<Space>): void {
  describe(`${name} keeps the store contract`, () => {
    let space: Space;
    let store: Store;
    let other: Store;

    beforeAll(async () => {
      space = await makeSpace();
      // At once: two processes may find an empty database together.
      [store, other] = (await Promise.all([space.open(), space.open()])) as [Store, Store];
    });
    afterAll(async () => {
      await store.close();
      await other.close();
      await space.dispose();
    });

    /** A live worker that serves one workflow of its own, so that tests share the queue without meeting. */
    async function worker(
      change: Partial<ClaimRequest> = {},
      leaseMs = 1_000_000_000,
      now = instant(0),
    ): Promise<ClaimRequest> {
      const request = {
        worker: unique('worker'),
        workflows: [unique('mcp:tool:t')],
        definitions: ['d1_x'],
        definitionGraceMs: 1_000,
        limit: 10,
        isDurable: false,
        sweep: true,
        ...change,
      };
      await store.workers.join(
        { id: request.worker, group: 'default', workflows: request.workflows },
        leaseMs,
        now,
      );
      return request;
    }

    async function submit(
      request: ClaimRequest,
      change: Partial<NewRun> = {},
      now = instant(0),
    ): Promise<Run> {
      const submission = await store.runs.submit(
        newRun({ workflow: request.workflows[0]!, ...change }),
        {},
        now,
      );
      if (submission.kind !== 'fresh') throw new Error(`expected a fresh run, got ${submission.kind}`);
      return submission.run;
    }

    describe('submit', () => {
      test('keeps a run as it was given, queued', async () => {
        const run = newRun({
          id: tokenId(),
          workflow: unique('w'),
          arguments: '{"text":"\\u0000 \\ud83d 😀 \u2028"}',
        });
        const { run: kept } = (await store.runs.submit(run, {}, instant(5))) as { run: Run };
        expect(kept).toEqual({
          ...run,
          state: 'queued',
          attempt: 0,
          submittedAt: instant(5),
          seq: expect.any(Number),
        });
        expect(await other.runs.get(run.id)).toEqual(kept);
      });

      test('a second one with the same id finds the first, whatever it brings (idem:one-completion)', async () => {
        const run = newRun({ id: tokenId(), workflow: unique('w') });
        const first = await store.runs.submit(run);
        const second = await other.runs.submit({ ...run, digest: 'a1_other', arguments: '{}' });
        expect(first.kind).toBe('fresh');
        expect(second).toEqual({ ...first, kind: 'attached' });
      });

      test('of many at once, on two processes, one makes the run (BEHAVIOURS 51)', async () => {
        const run = newRun({ id: tokenId(), workflow: unique('w') });
        const all = await Promise.all(
          Array.from({ length: 40 }, (_, i) => (i % 2 ? store : other).runs.submit(run)),
        );
        expect(all.filter(({ kind }) => kind === 'fresh')).toHaveLength(1);
        expect(new Set(all.map((submission) => (submission as { run: Run }).run.seq)).size).toBe(1);
      });

      test('an anonymous caller has no principal', async () => {
        const run = newRun({ principal: null, workflow: unique('w') });
        await store.runs.submit(run);
        expect((await store.runs.get(run.id))?.principal).toBeNull();
      });

      test('a run that was never made is not found', async () => {
        expect(await store.runs.get(freshRunId(0))).toBeUndefined();
      });

      test('F198 what a call of an upstream is about and its trace are kept with the run, whatever its host wrote into them', async () => {
        const upstream = {
          server: 'github-0a1b2c3d',
          tool: 'create_issue \0 \ud83d',
          fingerprint: 'f1_x',
          meta: {
            'example.com/\ud83d': [
              '\0',
              '\ud83d',
              '😀',
              '\u2028',
              '\u0001"',
              '\\u0000',
              null,
              1.5,
              { a: {} },
            ],
          },
        };
        const request = await worker({ definitions: [''] });
        const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
        const runs = [
          { upstream },
          { trace: { traceparent } },
          { upstream: { ...upstream, meta: {} }, trace: { traceparent, tracestate: 'a="b\\c", d=e' } },
        ].map((change) => newRun({ workflow: request.workflows[0]!, definition: '', ...change }));
        const submitted = await Promise.all(runs.map((run) => store.runs.submit(run, {}, instant(0))));
        for (const [i, run] of runs.entries()) {
          const { run: made } = submitted[i] as { run: Run };
          expect(made).toMatchObject(run);
          const kept = await other.runs.get(run.id);
          expect(kept).toStrictEqual(made);
          expect(kept?.upstream).toStrictEqual(run.upstream);
          expect(kept?.trace).toStrictEqual(run.trace);
          expect(await other.runs.submit(run)).toStrictEqual({ kind: 'attached', run: kept });
        }
        const listed = await other.runs.list({ tool: runs[0]!.tool, limit: 3 });
        expect(listed.map(({ upstream }) => upstream)).toEqual(
          runs.map(({ upstream }) => upstream).reverse(),
        );
        const claims = await other.runs.claim(request, instant(0));
        expect(claims.map(({ run }) => run.upstream)).toEqual(runs.map(({ upstream }) => upstream));
        expect(claims.map(({ run }) => run.trace)).toEqual(runs.map(({ trace }) => trace));
        await store.runs.finish(claims[0]!, { state: 'succeeded', result: '{}' });
        const [news] = await other.runs.news([{ seq: claims[0]!.seq, after: 0 }]);
        expect(news?.ended?.upstream).toEqual(upstream);
      });

      test('of a repeat without a token too', async () => {
        const upstream = { server: 's', tool: 't', fingerprint: 'f' };
        const trace = { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' };
        const run = newRun({ workflow: unique('w'), upstream, trace });
        await store.runs.submit(run, { repeat: { key: unique('k'), windowMs: 60_000 } });
        expect(await other.runs.get(run.id)).toMatchObject({ upstream, trace });
      });

      test('a run that cannot be written fails alone', async () => {
        let meta = {};
        for (let depth = 0; depth < 100_000; depth++) meta = { meta };
        const [bad, good] = await Promise.allSettled([
          store.runs.submit(newRun({ upstream: { server: 's', tool: 't', fingerprint: 'f', meta } })),
          store.runs.submit(newRun({ workflow: unique('w') })),
        ]);
        expect(bad.status).toBe('rejected');
        expect(good).toMatchObject({ value: { kind: 'fresh' } });
      });

      test('a megabyte of arguments is kept', async () => {
        const run = newRun({
          workflow: unique('w'),
          arguments: JSON.stringify({ text: 'ü'.repeat(500_000) }),
        });
        await store.runs.submit(run);
        expect((await other.runs.get(run.id))?.arguments).toBe(run.arguments);
      });
    });

    describe('a repeat without a token', () => {
      test('attaches while the first is open, however old, and within the window after it', async () => {
        const request = await worker();
        const repeat = { key: unique('k'), windowMs: 60_000 };
        const again = async (seconds: number): Promise<unknown> => {
          const submission = await other.runs.submit(
            newRun({ workflow: request.workflows[0]! }),
            { repeat },
            instant(seconds),
          );
          return submission.kind === 'expired' ? submission : [submission.kind, submission.run.seq];
        };
        const [kind, seq] = (await again(0)) as [string, number];
        expect(kind).toBe('fresh');
        expect(await again(3_600)).toEqual(['attached', seq]);
        const [claim] = await store.runs.claim(request, instant(1));
        await store.runs.finish(claim!, { state: 'succeeded', result: '{}' }, instant(2));
        expect(await again(59)).toEqual(['attached', seq]);
        expect(await again(61)).toEqual(['fresh', expect.any(Number)]);
      });

      test('of many at once, on two processes, one makes the run', async () => {
        const repeat = { key: unique('k'), windowMs: 60_000 };
        const workflow = unique('w');
        const all = await Promise.all(
          Array.from({ length: 20 }, (_, i) =>
            (i % 2 ? store : other).runs.submit(newRun({ workflow }), { repeat }),
          ),
        );
        expect(all.filter(({ kind }) => kind === 'fresh')).toHaveLength(1);
        expect(new Set(all.map((submission) => (submission as { run: Run }).run.seq)).size).toBe(1);
      });
    });

    describe('claim', () => {
      test('gives the oldest runs first, running, attempt counted', async () => {
        const request = await worker();
        const runs = [await submit(request), await submit(request), await submit(request)];
        const claims = await store.runs.claim({ ...request, limit: 2 }, instant(3));
        expect(claims.map(({ run }) => run)).toEqual(
          runs.slice(0, 2).map((run) => ({ ...run, state: 'running', attempt: 1, startedAt: instant(3) })),
        );
        expect(await other.runs.get(runs[0]!.id)).toEqual(claims[0]!.run);
        expect((await store.runs.claim(request, instant(3))).map(({ seq }) => seq)).toEqual([runs[2]!.seq]);
      });

      test('two workers never get the same run (run:fenced)', async () => {
        const request = await worker();
        const second = await worker({ workflows: request.workflows });
        for (let i = 0; i < 30; i++) await submit(request);
        const claimed = await Promise.all(
          Array.from({ length: 12 }, (_, i) =>
            i % 2
              ? store.runs.claim({ ...request, limit: 5 }, instant(1))
              : other.runs.claim({ ...second, limit: 5 }, instant(1)),
          ),
        );
        const seqs = claimed.flat().map(({ seq }) => seq);
        expect(seqs).toHaveLength(new Set(seqs).size);
        expect(seqs).toHaveLength(30);
      });

      test('leaves runs of tools that the worker does not serve (BEHAVIOURS 71)', async () => {
        const request = await worker();
        await submit(request, { workflow: unique('elsewhere') });
        expect(await store.runs.claim(request, instant(1))).toEqual([]);
      });

      test('gives nothing to a worker that is not live', async () => {
        const request = await worker({}, 1_000);
        await submit(request);
        expect(await store.runs.claim(request, instant(2))).toEqual([]);
        expect(await store.runs.claim({ ...request, worker: unique('nobody') }, instant(0))).toEqual([]);
      });

      test('leaves a run of another definition to workers that match it, for a while', async () => {
        const request = await worker();
        const run = await submit(request, { definition: 'd1_newer' });
        expect(await store.runs.claim(request, instant(0.5))).toEqual([]);
        expect((await store.runs.claim(request, instant(1.5))).map(({ seq }) => seq)).toEqual([run.seq]);
      });

      test('a run without a definition is taken at once, by whoever serves those', async () => {
        const request = await worker();
        const run = await submit(request, { definition: '' });
        await submit(request, { definition: 'd1_newer' });
        expect(await store.runs.claim(request, instant(0.5))).toEqual([]);
        const serving = { ...request, definitions: ['d1_x', ''] };
        expect((await store.runs.claim(serving, instant(0.5))).map(({ seq }) => seq)).toEqual([run.seq]);
      });

      test('without a sweep, finds what was queued since, also by other processes', async () => {
        const request = await worker();
        await store.runs.claim(request, instant(0));
        await submit(request);
        expect(await store.runs.claim({ ...request, sweep: false }, instant(0))).toHaveLength(1);
        const heard = signalsOf(store, 'queued', 'everything');
        await other.runs.submit(newRun({ workflow: request.workflows[0]! }), {}, instant(0));
        await heard.next;
        expect(await store.runs.claim({ ...request, sweep: false }, instant(0))).toHaveLength(1);
      });
    });

    describe('finish', () => {
      test('records a result, once', async () => {
        const request = await worker();
        const run = await submit(request);
        const [claim] = await store.runs.claim(request, instant(1));
        const result =
          '{"content":[{"type":"text","text":"\\u0000 \\ud83d 😀"}],"structuredContent":{"id":1915883588174806058}}';
        expect(await store.runs.finish(claim!, { state: 'succeeded', result }, instant(2))).toBe(true);
        const ended = {
          ...run,
          state: 'succeeded',
          attempt: 1,
          startedAt: instant(1),
          finishedAt: instant(2),
          result,
        };
        expect(await other.runs.get(run.id)).toEqual(ended);
        expect(await store.runs.finish(claim!, { state: 'succeeded', result: '{}' }, instant(3))).toBe(false);
        expect(await store.runs.submit(newRun({ id: run.id }))).toEqual({ kind: 'attached', run: ended });
      });

      test('records a failure and reads it again as it was', async () => {
        const request = await worker();
        const run = await submit(request);
        const [claim] = await store.runs.claim(request, instant(1));
        const error = { name: 'ToolError', message: 'no \0 way', outcome: 'ran', retryable: false } as const;
        await store.runs.finish(claim!, { state: 'failed', error }, instant(2));
        expect(await other.runs.get(run.id)).toMatchObject({ state: 'failed', error });
      });

      test('of many at once, each ends its own run', async () => {
        const request = await worker({ limit: 50 });
        for (let i = 0; i < 50; i++) await submit(request);
        const claims = await store.runs.claim(request, instant(1));
        const ended = await Promise.all(
          claims.map((claim) =>
            store.runs.finish(claim, { state: 'succeeded', result: `{"n":${claim.seq}}` }),
          ),
        );
        expect(ended.every(Boolean)).toBe(true);
        for (const claim of claims)
          expect(await store.runs.get(claim.run.id)).toMatchObject({ result: `{"n":${claim.seq}}` });
      });

      test('of two ends of one claim at once, one counts', async () => {
        const request = await worker();
        const run = await submit(request);
        const [claim] = await store.runs.claim(request, instant(1));
        const ends = ['{"n":1}', '{"n":2}'];
        const counted = await Promise.all(
          ends.map((result) => store.runs.finish(claim!, { state: 'succeeded', result })),
        );
        expect(counted.filter(Boolean)).toHaveLength(1);
        expect(await store.runs.get(run.id)).toMatchObject({ result: ends[counted.indexOf(true)] });
      });

      test('with a token that was never given changes nothing', async () => {
        const request = await worker();
        const run = await submit(request);
        await store.runs.claim(request, instant(1));
        expect(
          await store.runs.finish(
            { seq: run.seq, token: '0b1f9c0e-0000-4000-8000-000000000000' },
            { state: 'succeeded', result: '{}' },
          ),
        ).toBe(false);
        expect(await store.runs.get(run.id)).toMatchObject({ state: 'running' });
      });
    });

    test('a claim whose answer was lost is given back by its worker, which keeps those it knows of', async () => {
      const request = await worker();
      const [lost, held] = [await submit(request), await submit(request)];
      await store.runs.claim({ ...request, limit: 1 }, instant(1));
      const [claim] = await store.runs.claim({ ...request, limit: 1 }, instant(2));
      expect(claim!.seq).toBe(held.seq);
      const foreign = await worker();
      const other = await submit(foreign);
      await store.runs.claim(foreign, instant(2));

      expect(await store.workers.releaseUnknown(request.worker, [claim!.token])).toBe(1);
      expect(await store.runs.get(lost.id)).toMatchObject({ state: 'queued' });
      for (const { id } of [held, other])
        expect(await store.runs.get(id)).toMatchObject({ state: 'running' });
      expect(await store.workers.releaseUnknown(request.worker, [claim!.token])).toBe(0);
      expect(await store.workers.releaseUnknown(request.worker, [])).toBe(1);
    });

    describe('the dispatch mark', () => {
      async function claimOne(request: ClaimRequest, seconds = 1): Promise<Claim> {
        const [claim] = await other.runs.claim({ ...request, isDurable: true }, instant(seconds));
        return claim!;
      }

      test('is made once on a claim, by one of many (BEHAVIOURS X11, send:at-most-once)', async () => {
        const request = await worker();
        await submit(request);
        await submit(request);
        const claim = await claimOne(request);
        expect(claim.isDispatched).toBe(false);
        const dispatched = await Promise.all(
          Array.from({ length: 20 }, (_, i) => (i % 2 ? store : other).runs.dispatch(claim)),
        );
        expect(dispatched.filter((answer) => answer === 'won')).toHaveLength(1);
        expect(dispatched.filter((answer) => answer === 'lost')).toHaveLength(19);
        expect(await store.runs.revoke(claim)).toBe('dispatched');
        expect(await store.runs.finish(claim, { state: 'succeeded', result: '{}' })).toBe(true);
      });

      test('of many runs at once, each gets its own', async () => {
        const request = await worker({ limit: 40 });
        for (let i = 0; i < 40; i++) await submit(request);
        const claims = await store.runs.claim(request, instant(1));
        const unmarked = claims.filter((_, i) => i % 2);
        for (const claim of unmarked) await store.runs.revoke(claim);
        const dispatched = await Promise.all(claims.map((claim) => store.runs.dispatch(claim)));
        expect(dispatched).toEqual(claims.map((_, i) => (i % 2 ? 'stale' : 'won')));
      });

      test.each<[string, (request: ClaimRequest, claim: Claim) => Promise<unknown>]>([
        ['its worker hands the run back', (_, claim) => store.runs.release([claim])],
        ['its worker leaves', ({ worker: id }) => store.workers.leave(id)],
        ['its worker no longer knows of it', ({ worker: id }) => store.workers.releaseUnknown(id, [])],
        ['its worker dies', () => store.workers.recover(instant(11))],
      ])('stays with the run when %s', async (_, giveBack) => {
        const request = await worker({}, 10_000);
        const run = await submit(request);
        const lost = await claimOne(request);
        expect(await store.runs.dispatch(lost)).toBe('won');
        await giveBack(request, lost);
        expect(await store.runs.dispatch(lost)).toBe('stale');
        expect(await store.runs.revoke(lost)).toBe('stale');
        const next = await worker({ workflows: request.workflows });
        for (let attempt = 2; attempt < 4; attempt++) {
          const claim = await claimOne(next, 12);
          expect(claim).toMatchObject({ seq: run.seq, run: { attempt }, isDispatched: true });
          expect(await store.runs.dispatch(claim)).toBe('lost');
          expect(await store.runs.revoke(claim)).toBe('dispatched');
          await store.runs.release([claim]);
        }
      });

      test('a revoked token makes none, and ends and reports nothing; the new one does', async () => {
        const request = await worker();
        const run = await submit(request);
        const claim = await claimOne(request);
        const { token } = (await store.runs.revoke(claim)) as { token: string };
        expect(token).not.toBe(claim.token);
        expect(await other.runs.dispatch(claim)).toBe('stale');
        expect(await other.runs.revoke(claim)).toBe('stale');
        expect(await other.runs.report(claim, [{ n: 1_000_001, value: 1 }])).toBe(false);
        expect(await other.runs.finish(claim, { state: 'succeeded', result: '{}' })).toBe(false);
        expect(await store.runs.get(run.id)).toMatchObject({ state: 'running', attempt: 1 });
        expect(await store.workers.releaseUnknown(request.worker, [token])).toBe(0);
        const revoked = { seq: claim.seq, token };
        expect(await other.runs.dispatch(revoked)).toBe('won');
        expect(await store.runs.finish(revoked, { state: 'succeeded', result: '{}' })).toBe(true);
      });

      test('a revoked claim that was given back is unmarked', async () => {
        const request = await worker();
        await submit(request);
        const claim = await claimOne(request);
        const { token } = (await store.runs.revoke(claim)) as { token: string };
        await store.runs.release([{ seq: claim.seq, token }]);
        expect(await claimOne(request)).toMatchObject({ isDispatched: false, run: { attempt: 2 } });
      });

      test('none is made on a token that was never given, on a run that ended, or where there is none', async () => {
        const request = await worker();
        await submit(request);
        const claim = await claimOne(request);
        const strange = { seq: claim.seq, token: '0b1f9c0e-0000-4000-8000-000000000000' };
        await store.runs.finish(claim, { state: 'succeeded', result: '{}' });
        for (const key of [strange, claim, { seq: 1, token: claim.token }]) {
          expect(await store.runs.dispatch(key)).toBe('stale');
          expect(await store.runs.revoke(key)).toBe('stale');
        }
      });

      test('of a mark and a revocation at once, on two processes, one wins', async () => {
        const pairs = 200;
        const request = await worker({ limit: pairs });
        await Promise.all(Array.from({ length: pairs }, () => submit(request)));
        const claims = await store.runs.claim(request, instant(1));
        expect(claims).toHaveLength(pairs);
        const races = await Promise.all(
          claims.map(async (claim, i) => {
            const [marker, revoker] = i % 2 ? [store, other] : [other, store];
            const mark = () => marker.runs.dispatch(claim);
            const revoke = () => revoker.runs.revoke(claim);
            // Whoever is asked first is often the first: each is, half of the time.
            if (i % 4 < 2) return Promise.all([mark(), revoke()]);
            const [revoked, dispatched] = await Promise.all([revoke(), mark()]);
            return [dispatched, revoked] as const;
          }),
        );
        for (const [i, [dispatched, revoked]] of races.entries()) {
          if (dispatched === 'won') expect(revoked).toBe('dispatched');
          else {
            expect(dispatched).toBe('stale');
            expect(revoked).toEqual({ token: expect.any(String) });
            const key = { seq: claims[i]!.seq, token: (revoked as { token: string }).token };
            expect(await store.runs.dispatch(key)).toBe('won');
          }
        }
      });
    });

    describe('cancel', () => {
      const error = (message: string) =>
        ({ name: 'RunCancelled', message, outcome: 'unknown', retryable: false }) as const;
      const ends = {
        queued: error('before it began'),
        running: error('while it ran'),
        dispatched: error('after it may have been sent'),
      };

      test('ends a queued run, which is claimed by nobody then', async () => {
        const request = await worker();
        const run = await submit(request);
        const ended = {
          ...run,
          state: 'cancelled',
          startedAt: null,
          finishedAt: instant(2),
          error: ends.queued,
        };
        expect(await other.runs.cancel(run.id, ends, instant(2))).toEqual(ended);
        expect(await store.runs.get(run.id)).toEqual(ended);
        expect(await store.runs.claim(request, instant(3))).toEqual([]);
      });

      test('ends a running one, whose worker is told and refused (run:fenced)', async () => {
        const request = await worker();
        const run = await submit(request);
        const [claim] = await store.runs.claim(request, instant(1));
        const heard = signalsAbout(store, 'cancelled', run.seq);
        await other.runs.cancel(run.id, ends, instant(2));
        await heard.next;
        expect(await store.runs.get(run.id)).toMatchObject({
          state: 'cancelled',
          attempt: 1,
          startedAt: instant(1),
          error: ends.running,
        });
        expect(await store.runs.finish(claim!, { state: 'succeeded', result: '{}' })).toBe(false);
        expect(await store.runs.report(claim!, [{ n: 1_000_001, value: 1 }])).toBe(false);
        await store.runs.release([claim!]);
        expect(await store.runs.get(run.id)).toMatchObject({ state: 'cancelled' });
        expect((await store.runs.news([{ seq: run.seq, after: 0 }]))[0]!.ended).toMatchObject({
          state: 'cancelled',
        });
      });

      test.each(['held', 'queued again'])('tells of one with a dispatch mark, %s', async (place) => {
        const request = await worker();
        const run = await submit(request);
        const [claim] = await store.runs.claim(request, instant(1));
        expect(await store.runs.dispatch(claim!)).toBe('won');
        if (place === 'queued again') await store.runs.release([claim!]);
        expect(await other.runs.cancel(run.id, ends, instant(2))).toMatchObject({
          state: 'cancelled',
          error: ends.dispatched,
        });
        expect(await store.runs.dispatch(claim!)).toBe('stale');
      });

      test('leaves a run that has ended as it is, and finds none where there is none', async () => {
        const request = await worker();
        const run = await submit(request);
        const [claim] = await store.runs.claim(request, instant(1));
        await store.runs.finish(claim!, { state: 'succeeded', result: '{}' });
        expect(await other.runs.cancel(run.id, ends)).toMatchObject({ state: 'succeeded' });
        expect(await other.runs.cancel(freshRunId(0), ends)).toBeUndefined();
      });
    });

    describe('leases', () => {
      test('when a lease runs out its runs come back, and the late worker is refused (run:fenced)', async () => {
        const request = await worker({}, 10_000);
        const second = await worker({ workflows: request.workflows }, 100_000);
        const run = await submit(request);
        const [late] = await store.runs.claim(request, instant(1));
        expect(await other.workers.recover(instant(9))).toBe(0);
        expect(await other.workers.recover(instant(11))).toBe(1);
        expect(await store.runs.get(run.id)).toMatchObject({ state: 'queued', attempt: 1 });
        const [taken] = await other.runs.claim(second, instant(12));
        expect(taken!.run).toMatchObject({ seq: run.seq, attempt: 2 });
        expect(taken!.token).not.toBe(late!.token);
        expect(await store.runs.report(late!, [{ n: 1_000_001, value: 1 }])).toBe(false);
        expect(await store.runs.finish(late!, { state: 'succeeded', result: '{"by":"late"}' })).toBe(false);
        expect(await store.workers.renew(request.worker, 10_000, instant(12))).toBe(false);
        expect(await other.runs.finish(taken!, { state: 'succeeded', result: '{"by":"second"}' })).toBe(true);
        expect(await store.runs.get(run.id)).toMatchObject({ result: '{"by":"second"}', attempt: 2 });
      });

      test('renewing keeps what the worker holds', async () => {
        const request = await worker({}, 10_000);
        await submit(request);
        const [claim] = await store.runs.claim(request, instant(1));
        expect(await store.workers.renew(request.worker, 10_000, instant(9))).toBe(true);
        await other.workers.recover(instant(15));
        expect(await store.runs.finish(claim!, { state: 'succeeded', result: '{}' })).toBe(true);
      });

      test('a run handed back is claimed again at once (BEHAVIOURS 76)', async () => {
        const request = await worker();
        const run = await submit(request);
        const [claim] = await store.runs.claim(request, instant(1));
        const heard = signalsOf(other, 'queued', 'everything');
        await store.runs.release([claim!]);
        await heard.next;
        expect(await other.runs.claim({ ...request, sweep: false }, instant(1))).toMatchObject([
          { run: { seq: run.seq, attempt: 2 } },
        ]);
        expect(await store.runs.finish(claim!, { state: 'succeeded', result: '{}' })).toBe(false);
      });

      test('a worker that leaves gives back what it holds', async () => {
        const request = await worker();
        await submit(request);
        await store.runs.claim(request, instant(1));
        await store.workers.leave(request.worker);
        const next = await worker({ workflows: request.workflows });
        expect(await store.runs.claim(next, instant(1))).toHaveLength(1);
      });

      test('live workers are told with what they serve, until their lease ends', async () => {
        const request = await worker({}, 10_000);
        const serving = async (seconds: number): Promise<boolean> =>
          (await other.workers.live(instant(seconds))).some(
            ({ workflows }) => workflows[0] === request.workflows[0],
          );
        expect(await serving(9)).toBe(true);
        expect(await serving(11)).toBe(false);
      });
    });

    describe('news', () => {
      test('gives events after the known one, in order, and the end with all of them', async () => {
        const request = await worker();
        const run = await submit(request);
        const idle = await submit(request);
        const [claim] = await store.runs.claim(request, instant(1));
        expect(await store.runs.news([{ seq: run.seq, after: 0 }])).toEqual([]);
        await store.runs.report(
          claim!,
          [
            { n: 1_000_001, value: 0.25, total: 1, message: 'a quarter \0' },
            { n: 1_000_002, value: 0.5 },
          ],
          instant(2),
        );
        const first = {
          n: 1_000_001,
          at: instant(2),
          progress: { value: 0.25, total: 1, message: 'a quarter \0' },
        };
        const second = { n: 1_000_002, at: instant(2), progress: { value: 0.5 } };
        expect(
          await other.runs.news([
            { seq: run.seq, after: 0 },
            { seq: idle.seq, after: 0 },
          ]),
        ).toEqual([{ seq: run.seq, events: [first, second] }]);
        expect(await other.runs.news([{ seq: run.seq, after: 1_000_002 }])).toEqual([]);
        await store.runs.finish(claim!, { state: 'succeeded', result: '{}' });
        const [news] = await other.runs.news([{ seq: run.seq, after: 1_000_001 }]);
        expect(news).toMatchObject({
          seq: run.seq,
          events: [second],
          ended: { state: 'succeeded', result: '{}' },
        });
        expect(await other.runs.events(run.seq)).toEqual([first, second]);
      });

      test('progress and ends are signalled to other processes', async () => {
        const request = await worker();
        const run = await submit(request);
        const [claim] = await store.runs.claim(request, instant(1));
        for (const step of [
          () => store.runs.report(claim!, [{ n: 1_000_001, value: 1 }]),
          () => store.runs.finish(claim!, { state: 'succeeded', result: '{}' }),
        ]) {
          const heard = signalsAbout(other, 'runs', run.seq);
          await step();
          await heard.next;
        }
      });
    });

    describe('list', () => {
      test('newest first, by state, tool and caller, page by page', async () => {
        const tool = unique('tool');
        const request = await worker();
        const change = { tool, principal: { realm: 'apikey', id: unique('lister') } };
        const seqs: number[] = [];
        for (let i = 0; i < 5; i++) seqs.unshift((await submit(request, change)).seq);
        const of = async (filter: object): Promise<number[]> =>
          (await other.runs.list({ limit: 10, tool, ...filter })).map(({ seq }) => seq);
        expect(await of({})).toEqual(seqs);
        expect(await of({ limit: 2 })).toEqual(seqs.slice(0, 2));
        expect(await of({ limit: 2, before: seqs[1]! })).toEqual(seqs.slice(2, 4));
        expect(await of({ principal: change.principal.id })).toEqual(seqs);
        expect(await of({ principal: 'nobody' })).toEqual([]);
        const claims = await store.runs.claim({ ...request, limit: 2 }, instant(1));
        await store.runs.finish(claims[0]!, { state: 'succeeded', result: '{}' });
        expect(await of({ state: 'queued' })).toEqual(seqs.slice(0, 3));
        expect(await of({ state: 'running' })).toEqual([seqs[3]]);
        expect(await of({ state: 'succeeded' })).toEqual([seqs[4]]);
        expect(await of({ state: 'failed' })).toEqual([]);
      });

      test('finds other runs of the same tool, caller and arguments', async () => {
        const request = await worker();
        const change = { tool: unique('tool') };
        const [one, two] = [await submit(request, change), await submit(request, change)];
        await submit(request, { ...change, digest: 'a1_other' });
        await submit(request, { ...change, principal: null });
        await submit(request, { ...change, principal: { realm: 'override', id: 'desk' } });
        expect((await store.runs.list({ like: one, limit: 10 })).map(({ seq }) => seq)).toEqual([two.seq]);
      });

      test('the queue tells how many wait and since when', async () => {
        const before = (await store.runs.queue()).queued;
        const request = await worker();
        await submit(request, {}, instant(-1_000_000));
        expect(await other.runs.queue()).toEqual({ queued: before + 1, oldest: instant(-1_000_000) });
        await store.runs.claim(request, instant(1));
        expect((await store.runs.queue()).queued).toBe(before);
      });
    });

    describe('retention', () => {
      test('removes what ended before, in steps, never an open run; the token is new then (BEHAVIOURS R7)', async () => {
        const request = await worker();
        const id = tokenId();
        const ended = [await submit(request, { id }), await submit(request), await submit(request)];
        const claims = await store.runs.claim(request, instant(1));
        await store.runs.report(claims[0]!, [{ n: 1_000_001, value: 1 }]);
        const open = await submit(request, {}, instant(-100));
        for (const [i, claim] of claims.entries())
          await store.runs.finish(claim, { state: 'succeeded', result: '{}' }, instant(-50 + i));
        expect(await store.runs.removeFinished(instant(-50), 10)).toBe(0);
        expect(await store.runs.removeFinished(instant(-48), 1)).toBe(1);
        expect(await store.runs.removeFinished(instant(-48), 10)).toBe(1);
        expect(await store.runs.get(ended[0]!.id)).toBeUndefined();
        expect(await store.runs.events(ended[0]!.seq)).toEqual([]);
        expect(await store.runs.get(ended[2]!.id)).toBeDefined();
        expect(await store.runs.get(open.id)).toMatchObject({ state: 'queued' });
        expect(await store.runs.submit(newRun({ id }))).toMatchObject({ kind: 'fresh' });
      });

      test('a remembered token is told as used until its time (BEHAVIOURS R7)', async () => {
        const request = await worker();
        const id = tokenId();
        await submit(request, { id });
        const [claim] = await store.runs.claim(request, instant(1));
        await store.runs.finish(claim!, { state: 'succeeded', result: '{}' }, instant(-20));
        await store.runs.removeFinished(instant(-19), 10, { rememberUntil: instant(100) }, instant(0));
        expect(await other.runs.submit(newRun({ id }), {}, instant(99))).toEqual({ kind: 'expired' });
        expect(await other.runs.submit(newRun({ id }), {}, instant(101))).toMatchObject({ kind: 'fresh' });
      });
    });

    describe('sessions', () => {
      const limits = { max: 1_000_000, idleMs: 3_600_000 };
      const session = (change: object = {}) => ({
        id: unique('session-id'),
        principal: { realm: 'apikey', id: 'desk' },
        protocolVersion: '2025-11-25',
        client: { capabilities: { elicitation: {} }, clientInfo: { name: 'host', version: '1' } },
        ...change,
      });

      test('one opened here is found there, until closed; closing is signalled', async () => {
        const opened = session();
        expect(await store.sessions.open(opened, limits, instant(0))).toBe('opened');
        expect(await other.sessions.get(opened.id, limits.idleMs, instant(0))).toEqual(opened);
        const heard = signalsAbout(other, 'session', opened.id);
        await store.sessions.close(opened.id);
        await heard.next;
        expect(await other.sessions.get(opened.id, limits.idleMs, instant(0))).toBeUndefined();
        await store.sessions.close(opened.id);
      });

      test('one never opened is not found', async () => {
        expect(await store.sessions.get('never', limits.idleMs)).toBeUndefined();
      });

      test('an idle one is gone; use keeps it', async () => {
        const [idle, used] = [session({ principal: null }), session({ principal: null })];
        for (const one of [idle, used]) await store.sessions.open(one, limits, instant(0));
        await other.sessions.touch([used.id], instant(1_800));
        expect(await store.sessions.get(idle.id, limits.idleMs, instant(3_600))).toBeUndefined();
        expect(await store.sessions.get(used.id, limits.idleMs, instant(3_600))).toEqual(used);
      });

      test('the limit holds over all processes, and room returns (BEHAVIOURS R3)', async () => {
        const at = instant(1_000_000);
        const room = (await store.sessions.count(limits.idleMs, at)) + 5;
        const opening = Array.from({ length: 12 }, () => session());
        const answers = await Promise.all(
          opening.map((one, i) => (i % 2 ? store : other).sessions.open(one, { ...limits, max: room }, at)),
        );
        expect(answers.filter((answer) => answer === 'opened')).toHaveLength(5);
        expect(answers.filter((answer) => answer === 'full')).toHaveLength(7);
        expect(await store.sessions.count(limits.idleMs, at)).toBe(room);
        await store.sessions.close(opening[answers.indexOf('opened')]!.id);
        expect(await other.sessions.open(session(), { ...limits, max: room }, at)).toBe('opened');
        expect(await other.sessions.open(session(), { ...limits, max: room }, at)).toBe('full');
        expect(await other.sessions.open(session(), { ...limits, max: room }, instant(1_003_600))).toBe(
          'opened',
        );
      });

      test('what is told to one reaches every process, once', async () => {
        const id = unique('session');
        const message = JSON.stringify({ text: 'two words, {} and \u2028 😀' });
        const told: string[] = [];
        const unsubscribe = store.subscribe(
          (signal) => signal.kind === 'told' && signal.id === id && told.push(signal.message),
        );
        const heard = signalsOf(other, 'told');
        await store.sessions.tell(id, message);
        if (other.hearing) expect(await heard.next).toEqual({ kind: 'told', id, message });
        unsubscribe();
        expect(told).toEqual([message]);
      });

      test('a caller may have a limit of its own', async () => {
        const principal = { realm: 'apikey', id: unique('crowd') };
        const own = { ...limits, maxPerPrincipal: 1 };
        expect(await store.sessions.open(session({ principal }), own)).toBe('opened');
        expect(await store.sessions.open(session({ principal }), own)).toBe('principal-full');
        expect(
          await store.sessions.open(session({ principal: { ...principal, realm: 'override' } }), own),
        ).toBe('opened');
      });
    });

    describe('tools', () => {
      const definition = (toolName: string, digest: string): ToolDefinition => ({
        name: toolName,
        description: 'It says \0 and 😀.',
        inputSchema: { type: 'object' },
        toolClass: 'read',
        digest,
      });
      const named = async (at: Store, prefix: string): Promise<string[]> =>
        (await at.tools.list())!.tools
          .filter(({ name }) => name.startsWith(prefix))
          .map(({ name, digest }) => `${name} ${digest}`);

      test('a group registers its set, replaces it, and retires what it dropped (BEHAVIOURS 71)', async () => {
        const [group, prefix] = [unique('group'), unique('p')];
        await store.tools.register(group, [definition(`${prefix}_a`, '1'), definition(`${prefix}_b`, '1')]);
        expect((await other.tools.list())!.tools).toContainEqual(definition(`${prefix}_a`, '1'));
        const heard = signalsOf(other, 'tools', 'everything');
        await store.tools.register(group, [definition(`${prefix}_b`, '2')]);
        await heard.next;
        expect(await named(other, prefix)).toEqual([`${prefix}_b 2`]);
      });

      test('of two groups the later registration counts; the same set again changes nothing', async () => {
        const [one, two, prefix] = [unique('group'), unique('group'), unique('p')];
        await store.tools.register(one, [definition(prefix, '1')]);
        await store.tools.register(two, [definition(prefix, '2')]);
        expect(await named(other, prefix)).toEqual([`${prefix} 2`]);
        await store.tools.register(one, [definition(prefix, '1')]);
        expect(await named(other, prefix)).toEqual([`${prefix} 2`]);
        await store.tools.register(two, []);
        expect(await named(other, prefix)).toEqual([`${prefix} 1`]);
      });

      test.each([
        ['is nothing', null],
        ['has no schema', { name: 'x', description: '', toolClass: 'read', digest: '1' }],
        ['has no class', { name: 'x', description: '', inputSchema: {}, digest: '1' }],
      ])('G10: one that %s is left out alone, and its group can register anew', async (_what, damage) => {
        const [group, prefix] = [unique('group'), unique('p')];
        const [good, bad] = [definition(`${prefix}_good`, '1'), definition(`${prefix}_bad`, '1')];
        await store.tools.register(group, [good, written(bad, damage)]);
        expect(await named(other, prefix)).toEqual([`${prefix}_good 1`]);
        expect((await other.tools.list())!.unreadable).toEqual([
          { kind: 'tool', name: expect.any(String), problem: expect.any(String) },
        ]);
        await store.tools.register(group, [good, definition(`${prefix}_bad`, '2')]);
        expect((await named(other, prefix)).sort()).toEqual([`${prefix}_bad 2`, `${prefix}_good 1`]);
        expect((await other.tools.list())!.unreadable).toEqual([]);
      });

      test('an unchanged catalogue is not sent again', async () => {
        const { revision } = (await store.tools.list())!;
        expect(await other.tools.list(revision)).toBeUndefined();
        await store.tools.register(unique('group'), [definition(unique('p'), '1')]);
        expect((await other.tools.list(revision))!.revision).toBeGreaterThan(revision);
      });
    });

    describe('servers', () => {
      const catalogue = (change: Partial<ServerCatalogue> = {}): ServerCatalogue => ({
        key: unique('github-0a1b2c3d'),
        id: 'github',
        name: 'GitHub \0 \ud83d 😀',
        identity: 'ab'.repeat(32),
        rules: {
          ...defaultRules,
          concurrency: 8,
          overrides: { get_issue: 'read' },
          trustHints: false,
          deny: ['delete_repo'],
        },
        tools: [
          {
            name: 'get_issue',
            description: 'It says \0 and 😀.',
            inputSchema: { type: 'object', properties: { n: { type: 'integer' } } },
            annotations: { readOnlyHint: true },
            fingerprint: 'f1_x',
          },
        ],
        ...change,
      });
      const published = async (at: Store, key: string): Promise<ServerCatalogue | undefined> =>
        (await at.tools.list())!.servers.find((server) => server.key === key);

      const publisher = { id: 'publisher', address: '10.0.0.7:7100' };
      const publish = async (at: Store, one: ServerCatalogue): Promise<void> => {
        await at.servers.own(publisher, [one.key], 1_000_000_000);
        expect(await at.servers.publish(one, { owner: publisher.id, lease: one.key })).toBe(true);
      };

      test('what one publishes is listed everywhere as it was given, until it publishes anew', async () => {
        const first = catalogue();
        const { revision } = (await other.tools.list())!;
        const heard = signalsOf(other, 'tools', 'everything');
        await publish(store, first);
        await heard.next;
        expect(await published(other, first.key)).toStrictEqual(first);
        expect((await other.tools.list(revision))!.revision).toBeGreaterThan(revision);
        const again = signalsOf(store, 'tools', 'everything');
        const second = { ...first, tools: [] };
        await publish(other, second);
        await again.next;
        expect(await published(store, first.key)).toStrictEqual(second);
      });

      test('publishing what is published changes nothing and tells nobody', async () => {
        const one = catalogue();
        await publish(store, one);
        const { revision } = (await other.tools.list())!;
        const told: Signal[] = [];
        const unsubscribe = store.subscribe((signal) => signal.kind === 'tools' && told.push(signal));
        await publish(store, structuredClone(one));
        expect(await other.tools.list(revision)).toBeUndefined();
        await publish(store, { ...one, name: 'another name' });
        unsubscribe();
        expect(told).toHaveLength(1);
      });

      test('of many that publish at once, none is lost, and the tools of workers stay', async () => {
        const many = Array.from({ length: 12 }, () => catalogue());
        const before = (await store.tools.list())!;
        await Promise.all(many.map((one, i) => publish(i % 2 ? store : other, one)));
        const after = (await other.tools.list())!;
        for (const one of many) expect(after.servers).toContainEqual(one);
        expect(after.revision).toBe(before.revision + many.length);
        expect(after.tools).toEqual(before.tools);
        expect(after.servers.map(({ key }) => key)).toEqual(after.servers.map(({ key }) => key).sort());
      });

      test('a megabyte of it is kept', async () => {
        const large = catalogue({ name: 'ü'.repeat(500_000) });
        await publish(store, large);
        expect(await published(other, large.key)).toEqual(large);
      });

      test('G04: only the owner of its lease publishes, at that instant', async () => {
        const before = catalogue();
        const [first, second] = [unique('connector'), unique('connector')];
        const own = (id: string, seconds: number, at = store): Promise<string[]> =>
          at.servers.own({ id, address: '10.0.0.7:7100' }, [before.key], 10_000, instant(seconds));
        const publishAs = (id: string, one: ServerCatalogue, seconds: number, at = store): Promise<boolean> =>
          at.servers.publish(one, { owner: id, lease: before.key }, instant(seconds));
        expect(await publishAs(first, before, 0)).toBe(false);
        expect(await published(other, before.key)).toBeUndefined();
        await own(first, 0);
        expect(await publishAs(second, before, 1)).toBe(false);
        expect(await publishAs(first, before, 1)).toBe(true);
        // The first one stalls, and another takes over.
        expect(await publishAs(first, { ...before, tools: [] }, 10)).toBe(false);
        await own(second, 10, other);
        const after = { ...before, name: 'after' };
        expect(await publishAs(second, after, 11, other)).toBe(true);
        const { revision } = (await store.tools.list())!;
        for (const late of [before, after, { ...before, rules: defaultRules }])
          expect(await publishAs(first, late, 12)).toBe(false);
        expect(await other.tools.list(revision)).toBeUndefined();
        expect(await published(store, before.key)).toStrictEqual(after);
      });

      test('G04: one lease of a server does not publish for another, nor a lease of another server', async () => {
        const [one, two] = [catalogue(), catalogue()];
        const owner = { id: unique('connector'), address: '10.0.0.7:7100' };
        const lease = `${one.key}#${owner.id}`;
        await store.servers.own(owner, [lease], 1_000_000_000);
        expect(await store.servers.publish(one, { owner: owner.id, lease: one.key })).toBe(false);
        expect(await store.servers.publish(two, { owner: owner.id, lease: two.key })).toBe(false);
        expect(await store.servers.publish(one, { owner: owner.id, lease })).toBe(true);
        await other.servers.disown(owner.id, [lease]);
        expect(await store.servers.publish({ ...one, tools: [] }, { owner: owner.id, lease })).toBe(false);
        expect(await published(other, one.key)).toStrictEqual(one);
      });

      const isWhole = (damage: object | string | null): damage is string | null =>
        damage === null || typeof damage === 'string';

      test.each([
        ['is nothing', null],
        ['is a text', 'hello'],
        ['is of another server', { key: 'elsewhere-00000000' }],
        ['has no rules', { rules: undefined }],
        ['has rules of another kind', { rules: { ...defaultRules, deny: 'delete_repo' } }],
        ['has no tools', { tools: null }],
        ['has a tool that is none', { tools: [null] }],
        ['has a schema that is none', { tools: [{ name: 't', inputSchema: 'x', fingerprint: 'f1' }] }],
      ])('G10: one that %s is left out alone', async (_what, damage) => {
        const [good, bad] = [catalogue(), catalogue()];
        await publish(store, good);
        await publish(store, written(bad, isWhole(damage) ? damage : { ...bad, ...damage }));
        const listed = (await other.tools.list())!;
        expect(listed.servers).toContainEqual(good);
        expect(listed.servers.filter(({ key }) => key === bad.key)).toEqual([]);
        expect(listed.unreadable).toEqual([{ kind: 'server', name: bad.key, problem: expect.any(String) }]);
        await publish(store, bad);
        expect(await published(other, bad.key)).toEqual(bad);
      });
    });

    describe('ownership of servers', () => {
      const connector = (): ServerOwner => ({ id: unique('connector'), address: '10.0.0.7:7100' });
      const keys = (count: number): string[] => Array.from({ length: count }, () => unique('server'));
      const ownerOf = async (key: string, seconds: number): Promise<ServerOwner | undefined> =>
        (await other.servers.owners(instant(seconds))).get(key);

      test('one owner has a server until its lease ends, and is told where it is reached', async () => {
        const [one, two, [key]] = [connector(), connector(), keys(1) as [string]];
        expect(await store.servers.own(one, [key], 10_000, instant(0))).toEqual([key]);
        expect(await other.servers.own(two, [key], 10_000, instant(9))).toEqual([]);
        expect(await ownerOf(key, 9)).toEqual(one);
        expect(await ownerOf(key, 10)).toBeUndefined();
        expect(await other.servers.own(two, [key], 10_000, instant(10))).toEqual([key]);
        expect(await ownerOf(key, 11)).toEqual(two);
        expect(await store.servers.own(one, [key], 10_000, instant(11))).toEqual([]);
      });

      test('renewing keeps it, for as long as is asked then', async () => {
        const [one, two, [key]] = [connector(), connector(), keys(1) as [string]];
        await store.servers.own(one, [key], 10_000, instant(0));
        expect(await store.servers.own(one, [key], 10_000, instant(9))).toEqual([key]);
        expect(await other.servers.own(two, [key], 10_000, instant(18))).toEqual([]);
        expect(await store.servers.own(one, [key], 1_000, instant(18))).toEqual([key]);
        expect(await other.servers.own(two, [key], 10_000, instant(19))).toEqual([key]);
      });

      test('of several, those are owned that nobody else has, each named once', async () => {
        const [one, two, [a, b, c]] = [connector(), connector(), keys(3) as [string, string, string]];
        await store.servers.own(one, [a], 10_000, instant(0));
        expect((await other.servers.own(two, [a, b, c, b], 10_000, instant(0))).sort()).toEqual(
          [b, c].sort(),
        );
        expect(await other.servers.own(two, [], 10_000, instant(0))).toEqual([]);
        expect(await ownerOf(a, 1)).toEqual(one);
        expect(await ownerOf(b, 1)).toEqual(two);
      });

      test('what is given up is free at once; only the owner can', async () => {
        const [one, two, [a, b]] = [connector(), connector(), keys(2) as [string, string]];
        await store.servers.own(one, [a, b], 1_000_000_000);
        await other.servers.disown(two.id, [a, b]);
        expect((await store.servers.owners()).get(a)).toEqual(one);
        await other.servers.disown(one.id, [a]);
        expect(await store.servers.own(two, [a, b], 10_000)).toEqual([a]);
        expect((await store.servers.owners()).get(b)).toEqual(one);
      });

      test('of many that want the same at once, on two processes, each server has one owner', async () => {
        const wanted = keys(20);
        const racers = Array.from({ length: 8 }, connector);
        for (const seconds of [0, 100]) {
          const owned = await Promise.all(
            racers.map((racer, i) => {
              const mine = i % 3 ? wanted : [...wanted].reverse();
              return (i % 2 ? store : other).servers.own(racer, mine, 10_000, instant(seconds));
            }),
          );
          expect(owned.flat().sort()).toEqual([...wanted].sort());
          const owners = await store.servers.owners(instant(seconds + 1));
          for (const [i, mine] of owned.entries())
            for (const key of mine) expect(owners.get(key)).toEqual(racers[i]);
        }
      });
    });

    describe('G27: claims are shared among callers', () => {
      const caller = (id: string): Principal => ({ realm: 'apikey', id });
      const many = (request: ClaimRequest, id: string, count: number): Promise<Run[]> =>
        Promise.all(Array.from({ length: count }, () => submit(request, { principal: caller(id) })));
      const owners = (claims: readonly Claim[]): (string | undefined)[] =>
        claims.map(({ run }) => run.principal?.id).sort();
      const poolOf = (
        { workflows }: ClaimRequest,
        free: number,
        held: Readonly<Record<string, number>> = {},
      ): ClaimPool => ({
        workflows,
        free,
        held: Object.entries(held).map(([id, count]) => ({ principal: caller(id), count })),
      });

      test.each([3, 300])('one behind %i queued runs of another is taken with its first', async (count) => {
        const request = await worker();
        await many(request, 'busy', count);
        const { id } = await submit(request, { principal: caller('quiet') });
        const [last] = [await submit(request, { principal: null })];
        const claims = await other.runs.claim({ ...request, limit: 3 }, instant(1));
        expect(owners(claims)).toEqual(['busy', 'quiet', undefined].sort());
        expect(claims.map(({ run }) => run.id)).toEqual(expect.arrayContaining([id, last!.id]));
      });

      test('what a worker holds of a caller counts: the one that holds fewest comes first', async () => {
        const request = await worker();
        await many(request, 'busy', 200);
        await many(request, 'quiet', 3);
        const pools = [poolOf(request, 4, { busy: 2, nobody: 9 })];
        const claims = await store.runs.claim({ ...request, limit: 4, pools }, instant(1));
        expect(owners(claims)).toEqual(['busy', 'quiet', 'quiet', 'quiet']);
      });

      test.each([
        [32, 24],
        [8, 6],
        [4, 3],
        [2, 1],
        [1, 1],
      ])(
        'of %i slots one caller gets %i, whatever it has queued, and another finds room',
        async (slots, own) => {
          const request = await worker();
          await many(request, 'busy', 40);
          const claim = async (free: number, held: Readonly<Record<string, number>>): Promise<Claim[]> =>
            store.runs.claim(
              { ...request, limit: free, callerShare: 75, pools: [poolOf(request, free, held)] },
              instant(1),
            );
          expect(await claim(slots, {})).toHaveLength(own);
          if (slots === own) return;
          expect(await claim(slots - own, { busy: own })).toEqual([]);
          await submit(request, { principal: caller('quiet') });
          expect(owners(await claim(slots - own, { busy: own }))).toEqual(['quiet']);
        },
      );

      test('however many callers hold, one that holds nothing gets the last slot', async () => {
        const request = await worker();
        const held: Record<string, number> = {};
        let free = 16;
        for (const id of ['a', 'b', 'c', 'd']) await many(request, id, 20);
        for (const id of ['a', 'b', 'c', 'd']) {
          const claims = await store.runs.claim(
            { ...request, limit: free, callerShare: 75, pools: [poolOf(request, free, held)] },
            instant(1),
          );
          free -= claims.length;
          for (const one of owners(claims)) held[one!] = (held[one!] ?? 0) + 1;
          expect(held[id]).toBeGreaterThan(0);
        }
        expect(free).toBeGreaterThan(0);
        await submit(request, { principal: caller('late') });
        const last = await store.runs.claim(
          { ...request, limit: 1, callerShare: 75, pools: [poolOf(request, 1, held)] },
          instant(1),
        );
        expect(owners(last)).toEqual(['late']);
      });

      test('each pool has slots of its own', async () => {
        const [first, second] = [await worker(), await worker()];
        await many(first, 'busy', 20);
        await many(second, 'busy', 20);
        const claims = await store.runs.claim(
          {
            ...first,
            workflows: [...first.workflows, ...second.workflows],
            limit: 20,
            callerShare: 75,
            pools: [poolOf(first, 4), poolOf(second, 1, { busy: 1 })],
          },
          instant(1),
        );
        expect(claims.map(({ run }) => run.workflow)).toEqual(Array(3).fill(first.workflows[0]));
      });

      test('a run that came back to the queue, or was cancelled, is still its caller’s', async () => {
        const request = await worker({ sweep: false });
        await many(request, 'busy', 150);
        const late = await submit(request, { principal: caller('quiet') });
        const one = await store.runs.claim({ ...request, limit: 2 }, instant(1));
        expect(owners(one)).toEqual(['busy', 'quiet']);
        await other.runs.release(one);
        const again = await other.runs.claim({ ...request, limit: 2, sweep: true }, instant(1));
        expect(owners(again)).toEqual(['busy', 'quiet']);
        await store.runs.release(again);
        await store.runs.cancel(late.id, endsOfCancel(late), instant(2));
        expect(owners(await store.runs.claim({ ...request, limit: 2, sweep: true }, instant(1)))).toEqual([
          'busy',
          'busy',
        ]);
      });

      test('nothing is lost: without a sweep all are claimed at last, by two at once', async () => {
        const request = await worker({ sweep: false, limit: 7 });
        const runs = [
          ...(await many(request, 'busy', 160)),
          ...(await many(request, 'quiet', 9)),
          ...(await many(request, 'other', 3)),
        ];
        const claimed: number[] = [];
        while (claimed.length < runs.length) {
          const both = await Promise.all([
            store.runs.claim(request, instant(1)),
            other.runs.claim(request, instant(1)),
          ]);
          claimed.push(...both.flat().map(({ seq }) => seq));
        }
        expect(claimed.sort((a, b) => a - b)).toEqual(runs.map(({ seq }) => seq).sort((a, b) => a - b));
      });
    });

    test('a secret is made once, whoever asks', async () => {
      const name = unique('secret');
      const made = await Promise.all(
        [store, other, store, other].map((at, i) => at.secret(name, () => `made by ${i}`)),
      );
      expect(new Set(made).size).toBe(1);
      expect(await other.secret(name, () => 'later')).toBe(made[0]);
    });

    test('it answers a ping', async () => {
      await expect(store.ping()).resolves.toBeUndefined();
    });

    test('after close every verb says so, and closing again is fine', async () => {
      const third = await (await makeSpace()).open();
      await third.close();
      await third.close();
      await expect(third.runs.submit(newRun())).rejects.toMatchObject({ code: 'store-closed' });
      await expect(third.ping()).rejects.toMatchObject({ code: 'store-closed' });
    });
  });
}

/** `value`, of which something else is written: what a store has after a fault of another program. */
const written = <Value extends object>(value: Value, kept: unknown): Value => ({
  ...value,
  toJSON: () => kept,
});

/** The next signal of one of `kinds`; subscribe before the act that sends it. */
const signalsOf = (store: Store, ...kinds: Signal['kind'][]) =>
  signalsThat(store, ({ kind }) => kinds.includes(kind));

/** The next signal of `kind` about that one, or of everything. One about another may still come from an earlier act. */
const signalsAbout = (store: Store, kind: 'runs' | 'cancelled' | 'session', about: number | string) =>
  signalsThat(
    store,
    (signal) =>
      signal.kind === 'everything' ||
      (signal.kind === kind &&
        ('seqs' in signal ? signal.seqs.some((seq) => seq === about) : signal.id === about)),
  );

function signalsThat(store: Store, fits: (signal: Signal) => boolean): { readonly next: Promise<Signal> } {
  return {
    next: new Promise((resolve) => {
      const unsubscribe = store.subscribe((signal) => {
        if (!fits(signal)) return;
        unsubscribe();
        resolve(signal);
      });
    }),
  };
}
