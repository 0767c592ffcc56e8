import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { tool } from '../servers/index.ts';
import { errorNameOf, textOf, type Host } from './host.ts';
import { toolsOf, UpstreamFleet, type ListedTool } from './upstream-fleet.ts';

let own: UpstreamFleet;
let host: Host;
let servers = 0;
beforeAll(async () => {
  own = await UpstreamFleet.start('standalone');
  host = await own.fleet.host('modern');
});
afterAll(() => own.dispose());

type Schema = Record<string, unknown>;

/** Connects a server of one tool that has these schemas. */
async function serve(
  inputSchema: Schema,
  rest: Parameters<typeof tool>[1] & { outputSchema?: Schema } = {},
): Promise<{ listed: ListedTool; calls(): number; call: (args: Schema) => ReturnType<Host['call']> }> {
  const { outputSchema, ...script } = rest;
  const definition = { inputSchema, ...(outputSchema && { outputSchema }) };
  const upstream = await own.upstream({ pages: [[tool('t', { ...script, definition })]] });
  const [name] = await own.connect({ id: `s${++servers}`, url: upstream.url }, host);
  const listed = (await toolsOf(host)).find((one) => one.name === name)!;
  return {
    listed,
    calls: () => upstream.requests('tools/call').length,
    call: (args) => host.call(name!, args),
  };
}

/** Every `$ref` in a schema, each with what it points at in it. */
function references(root: unknown): [string, unknown][] {
  const found: [string, unknown][] = [];
  const walk = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    const { $ref } = value as { $ref?: unknown };
    if (typeof $ref === 'string') found.push([$ref, pointed(root, $ref)]);
    Object.values(value).forEach(walk);
  };
  walk(root);
  return found;
}

function pointed(root: unknown, reference: string): unknown {
  return reference
    .slice(1)
    .split('/')
    .slice(1)
    .reduce((value, part) => (value as Schema | undefined)?.[part.replaceAll('~1', '/')], root);
}

describe('a schema with alternatives at its top', () => {
  const one = { properties: { email: { type: 'string' } }, required: ['email'] };
  const two = { properties: { phone: { type: 'string' } }, required: ['phone'] };

  test.each(
    ['oneOf', 'anyOf', 'allOf'].flatMap((keyword) => [
      [keyword, {}] as const,
      [keyword, { type: 'object' }] as const,
    ]),
  )(
    'F60 %s beside %j is listed as an object, and arguments are held against the original',
    async (keyword, type) => {
      const { listed, calls, call } = await serve({ ...type, [keyword]: [one, two] });
      expect(listed.inputSchema['type']).toBe('object');
      for (const refused of ['oneOf', 'anyOf', 'allOf'])
        expect(listed.inputSchema).not.toHaveProperty(refused);
      expect(Object.keys(listed.inputSchema['properties'] as object)).toEqual(['email', 'phone']);
      expect(errorNameOf(await call({ other: 1 }))).toBe('InvalidArguments');
      const onlyEmail = await call({ email: 'a@b' });
      if (keyword === 'allOf') expect(errorNameOf(onlyEmail)).toBe('InvalidArguments');
      else expect(textOf(onlyEmail)).toBe('{"email":"a@b"}');
      const both = await call({ email: 'a@b', phone: '1' });
      if (keyword === 'oneOf') expect(errorNameOf(both)).toBe('InvalidArguments');
      else expect(textOf(both)).toBe('{"email":"a@b","phone":"1"}');
      expect(calls()).toBe(keyword === 'anyOf' ? 2 : 1);
    },
  );

  test('F60 variant: not, if, const, a type of two, and alternatives in alternatives, each alone', async () => {
    const schemas: Schema[] = [
      { type: 'object', not: { required: ['forbidden'] } },
      { type: ['object', 'null'], properties: { forbidden: false } },
      { type: 'object', if: { required: ['forbidden'] }, then: false },
      { anyOf: [{ oneOf: [{ type: 'object', properties: { forbidden: { type: 'null' } } }] }] },
    ];
    for (const schema of schemas) {
      const { listed, call } = await serve(schema);
      expect(listed.inputSchema['type']).toBe('object');
      expect(errorNameOf(await call({ forbidden: 1 }))).toBe('InvalidArguments');
      expect(textOf(await call({ allowed: 1 }))).toBe('{"allowed":1}');
    }
  });
});

describe('a schema that is true or false', () => {
  test('F62 for a property: the tool is served, takes any payload, and never what is never', async () => {
    const { listed, call } = await serve({
      type: 'object',
      properties: { payload: true, never: false, list: { type: 'array', items: false } },
      additionalProperties: true,
    });
    const { payload } = listed.inputSchema['properties'] as Schema;
    expect(typeof payload).toBe('object');
    for (const value of [null, 1, 'x', [1], { deep: [true] }])
      expect(textOf(await call({ payload: value, more: 1 }))).toBe(
        JSON.stringify({ payload: value, more: 1 }),
      );
    expect(errorNameOf(await call({ never: 1 }))).toBe('InvalidArguments');
    expect(errorNameOf(await call({ list: [1] }))).toBe('InvalidArguments');
    expect(textOf(await call({ list: [] }))).toBe('{"list":[]}');
  });

  test('F62 variant: in alternatives, in prefix items, in definitions and in an output schema', async () => {
    const { listed, call } = await serve(
      {
        type: 'object',
        properties: {
          any: { anyOf: [true, false] },
          pair: { type: 'array', prefixItems: [true, false] },
          ref: { $ref: '#/$defs/any' },
        },
        $defs: { any: true },
      },
      {
        outputSchema: { type: 'object', properties: { anything: true } },
        result: { content: [], structuredContent: { anything: [null] } },
      },
    );
    expect(listed.outputSchema!['type']).toBe('object');
    for (const [, target] of references(listed.inputSchema)) expect(target).toBeDefined();
    const { structuredContent } = await call({ any: 1, pair: [1], ref: {} });
    expect(structuredContent).toEqual({ anything: [null] });
    expect(errorNameOf(await call({ pair: [1, 2] }))).toBe('InvalidArguments');
  });
});

describe('definitions', () => {
  const item = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] };
  const outputSchema = {
    type: 'object',
    properties: {
      first: { $ref: '#/$defs/item' },
      all: { type: 'array', items: { type: 'object', properties: { item: { $ref: '#/$defs/item' } } } },
    },
    $defs: { item },
  };

  test('F63 in an output schema, used at two depths: listed whole, and results are held against it', async () => {
    const good = { first: { n: 1 }, all: [{ item: { n: 2 } }] };
    const fits = await serve({}, { outputSchema, result: { content: [], structuredContent: good } });
    expect(references(fits.listed.outputSchema).map(([, target]) => target)).toEqual([item, item]);
    expect((await fits.call({})).structuredContent).toEqual(good);
    const bad = { first: { n: 1 }, all: [{ item: { n: 'two' } }] };
    const breaks = await serve({}, { outputSchema, result: { content: [], structuredContent: bad } });
    expect(textOf(await breaks.call({}))).toMatch(/output schema of the tool, at .*all/);
  });

  test.each([
    ['that leads nowhere', { type: 'object', properties: { a: { $ref: '#/$defs/none' } } }],
    [
      'that is fetched from elsewhere',
      { type: 'object', properties: { a: { $ref: 'https://x.example/s' } } },
    ],
    ['that is its own', { type: 'object', $defs: { a: { $ref: '#/$defs/a' } }, $ref: '#/$defs/a' }],
    ['with a pattern that is none', { type: 'object', properties: { a: { pattern: '(' } } }],
    ['of no known keyword type', { type: 'object', properties: { a: { type: 'quantum' } } }],
  ])('F63 variant: an output schema %s costs nobody the list or the call', async (_what, schema) => {
    const structuredContent = { a: 'x' };
    const { listed, call } = await serve(
      {},
      { outputSchema: schema, result: { content: [], structuredContent } },
    );
    for (const [, target] of references(listed.outputSchema)) expect(target).toBeDefined();
    expect((await call({})).structuredContent).toEqual(structuredContent);
  });

  test('F66 in an input schema: every reference that a host sees resolves in what it sees', async () => {
    const { listed, calls, call } = await serve({
      type: 'object',
      properties: {
        a: { enum: ['x', 'y'] },
        b: { $ref: '#/$defs/level' },
        c: { $ref: '#/definitions/old' },
        d: { $ref: '#' },
        e: { $ref: '#/properties/a' },
      },
      $defs: { level: { enum: ['low', 'high'] } },
      definitions: { old: { type: 'boolean' } },
    });
    const found = references(listed.inputSchema);
    expect(found.map(([reference]) => reference).sort()).toEqual([
      '#',
      '#/$defs/level',
      '#/definitions/old',
      '#/properties/a',
    ]);
    for (const [, target] of found) expect(target).toBeDefined();
    expect(JSON.stringify(listed.inputSchema)).toMatch(/"low","high"/);
    for (const bad of [{ b: 'middle' }, { c: 1 }, { d: { a: 'z' } }, { e: 'z' }])
      expect(errorNameOf(await call(bad))).toBe('InvalidArguments');
    expect(calls()).toBe(0);
    const good = { a: 'x', b: 'low', c: true, d: { d: { e: 'y' } } };
    expect(textOf(await call(good))).toBe(JSON.stringify(good));
  });

  test('F66 variant: references by anchor, by escaped names, and under alternatives at the top', async () => {
    const { listed, call } = await serve({
      anyOf: [{ properties: { a: { $ref: '#/$defs/a~1b' } } }, { $ref: '#/$defs/other' }],
      $defs: {
        'a/b': { type: 'integer' },
        other: { properties: { c: { $ref: '#/$defs/a~1b' } }, required: ['c'] },
      },
    });
    expect(references(listed.inputSchema).length).toBeGreaterThan(0);
    for (const [, target] of references(listed.inputSchema)) expect(target).toEqual({ type: 'integer' });
    expect(errorNameOf(await call({ a: 'x', c: 'x' }))).toBe('InvalidArguments');
    const anchored = await serve({
      type: 'object',
      properties: { a: { $ref: '#level' } },
      $defs: { level: { $anchor: 'level', enum: [1] } },
    });
    expect(anchored.listed.inputSchema['type']).toBe('object');
    expect(errorNameOf(await anchored.call({ a: 2 }))).toBe('InvalidArguments');
    expect(textOf(await anchored.call({ a: 1 }))).toBe('{"a":1}');
  });
});

describe('keys that are those of prototypes', () => {
  const hostile = '{"type":"object","properties":{"constructor":{"type":"object","properties":{"prototype":{"type":"object","default":{"polluted":true},"properties":{"polluted":{"default":true}}}}},"__proto__":{"type":"object","default":{"polluted":true}}}}'; // prettier-ignore

  test('F68 in a schema change nothing for any other tool, and the tool works', async () => {
    const { call } = await serve(JSON.parse(hostile) as Schema);
    expect(textOf(await call({ constructor: { prototype: {} } }))).toBe('{"constructor":{"prototype":{}}}');
    const other = await serve({ type: 'object', additionalProperties: false });
    expect(textOf(await other.call({}))).toBe('{}');
    expect(errorNameOf(await other.call({ polluted: true }))).toBe('InvalidArguments');
  });

  test('F68 variant: in arguments and results they are data, as any other key', async () => {
    const structuredContent = JSON.parse('{"__proto__":{"polluted":true},"constructor":1}') as Schema;
    const { call } = await serve({ type: 'object' }, { result: { content: [], structuredContent } });
    const told = (await call(JSON.parse('{"__proto__":{"polluted":true}}') as Schema)).structuredContent!;
    expect(JSON.stringify(told)).toBe('{"__proto__":{"polluted":true},"constructor":1}');
    const echo = await serve({ type: 'object' });
    expect(textOf(await echo.call(JSON.parse('{"__proto__":{"polluted":true}}') as Schema))).toBe(
      '{"__proto__":{"polluted":true}}',
    );
    expect(textOf(await echo.call({}))).toBe('{}');
  });
});

describe('arguments that do not fit', () => {
  const closed = {
    type: 'object',
    properties: { path: { type: 'string' }, options: { type: 'object', properties: { depth: { type: 'integer' } }, additionalProperties: false } }, // prettier-ignore
    required: ['path'],
    additionalProperties: false,
  };

  test('F71 are refused before any call, by a tool error that names the path', async () => {
    const { calls, call } = await serve(closed);
    const misspelt = await call({ path: 'a', optoins: {} });
    expect(errorNameOf(misspelt)).toBe('InvalidArguments');
    expect(textOf(misspelt)).toMatch(/optoins/);
    const missing = await call({});
    expect(errorNameOf(missing)).toBe('InvalidArguments');
    expect(textOf(missing)).toMatch(/path/);
    expect(calls()).toBe(0);
  });

  test('F71 variant: deep down, of another type, and none at all', async () => {
    const { calls, call } = await serve(closed);
    expect(textOf(await call({ path: 'a', options: { dept: 1 } }))).toMatch(/options.*dept/s);
    expect(textOf(await call({ path: 'a', options: { depth: '1' } }))).toMatch(/options.*depth/s);
    expect(textOf(await call({ path: null }))).toMatch(/path/);
    const { messages, status } = await host.send('tools/call', { name: `s${servers}__t` }).answer;
    expect(status).toBe(200);
    expect(errorNameOf(messages.at(-1)!.result!)).toBe('InvalidArguments');
    expect(calls()).toBe(0);
  });
});
