import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { join } from 'node:path';
import { Fleet } from './fleet.ts';
import { eras, errorNameOf, exchange, runOf, textOf } from './host.ts';
import { root } from './service.ts';

const nul = [0x61, 0x0000, 0x62];
const loneHigh = [0x61, 0xd83d, 0x62];
const loneLow = [0x61, 0xde00, 0x62];
const emoji = [0x61, 0xd83d, 0xde00, 0x62];
const separators = [0x2028, 0x2029, 0x0085, 0x000b, 0x000c, 0xfeff, 0xfffe, 0xffff];
const units = { nul, loneHigh, loneLow, emoji, separators };
const said = (name: keyof typeof units): string => String.fromCharCode(...units[name]);
const names = Object.keys(units) as (keyof typeof units)[];

describe.each(['standalone', 'postgres'] as const)('on %s', (kind) => {
  let fleet: Fleet;
  beforeAll(async () => {
    fleet = await Fleet.start(kind, { HOLDFAST_TOOLS: join(root, 'test/system/tools/echo.ts') });
  });
  afterAll(async () => {
    // Whatever was said: nothing is stuck, and nothing was tried twice.
    for (const state of ['queued', 'running'])
      expect((await fleet.api(`/runs?state=${state}`)).body['runs']).toEqual([]);
    await fleet.dispose();
  });

  describe.each(eras)('a %s host', (era) => {
    test.each(names)('F47 a result with %s arrives as it was said, now and from the store', async (name) => {
      const host = await fleet.host(era);
      const args = { units: units[name], as: 'text' };
      const token = `text-${name}-${era}`;
      for (const reattached of [false, true]) {
        const result = await host.call('speak', args, { token });
        expect(textOf(result)).toBe(said(name));
        expect(runOf(result)).toMatchObject({ attempt: 1, reattached });
      }
    });

    test.each(['nul', 'emoji', 'separators'] as const)('F47 arguments with %s are kept', async (name) => {
      const host = await fleet.host(era);
      const args = { [said(name)]: [said(name)] };
      const result = await host.call('repeat', args, { token: `args-${name}-${era}` });
      expect(result.structuredContent).toEqual(args);
      expect(await fleet.run(runOf(result).id)).toMatchObject({
        state: 'succeeded',
        attempt: 1,
        arguments: args,
      });
    });

    test.each(['loneHigh', 'loneLow'] as const)(
      'F47 arguments with %s are refused before a run is made',
      async (name) => {
        const host = await fleet.host(era);
        for (const args of [{ note: said(name) }, { [said(name)]: 1 }, { deep: [{ note: said(name) }] }]) {
          const result = await host.call('repeat', args);
          expect(errorNameOf(result)).toBe('InvalidArguments');
          expect(textOf(result)).toMatch(/lone surrogate/);
          expect(result._meta!['holdfast/error']!.run_id).toBeNull();
        }
      },
    );

    test.each(names)('F47 variant: structured content and its keys with %s', async (name) => {
      const host = await fleet.host(era);
      const { structuredContent } = await host.call('speak', { units: units[name], as: 'object' });
      expect(structuredContent).toEqual({ [said(name)]: said(name), list: [said(name)] });
    });

    test.each(names)('F47 variant: content blocks and _meta with %s', async (name) => {
      const host = await fleet.host(era);
      const result = await host.call('speak', { units: units[name], as: 'content' });
      expect(textOf(result)).toBe(said(name));
      expect(result._meta).toMatchObject({ text: said(name) });
    });

    test.each(names)('F47 variant: the text of an error with %s ends the run', async (name) => {
      const host = await fleet.host(era);
      const result = await host.call('speak', { units: units[name], as: 'error' });
      expect(textOf(result)).toBe(`ToolError: ${said(name)}`);
      expect(await fleet.run(runOf(result).id)).toMatchObject({ state: 'failed', attempt: 1 });
    });

    test.each(names)(
      'F47 variant: a report of progress with %s is told, a lone surrogate as U+FFFD',
      async (name) => {
        const host = await fleet.host(era);
        const told = said(name).toWellFormed();
        const call = host.begin(
          'speak',
          { units: units[name], as: 'progress' },
          { meta: { progressToken: 'p' }, token: `progress-${name}-${era}` },
        );
        const { messages } = await call.answer;
        expect(messages.map(({ params }) => params?.['message'])).toContain(told);
        const { id } = runOf(messages.at(-1)!.result!);
        const { events } = (await fleet.run(id)) as unknown as { events: { message?: string }[] };
        expect(events.map(({ message }) => message)).toContain(told);
      },
    );

    test('F47 variant: a token with NUL is a token; one with a lone surrogate is refused', async () => {
      const host = await fleet.host(era);
      const call = (token: string): ReturnType<typeof host.call> => host.call('repeat', {}, { token });
      const [one, two] = [await call(`${said('nul')}-${era}`), await call(`${said('nul')}-${era}`)];
      expect(runOf(two).id).toBe(runOf(one).id);
      expect(runOf(await call(`ab-${era}`)).id).not.toBe(runOf(one).id);
      expect(errorNameOf(await call(said('loneHigh')))).toBe('InvalidIdempotencyToken');
    });
  });

  test('F47 variant: a host that names itself with NUL and a lone surrogate opens a session', async () => {
    const answer = await exchange(fleet.url(), {
      headers: {
        authorization: 'Bearer key-of-desk-in-tests',
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
      },
      body: `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a\\u0000b\\ud83d","version":"1"}}}`,
    }).answer;
    expect(answer.status).toBe(200);
    expect(answer.headers['mcp-session-id']).toBeDefined();
  });
});
