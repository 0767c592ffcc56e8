import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { openHost, textOf } from './host.ts';
import { scratchFolder, startStandalone, stopEverything, until } from './service.ts';

const folder = scratchFolder();
afterAll(async () => {
  await stopEverything();
  folder.remove();
});

test('--watch serves a tool module as it was last written, also after one that could not be loaded', async () => {
  const module = join(folder.path, 'tools', 'shop.ts');
  mkdirSync(join(folder.path, 'tools'));
  const write = (answer: string): void =>
    writeFileSync(
      module,
      `import { defineTool } from '@holdfast/tools';
       export const open = defineTool({
         name: 'is_open', description: 'Whether the shop is open.', input: {}, run: () => ${answer},
       });`,
    );
  write("'open'");
  const env = { HOLDFAST_TOOLS: './tools/shop.ts', HOLDFAST_DRAIN_MS: '500' };
  const { service } = await startStandalone(env, folder.path, ['--watch']);
  try {
    const ask = async (): Promise<string> => {
      // Each start listens on a port of its own.
      const [, base] = [...service.stdout.matchAll(/Holdfast serves (\S+)/g)].at(-1)!;
      return textOf(await (await openHost('modern', base!)).call('is_open', {}));
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
