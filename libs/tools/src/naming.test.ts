import { describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { projectNames, type NamedServer, type NamingInput, type NamingStyle } from './naming.js';

const hex = (text: string): string => createHash('sha256').update(text).digest('hex');

const server = (id: string, tools: readonly string[], url = `https://${id}.example/mcp`): NamedServer => {
  const identity = hex(`http\n${url}`);
  return { key: `${id}_${identity.slice(0, 8)}`, id, identity, tools: tools.map((name) => ({ name })) };
};

/** `id of the server + bare name → exposed name`, in order. */
const names = (servers: readonly NamedServer[], change: Partial<NamingInput> = {}): string[] => {
  const { exposed } = projectNames({ localNames: [], style: 'double-underscore', servers, ...change });
  return servers.flatMap(({ key, tools }) => tools.flatMap(({ name }) => exposed.get(key)?.get(name) ?? []));
};

describe('a name (BEHAVIOURS 169-170, X2)', () => {
  test.each<[NamingStyle, string]>([
    ['double-underscore', 'docs__Search-it'],
    ['mcp-prefix', 'mcp_docs_search-it'],
    ['dotted', 'docs.Search-it'],
  ])('in the style %s is %s', (style, name) => {
    expect(names([server('docs', ['Search-it'])], { style })).toEqual([name]);
  });

  test('that is illegal ends in digits of its hash (R14)', () => {
    expect(names([server('docs', ['search.docs', 'search docs'])])).toEqual([
      'docs__search_docs_31310365',
      'docs__search_docs_4ad94742',
    ]);
    expect(names([server('docs', ['search.docs', 'a/b'])], { style: 'dotted' })).toEqual([
      'docs.search.docs',
      `docs.a_b_${hex('docs__a/b').slice(0, 8)}`,
    ]);
  });

  test('F51 of 64 characters is untouched, and one of 65 rewritten', () => {
    const id = 'a-server-of-exactly-30-letters';
    const tools = [40, 63, 64, 65, 128, 200].map((length) => 'x'.repeat(length - (length < 66 ? 32 : 0)));
    const exposed = names([server(id, tools)]);
    expect(exposed.map((name) => name.length)).toEqual([40, 63, 64, 64, 64, 64]);
    expect(exposed.slice(0, 3)).toEqual(tools.slice(0, 3).map((tool) => `${id}__${tool}`));
    for (const name of exposed) expect(name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
    expect(exposed[3]).toBe(`${id}__${'x'.repeat(23)}_${hex(`${id}__${tools[3]}`).slice(0, 8)}`);
    expect(new Set(exposed).size).toBe(6);
  });

  test('F53 is kept shorter for hosts that put a prefix before it, by a hash and not by a cut', () => {
    const long = names([server('docs', ['x'.repeat(50), 'x'.repeat(49), 'ok'])], { maxLength: 46 });
    expect(long.map((name) => name.length)).toEqual([46, 46, 8]);
    expect(new Set(long).size).toBe(3);
  });

  test.each<[NamingStyle, string, string]>([
    ['double-underscore', 'mcp', 'describe_tool'],
    ['double-underscore', 'holdfast_', 'x'],
    ['double-underscore', 'mcp', '_'],
    ['mcp-prefix', '_describe', 'tool'],
    ['dotted', 'mcp__a', 'b'],
  ])('in the style %s is never a reserved one: %s + %s', (style, id, tool) => {
    const [name] = names([server(id, [tool])], { style });
    expect(name).toMatch(/^(?!mcp__|holdfast__)[a-zA-Z0-9_.-]{1,64}$/);
  });

  test('F55 that cannot be made is left out alone and reported', () => {
    const docs = server('docs', ['a', '', 'b']);
    const { exposed, leftOut } = projectNames({
      localNames: [],
      servers: [docs],
      style: 'double-underscore',
    });
    expect([...exposed.get(docs.key)!.values()]).toEqual(['docs__a', 'docs__b']);
    expect(leftOut).toEqual([{ server: docs.key, tool: '', reason: 'it has no name' }]);
  });

  test.each(['constructor', '__proto__', '\ud83d', '😀', '\0', '\n', 'é', '名前'])(
    'can be made for %j',
    (tool) => {
      const [name] = names([server('docs', [tool])]);
      expect(name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
    },
  );
});

describe('of two that would meet', () => {
  test('F56 both are told apart, whatever spells the same', () => {
    for (const [one, other] of [
      [server('acme_', ['status']), server('acme', ['_status'])],
      [server('a__b', ['c']), server('a', ['b__c'])],
    ] as const) {
      const exposed = names([one, other]);
      const tools = [one, other].map(({ key, tools: [tool] }) => hex(`${key}\n${tool!.name}`).slice(0, 8));
      expect(exposed.map((name) => name.slice(-8))).toEqual(tools);
      expect(new Set(exposed).size).toBe(2);
    }
  });

  test('a local tool keeps its name', () => {
    expect(names([server('docs', ['search', 'read'])], { localNames: ['docs__search'] })).toEqual([
      `docs__search_${hex('docs__search').slice(0, 8)}`,
      'docs__read',
    ]);
  });

  test('a local tool keeps the name with eight digits too, and the other gets sixteen', () => {
    const localNames = ['docs__search', `docs__search_${hex('docs__search').slice(0, 8)}`];
    expect(names([server('docs', ['search'])], { localNames })).toEqual([
      `docs__search_${hex('docs__search').slice(0, 16)}`,
    ]);
  });

  test('a published name that looks like a made one takes nothing from it', () => {
    const exposed = names([server('docs', ['search.docs', 'search_docs_31310365'])]);
    expect(exposed).toEqual([
      `docs__search_docs_${hex('docs__search.docs').slice(0, 16)}`,
      `docs__search_docs_31310365_${hex('docs__search_docs_31310365').slice(0, 8)}`,
    ]);
  });

  test('in lower case both are told apart', () => {
    const exposed = names([server('docs', ['Search', 'search', 'find'])], { style: 'mcp-prefix' });
    expect(exposed).toEqual([
      `mcp_docs_search_${hex('docs__Search').slice(0, 8)}`,
      `mcp_docs_search_${hex('docs__search').slice(0, 8)}`,
      'mcp_docs_find',
    ]);
  });
});

describe('servers of one id (BEHAVIOURS 172)', () => {
  const [one, other] = [server('docs', ['a'], 'https://one/mcp'), server('docs', ['a'], 'https://other/mcp')];

  test('both carry digits of their identity, and one alone has the plain name', () => {
    expect(names([one, other])).toEqual([
      `docs_${one.identity.slice(0, 8)}__a`,
      `docs_${other.identity.slice(0, 8)}__a`,
    ]);
    expect(names([one])).toEqual(['docs__a']);
  });

  test('one that is gone takes nothing from the other', () => {
    expect(names([one, { ...other, tools: [] }])).toEqual(['docs__a']);
  });

  test('a server that is called like such a one is told apart too', () => {
    const twin = server(`docs_${one.identity.slice(0, 8)}`, ['a']);
    const exposed = names([one, other, twin]);
    expect(new Set(exposed).size).toBe(3);
  });
});

test('neither the order of servers nor of tools ever matters, and no two names are equal', () => {
  const words = [
    'a',
    '_a',
    'a_',
    'a__b',
    'b',
    'b__c',
    'c',
    'A',
    'a.b',
    'a b',
    'a-b',
    '',
    'x'.repeat(70),
    'mcp',
  ];
  let seed = 7;
  const random = (): number => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
  const shuffled = <T>(items: readonly T[]): T[] =>
    items.map((item) => [random(), item] as const).sort(([a], [b]) => a - b).map(([, item]) => item); // prettier-ignore
  const some = (): string[] => shuffled(words).slice(0, 3 + Math.floor(random() * 8));
  for (let round = 0; round < 60; round++) {
    const style = (['double-underscore', 'mcp-prefix', 'dotted'] as const)[round % 3]!;
    const ids = ['a', 'a_', 'a__b', 'b', 'b', 'mcp', '_a'];
    const servers = ids.map((id, i) => server(id, some(), `https://${i}/mcp`));
    const localNames = ['a__b', 'a__b__c', 'mcp_a_b', 'b'];
    const project = (list: readonly NamedServer[]): ReturnType<typeof projectNames> =>
      projectNames({ localNames: shuffled(localNames), servers: list, style });
    const flat = ({ exposed, leftOut }: ReturnType<typeof projectNames>): unknown => [
      [...exposed]
        .flatMap(([key, tools]) => [...tools].map(([tool, name]) => [key, tool, name].join(' ')))
        .sort(),
      leftOut,
    ];
    const first = project(servers);
    const again = project(shuffled(servers).map((one) => ({ ...one, tools: shuffled(one.tools) })));
    expect(flat(again)).toEqual(flat(first));
    const all = [...first.exposed.values()].flatMap((tools) => [...tools.values()]);
    expect(new Set([...all, ...localNames]).size).toBe(all.length + localNames.length);
    const count = servers.reduce((sum, { tools }) => sum + tools.length, 0);
    expect(all.length + first.leftOut.length).toBe(count);
    for (const name of all) expect(name).toMatch(/^(?!mcp__|holdfast__)[a-zA-Z0-9_.-]{1,64}$/);
  }
});

test('G13: of servers that share an id by the settings both carry digits, whichever is listed first', () => {
  const one = { ...server('docs', ['a'], 'https://one/'), sharesId: true };
  const other = { ...server('docs', ['a'], 'https://other/'), sharesId: true };
  const both = names([one, other]);
  expect(names([one])).toEqual([both[0]]);
  expect(names([{ ...one, tools: [] }, other])).toEqual([both[1]]);
  expect(names([server('docs', ['a']), { ...other, tools: [] }])).toEqual(['docs__a']);
});
