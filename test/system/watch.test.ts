import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeEach, expect, test } from '@jest/globals';
import { openHost, textOf } from './host.ts';
import { scratchFolder, startStandalone, stopEverything, until } from './service.ts';

const folder = scratchFolder();
afterAll(async () => {
  await stopEverything();
  folder.remove();
});

let module: string;
beforeEach(() => {
  mkdirSync(join(folder.path, 'tools'), { recursive: true });
  module = join(folder.path, 'tools', 'shop.ts');
});

function write(answer: string): void {
  writeFileSync(
    module,
    `import { defineTool } from '@holdfast/tools';
     export const open = defineTool({
       name: 'is_open', description: 'Whether the shop is open.', input: {}, run: () => ${answer},
     });`,
  );
}

const watched = (): ReturnType<typeof startStandalone> =>
  startStandalone({ HOLDFAST_TOOLS: './tools/shop.ts', HOLDFAST_DRAIN_MS: '500' }, folder.path, ['--watch']);

test('--watch serves a tool module as it was last written, also after one that could not be loaded', async () => {
  write("'open'");
  const { service } = await watched();
  try {
    const ask = async (): Promise<string> => {
      // Each start listens on a port of its own.
      const [, url] = [...service.stdout.matchAll(/Holdfast serves (\S+)/g)].at(-1)!;
      return textOf(await (await openHost('modern', url!)).call('is_open', {}));
    };
    const answers = (text: string): Promise<true> =>
      until(async () => ((await ask().catch(() => undefined)) === text ? true : undefined));

    await answers('open');
    write("'closed'");
    await answers('closed');
    write("'half");
    await service.printed(/shop\.ts: could not be loaded/);
    write("'open again'");
    await answers('open again');
  } finally {
    expect(await service.stop()).toBe(0);
  }
});

test('--watch that is stopped while it starts again leaves no process behind', async () => {
  write("new Promise(() => process.stderr.write('the body has begun'))");
  const { service, base } = await watched();
  const host = await openHost('modern', `${base}/mcp`);
  const call = host.begin('is_open', {});
  await service.printed(/the body has begun/);
  write("'open'");
  await service.printed(/a tool module changed/);
  // Its streams close when the last process that has them is gone.
  expect(await service.stop()).toBe(0);
  expect(service.stdout.match(/Holdfast serves/g)).toHaveLength(1);
  await call.answer.catch(() => {});
});
