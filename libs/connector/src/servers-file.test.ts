import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import type { ServerLimits, ServerSet } from './parse-servers.js';
import { watchServersFile } from './servers-file.js';
import { afterTest } from '../../../test/support/after-test.ts';
import { until } from '../../../test/support/until.ts';

const limits: ServerLimits = {
  stdioEnabled: true,
  legacySse: false,
  isProduction: false,
  approvalMode: 'guarded',
};

const withServers = (...ids: string[]) =>
  JSON.stringify({ servers: ids.map((id) => ({ id, url: `https://${id}.example/mcp` })) });

function openFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-servers-'));
  afterTest(() => rmSync(folder, { recursive: true }));
  return folder;
}

async function follow(path: string) {
  const sets: ServerSet[] = [];
  const stop = await watchServersFile(path, limits, (set) => sets.push(set));
  afterTest(stop);
  const ids = () => sets.map(({ servers }) => servers.map(({ id }) => id));
  return { sets, ids, stop };
}

describe('the watched settings file', () => {
  test('is given at start and after each change of its content', async () => {
    const path = join(openFolder(), 'servers.json');
    writeFileSync(path, withServers('a'));
    const { ids } = await follow(path);
    expect(ids()).toEqual([['a']]);
    writeFileSync(path, withServers('a', 'b'));
    await until(() => ids().length === 2);
    writeFileSync(`${path}.new`, withServers('c'));
    renameSync(`${path}.new`, path);
    await until(() => ids().length === 3);
    expect(ids()).toEqual([['a'], ['a', 'b'], ['c']]);
  });

  test('is not given again when the same is written', async () => {
    const folder = openFolder();
    const path = join(folder, 'servers.json');
    writeFileSync(path, withServers('a'));
    const { ids } = await follow(path);
    const beside = join(folder, 'beside.json');
    const other = await follow(beside);
    writeFileSync(path, withServers('a'));
    writeFileSync(beside, withServers('b'));
    // Both are looked at equally often after the same events.
    await until(() => other.sets.length === 2);
    expect(ids()).toEqual([['a']]);
  });

  test('may be a link that is pointed elsewhere, as in a mounted ConfigMap', async () => {
    const folder = openFolder();
    for (const [version, id] of [['..1', 'a'], ['..2', 'b']] as const) {
      mkdirSync(join(folder, version));
      writeFileSync(join(folder, version, 'servers.yaml'), withServers(id));
    } // prettier-ignore
    symlinkSync('..1', join(folder, '..data'));
    symlinkSync(join('..data', 'servers.yaml'), join(folder, 'servers.yaml'));
    const { ids } = await follow(join(folder, 'servers.yaml'));
    symlinkSync('..2', join(folder, '..data_tmp'));
    renameSync(join(folder, '..data_tmp'), join(folder, '..data'));
    await until(() => ids().length === 2);
    expect(ids()).toEqual([['a'], ['b']]);
  });

  test('keeps the last good servers while it is bad or gone, and says what is wrong', async () => {
    const path = join(openFolder(), 'servers.json');
    writeFileSync(path, withServers('a'));
    const { sets, ids } = await follow(path);
    writeFileSync(path, '{"servers": [');
    await until(() => sets.length === 2);
    rmSync(path);
    await until(() => sets.length === 3);
    writeFileSync(path, withServers('b'));
    await until(() => sets.length === 4);
    expect(ids()).toEqual([['a'], ['a'], ['a'], ['b']]);
    expect(sets.map(({ diagnostics }) => diagnostics.map(({ rule, origin, message }) => [rule, origin, message]))).toEqual([
      [],
      [['servers-file-invalid', 'servers.json', expect.stringMatching(/servers\.json: line 1: .*; the last servers that could be read stay$/)]],
      [['servers-file-invalid', 'servers.json', expect.stringMatching(/servers\.json: it cannot be read \(ENOENT\); the last servers that could be read stay$/)]],
      [],
    ]); // prettier-ignore
  });

  test('may be missing at start, with its folder, and come later', async () => {
    const folder = join(openFolder(), 'mounted');
    const path = join(folder, 'servers.json');
    const { ids, sets } = await follow(path);
    expect(sets[0]!.diagnostics).toMatchObject([{ rule: 'servers-file-invalid' }]);
    mkdirSync(folder);
    writeFileSync(path, withServers('a'));
    await until(() => ids().length === 2);
    expect(ids()).toEqual([[], ['a']]);
  });

  test('is a file: a folder in its place is told as wrong', async () => {
    const { sets } = await follow(openFolder());
    expect(sets[0]!.diagnostics[0]!.message).toMatch(
      /: it is no file; no servers are known until it can be read$/,
    );
  });

  test('is no longer looked at after the stop, which may come twice', async () => {
    const path = join(openFolder(), 'servers.json');
    writeFileSync(path, withServers('a'));
    const { sets, stop } = await follow(path);
    stop();
    stop();
    writeFileSync(path, withServers('b'));
    const later = await follow(path);
    writeFileSync(path, withServers('c'));
    await until(() => later.sets.length === 2);
    expect(sets).toHaveLength(1);
  });
});
