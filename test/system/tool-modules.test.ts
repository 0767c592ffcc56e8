import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { openHost, textOf, type Host } from './host.ts';
import { scratchFolder, Service, startStandalone, stopEverything, type Listening } from './service.ts';

// Outside the repository, with nothing installed: only the product makes these imports resolve.
const folder = scratchFolder();
afterAll(async () => {
  await stopEverything();
  folder.remove();
});

function write(path: string, text: string): string {
  const file = join(folder.path, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  return `./${path}`;
}

/** A module that exports one tool which answers with its own name. */
const toolNamed = (name: string): string => `
  import { defineTool } from '@holdfast/tools';
  import { z } from 'zod';
  export const tool = defineTool({
    name: '${name}',
    description: 'Says its name.',
    input: { who: z.string() },
    run: ({ who }) => '${name} greets ' + who,
  });`;

async function refusedToStart(tools: string): Promise<string> {
  const env = { HOLDFAST_STORE: 'memory:', HOLDFAST_PORT: '0', HOLDFAST_TOOLS: tools };
  const service = new Service('standalone', env, [], folder.path);
  const { code } = await service.exited;
  expect(code).not.toBe(0);
  expect(service.stdout).toBe('');
  return service.stderr;
}

let serving: Listening;
let host: Host;
beforeAll(async () => {
  write(
    'orders/tools.ts',
    `import { defineTool, type ToolContext } from '@holdfast/tools';
     import { z } from 'zod';
     import { greet, type Greeting } from './greet.ts';
     interface Args { readonly who: string }
     export const typed = defineTool({
       name: 'typed',
       description: 'Written in TypeScript.',
       input: { who: z.string().min(2) },
       async run({ who }: Args, ctx: ToolContext): Promise<Greeting> {
         return { text: greet(who), attempt: ctx.attempt } satisfies Greeting;
       },
     });`,
  );
  write(
    'orders/greet.ts',
    `export type Greeting = { text: string; attempt: number };
     export const greet = (who: string): string => 'typed greets ' + who;`,
  );
  write('plain.js', toolNamed('plain'));
  write(
    'node_modules/acme-tools/package.json',
    '{"name":"acme-tools","type":"module","exports":"./index.js"}',
  );
  write('node_modules/acme-tools/index.js', toolNamed('packaged'));
  write(
    'several.mjs',
    `${toolNamed('several_first')}
     export const more = ['second', 'third'].map((name) => defineTool({
       name: 'several_' + name, description: 'One of several.',
       input: { type: 'object', properties: { who: { type: 'string' } } },
       run: ({ who }) => name + ' greets ' + who,
     }));
     export default tool;
     export const limit = 3;`,
  );
  const tools = './orders/tools.ts,plain.js,acme-tools,./several.mjs';
  serving = await startStandalone({ HOLDFAST_STORE: 'memory:', HOLDFAST_TOOLS: tools }, folder.path);
  host = await openHost('modern', `${serving.base}/mcp`);
});

test('all tools of all modules are listed', async () => {
  const { result } = (await host.send('tools/list').answer).messages[0]!;
  expect((result!['tools'] as { name: string }[]).map(({ name }) => name)).toEqual([
    'packaged',
    'plain',
    'several_first',
    'several_second',
    'several_third',
    'typed',
  ]);
});

test('a TypeScript module runs, with its own imports and without a build', async () => {
  const { structuredContent } = await host.call('typed', { who: 'desk' });
  expect(structuredContent).toEqual({ text: 'typed greets desk', attempt: 1 });
  expect(textOf(await host.call('typed', { who: 'x' }))).toMatch(/^InvalidArguments: .*who/);
});

test.each(['plain', 'packaged', 'several_first'])(
  'a JavaScript module and a package need no installed import (%s)',
  async (name) => {
    expect(textOf(await host.call(name, { who: 'desk' }))).toBe(`${name} greets desk`);
  },
);

test('an array of tools is tools', async () => {
  expect(textOf(await host.call('several_third', { who: 'desk' }))).toBe('third greets desk');
});

test.each([
  ['that throws', 'throws.mjs', 'throw new Error("no database url");', 'no database url'],
  ['that is not JavaScript', 'garbled.mjs', 'export const = ;', 'garbled.mjs'],
  [
    'with an import that is not there',
    'lonely.mjs',
    "import 'not-installed-anywhere';",
    'not-installed-anywhere',
  ],
  ['of TypeScript that types cannot be stripped from', 'enum.ts', 'export enum Color { Red }', 'enum'],
  ['without tools', 'empty.mjs', 'export const answer = 42;', 'exports no tool'],
  [
    'with an export that only looks like a tool',
    'alike.mjs',
    "export const fake = { name: 'fake', input: {}, run: () => 'x' };",
    'export fake: looks like a tool but was not made by defineTool',
  ],
])('a module %s stops the start, which names the file', async (_what, file, text, reason) => {
  const told = await refusedToStart(write(file, text));
  expect(told).toContain(file);
  expect(told).toContain(reason);
});

test('a module that is not there stops the start, which names it', async () => {
  expect(await refusedToStart('./absent.mjs')).toContain('./absent.mjs: there is no such file');
  expect(await refusedToStart('absent-package')).toContain('absent-package: there is no such');
});

test('two tools of one name in one worker stop the start, which names both places', async () => {
  const [one, other] = [write('one.mjs', toolNamed('twin')), write('other.mjs', toolNamed('twin'))];
  const told = await refusedToStart(`${one},${other}`);
  expect(told).toMatch(/^HOLDFAST_TOOLS: ToolRegistrationError: tool "twin" is defined twice/m);
  expect(told).toContain('one.mjs');
  expect(told).toContain('other.mjs');
});
