import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { ScriptableUpstream } from '../servers/index.ts';
import { keys } from './fleet.ts';
import { errorNameOf, textOf } from './host.ts';
import { stopEverything } from './service.ts';
import { UpstreamFleet } from './upstream-fleet.ts';

const upstreams: ScriptableUpstream[] = [];
afterAll(async () => {
  await stopEverything();
  await Promise.all(upstreams.map((upstream) => upstream.close()));
});

/** As in `docs/connecting-servers.md`; it counts how often it was asked, and says what the next answer is. */
const module = `
import { existsSync } from 'node:fs';
let asked = 0;
export default async ({ server, principal }) => {
  if (principal?.id === 'ci') throw new Error('the words of the module');
  if (principal !== null && existsSync(import.meta.dirname + '/hangs')) return new Promise(() => {});
  if (principal !== null && existsSync(import.meta.dirname + '/withdrawn')) return {};
  if (principal !== null && existsSync(import.meta.dirname + '/nothing')) return undefined;
  const caller = principal === null ? 'nobody' : principal.realm + ' ' + principal.id;
  return { AUTHORIZATION: 'Bearer ' + server + ' of ' + caller, 'X-Asked': String(++asked), 'Mcp-Session-Id': 'forged' };
};`;

test.each(['legacy', 'modern'] as const)(
  'a caller of a %s server has the headers that a module gives for him, and no others',
  async (era) => {
    const upstream = await ScriptableUpstream.start({ script: { era } });
    upstreams.push(upstream);
    const own = await UpstreamFleet.start('standalone');
    const path = join(own.fleet.folder, 'credentials.mjs');
    writeFileSync(path, module);
    const desk = await own.fleet.host('modern');
    const ci = await own.fleet.host('legacy', { key: keys.ci });
    const credentials = { per: 'principal', module: path };
    const entry = { id: 'crm', url: upstream.url, connect_timeout: 2, credentials };
    const [tool] = await own.connect(entry, desk);
    const sent = (method: string): (string | undefined)[] =>
      upstream.requests(method).map(({ headers }) => headers['authorization'] as string | undefined);
    expect(new Set(sent('tools/list'))).toEqual(new Set(['Bearer crm of nobody']));

    expect(textOf(await desk.call(tool!, { n: 1 }))).toBe('{"n":1}');
    expect(sent('tools/call')).toEqual(['Bearer crm of apikey desk']);
    const asked = (): number[] =>
      upstream.requests('tools/call').map(({ headers }) => Number(headers['x-asked']));
    expect(textOf(await desk.call(tool!, { n: 3 }))).toBe('{"n":3}');
    expect(asked()[1]).toBe(asked()[0]! + 1);
    const begin = era === 'legacy' ? 'initialize' : 'server/discover';
    expect(sent(begin)).toContain('Bearer crm of apikey desk');
    const begun = sent(begin).length;

    // What he had before is not sent for him once the module gives it no more.
    const now = (what: string): string => join(own.fleet.folder, what);
    writeFileSync(now('withdrawn'), '');
    expect(textOf(await desk.call(tool!, { n: 4 }))).toBe('{"n":4}');
    expect(sent('tools/call').at(-1)).toBeUndefined();
    rmSync(now('withdrawn'));

    // One that gives nothing, or never answers, costs the call and not the connection.
    for (const trouble of ['nothing', 'hangs']) {
      writeFileSync(now(trouble), '');
      const refused = await desk.call(tool!, { n: 5 });
      expect(errorNameOf(refused)).toBe('MCPConnectionError');
      expect(refused._meta?.['holdfast/error']).toMatchObject({ outcome: 'not_sent' });
      expect(textOf(refused)).toContain('its credentials module gave no headers for this caller');
      rmSync(now(trouble));
    }
    expect(textOf(await desk.call(tool!, { n: 6 }))).toBe('{"n":6}');
    expect(sent(begin)).toHaveLength(begun);

    const refused = await ci.call(tool!, { n: 2 });
    expect(errorNameOf(refused)).toBe('MCPConnectionError');
    expect(textOf(refused)).toContain('its credentials module gave no headers for this caller');
    expect(JSON.stringify(refused)).not.toContain('the words of the module');
    expect(upstream.requests('tools/call')).toHaveLength(4);
    await own.services[0]!.printed(/the words of the module/);
    await own.dispose();
  },
);
