import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { loadTools } from './load-tools.js';

// Jest resolves modules by itself, so what a hook does for modules outside the repository is
// seen in test/system, where a real process loads them. Here: what is found, and what is refused.
const folder = mkdtempSync(join(tmpdir(), 'holdfast-tools-'));
const write = (name: string, text: string): string => {
  mkdirSync(dirname(join(folder, name)), { recursive: true });
  writeFileSync(join(folder, name), text);
  return name;
};
const tool = (name: string): string =>
  `{ [Symbol.for('holdfast.tool')]: true, definition: { name: '${name}' } }`;

beforeAll(() => {
  write(
    'two.mjs',
    `export const a = ${tool('a')}; export default a; export const list = [${tool('b')}]; export const other = 7;`,
  );
  write('again.mjs', `export const again = ${tool('a')};`);
  write('empty.mjs', `export const x = 1;`);
  write('fake.mjs', `export const fake = { name: 'fake', input: {}, run() {} };`);
  write('broken.mjs', `throw new Error('no database');`);
});
afterAll(() => rmSync(folder, { recursive: true }));

test('every export that is a tool is found, once', async () => {
  const tools = await loadTools(['./two.mjs'], folder);
  expect(tools.map(({ definition }) => definition.name).sort()).toEqual(['a', 'b']);
});

test.each([
  [
    ['./two.mjs', 'again.mjs'],
    'ToolRegistrationError',
    /tool "a" is defined twice: in \.\/two\.mjs, export (a|default) and in again\.mjs, export again/,
  ],
  [['./missing.mjs'], 'RunError', /\.\/missing\.mjs: there is no such file/],
  [['no-such-package'], 'RunError', /no-such-package: there is no such file .* and no such package/],
  [['empty.mjs'], 'RunError', /empty\.mjs: exports no tool/],
  [['fake.mjs'], 'RunError', /fake\.mjs, export fake: looks like a tool but was not made by defineTool/],
  [['broken.mjs'], 'RunError', /broken\.mjs: could not be loaded: no database/],
])('%j is refused, naming the file', async (modules, name, message) => {
  await expect(loadTools(modules, folder)).rejects.toMatchObject({
    name,
    message: expect.stringMatching(message),
  });
});
