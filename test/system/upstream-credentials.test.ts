import { writeFileSync } from 'node:fs';
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

/** `docs/connecting-servers.md` */
const module = `
export default async ({ server, principal }) => {
  if (principal?.id === 'ci') throw new Error('the words of the module');
  return { Authorization: 'Bearer ' + server + ' of ' + (principal === null ? 'nobody' : principal.realm + ' ' + principal.id) };
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
    const [tool] = await own.connect({ id: 'crm', url: upstream.url, credentials }, desk);
    const sent = (method: string): Set<string | undefined> =>
      new Set(upstream.requests(method).map(({ headers }) => headers['authorization'] as string | undefined));
    expect(sent('tools/list')).toEqual(new Set(['Bearer crm of nobody']));

    expect(textOf(await desk.call(tool!, { n: 1 }))).toBe('{"n":1}');
    expect(sent('tools/call')).toEqual(new Set(['Bearer crm of apikey desk']));
    expect(sent(era === 'legacy' ? 'initialize' : 'server/discover')).toContain('Bearer crm of apikey desk');

    const refused = await ci.call(tool!, { n: 2 });
    expect(errorNameOf(refused)).toBe('MCPConnectionError');
    expect(textOf(refused)).toContain('its credentials module gave no headers for this caller');
    expect(JSON.stringify(refused)).not.toContain('the words of the module');
    expect(upstream.requests('tools/call')).toHaveLength(1);
    await own.dispose();
  },
);
