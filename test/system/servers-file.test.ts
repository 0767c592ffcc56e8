import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ScriptableUpstream } from '../servers/index.ts';
import { Fleet } from './fleet.ts';
import { errorNameOf, textOf, type Host } from './host.ts';
import { until } from './service.ts';
import { toolsOf } from './upstream-fleet.ts';

let fleet: Fleet;
let host: Host;
let path: string;
let upstream: ScriptableUpstream;
beforeAll(async () => {
  upstream = await ScriptableUpstream.start();
  fleet = await Fleet.start('standalone', (folder) => {
    path = join(folder, 'config', 'servers.yaml');
    mkdirSync(join(folder, 'config'));
    write('a');
    return {
      HOLDFAST_SERVERS_FILE: path,
      HOLDFAST_ENV_ALLOW: 'MCP_',
      MCP_NAME: 'a-value-of-a-variable',
      OTHER_NAME: 'hunter2',
    };
  });
  host = await fleet.host('modern');
});
afterAll(async () => {
  await fleet.dispose();
  await upstream.close();
});

/** Writes the settings, in YAML, of servers that are all one. */
function write(...ids: string[]): void {
  replace(
    `# Servers of the team.\nservers:\n${ids
      .map(
        (id) =>
          `  - id: ${id}\n    url: ${upstream.url}?${id}\n    headers: { X-Name: "\${env:MCP_NAME}" }\n`,
      )
      .join('')}`,
  );
}

/** As an editor does: the new file in the place of the old one. */
function replace(text: string): void {
  writeFileSync(`${path}.new`, text);
  renameSync(`${path}.new`, path);
}

const log = (): readonly Record<string, unknown>[] => fleet.gateways[0]!.service.log;
const printed = (): string => fleet.gateways.map(({ service }) => service.stdout + service.stderr).join('');

/** What is wrong with the file or with a server, once it is said; `after` so many lines. */
function diagnosed(origin: string, after = 0): Promise<string> {
  return until(() => {
    const said = log()
      .slice(after)
      .find((line) => line['origin'] === origin);
    return said === undefined ? undefined : String(said['msg']);
  });
}

async function listed(): Promise<string> {
  const ids = (await toolsOf(host)).map(({ name }) => /^(.+)__/.exec(name)?.[1]).filter(Boolean);
  return [...new Set(ids)].join();
}

const offers = (ids: string): Promise<boolean> => until(async () => (await listed()) === ids, 50);

describe('the settings file, in YAML, while it runs', () => {
  test('names the servers, whose variables reach them', async () => {
    await offers('a');
    expect(textOf(await host.call('a__echo', { n: 1 }))).toBe('{"n":1}');
    const [first] = upstream.requests('tools/call');
    expect(first!.headers['x-name']).toBe('a-value-of-a-variable');
    write('a', 'b');
    await offers('a,b');
  });

  test.each([
    ['is no YAML', 'servers: [ {id: c, url: "https://hunter2@', /line 1: neither JSON nor YAML/],
    ['has no list', 'server:\n  - id: c\n', /unknown field server at the top/],
    ['is empty', '', /it must hold a list `servers`/],
    ['lists what is no list', 'servers: all\n', /it must hold a list `servers`/],
    ['has aliases without end', 'a: &a [x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nservers: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n', /aliases|unknown field/],
  ])('that %s leaves the last good servers, and is told without its text', async (_what, text, said) => {
    const before = log().length;
    replace(text);
    expect(await diagnosed('servers.yaml', before)).toMatch(said);
    expect(await diagnosed('servers.yaml', before)).toMatch(/the last servers that could be read stay/);
    expect(await listed()).toBe('a,b');
    expect(textOf(await host.call('b__echo', { n: 2 }))).toBe('{"n":2}');
    expect(printed()).not.toContain('hunter2');
    write('a', 'b');
  }); // prettier-ignore

  test('that is removed leaves them too, and is taken up when it comes back', async () => {
    const before = log().length;
    rmSync(path);
    expect(await diagnosed('servers.yaml', before)).toMatch(/it cannot be read \(ENOENT\)/);
    expect(await listed()).toBe('a,b');
    write('b', 'c');
    await offers('b,c');
    expect(errorNameOf(await host.call('a__echo', {}))).toBe('ToolWithdrawn');
  });
});

describe('an entry of the settings file', () => {
  async function told(id: string, fields: string): Promise<string> {
    const before = log().length;
    replace(`servers:\n  - id: b\n    url: ${upstream.url}?b\n  - id: ${id}\n${fields}`);
    return diagnosed(id, before);
  }

  test.each([
    ['env-ours', '${env:HOLDFAST_STORE}', /HOLDFAST_STORE/],
    ['env-other', '${env:OTHER_NAME}', /the variable OTHER_NAME may not be read here; HOLDFAST_ENV_ALLOW/],
    ['env-unset', '${env:MCP_NOT_THERE}', /the variable MCP_NOT_THERE is not set/],
    ['env-odd', '${env:}', /env/],
    ['env-open', '${env:MCP_NAME', /placeholder is not closed/],
    ['no-word', '${secrets.GITHUB}', /secrets\.GITHUB|placeholder/],
  ])('%s with %s is refused by the name of the variable, never by its value', async (id, value, said) => {
    expect(await told(id, `    url: ${upstream.url}\n    headers: { X-Key: "${value}" }\n`)).toMatch(said);
    expect(printed()).not.toContain('hunter2');
    await offers('b');
  });

  test.each([
    ['host-by-variable', '    url: "https://${env:MCP_NAME}/mcp"\n', /a placeholder may not stand in its host/],
    ['user-in-url', '    url: https://me:hunter2@mcp.example.com/mcp\n', /may hold no user and no password/],
    ['misspelt', '    url: https://mcp.example.com/mcp\n    timeuot: 3\n', /unknown field timeuot; did you mean timeout\?/],
    ['two-ways', '    url: https://mcp.example.com/mcp\n    command: npx\n', /transport/],
    ['off', '    transport: sse\n    url: https://mcp.example.com/sse\n', /HOLDFAST_ALLOW_LEGACY_SSE=true/],
  ])('%s is left out alone, and says why', async (id, fields, said) => {
    expect(await told(id, fields)).toMatch(said);
    expect(printed()).not.toContain('hunter2');
    await offers('b');
  }); // prettier-ignore
});
