import { afterEach, describe, expect, test } from '@jest/globals';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseKeyMap } from './key-map.js';

const folders: string[] = [];
afterEach(() => folders.splice(0).forEach((folder) => rmSync(folder, { recursive: true })));

function folder(files: Record<string, string | Buffer> = {}): string {
  const path = mkdtempSync(join(tmpdir(), 'holdfast-keys-'));
  folders.push(path);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(path, name), text);
  return path;
}

const keys = (text: string) => {
  const parsed = parseKeyMap(text);
  return 'value' in parsed ? Object.fromEntries(parsed.value) : parsed.wrong;
};

describe('inline', () => {
  test('an object of names to keys', () => {
    expect(keys('{"ci":"k-1","ops team":"k-2"}')).toEqual({ ci: 'k-1', 'ops team': 'k-2' });
  });

  test('a name such as __proto__ is a name', () => {
    const parsed = parseKeyMap('{"__proto__":"k-1"}');
    expect('value' in parsed && [...parsed.value]).toEqual([['__proto__', 'k-1']]);
  });

  test('two names with one key are refused, naming both', () => {
    expect(keys('{"a":"same","b":"same","c":"other"}')).toEqual([
      '"a" and "b" have the same key; give each its own',
    ]);
  });

  test('an empty or missing key is refused, naming its name', () => {
    expect(keys('{"a":"","b":"  ","c":null,"d":7,"e":"fine"}')).toEqual([
      'the key of "a" is empty',
      'the key of "b" is empty',
      'the key of "c" must be a string',
      'the key of "d" must be a string',
    ]);
  });

  test('a key that no header can carry is refused', () => {
    expect(keys('{"a":"line\\nbreak"}')).toHaveLength(1);
    expect(keys('{"a":"clé"}')).toHaveLength(1);
    expect(keys('{"a":"two words"}')).toHaveLength(1);
  });

  test('a name that is blank, or has control or broken characters, is refused on one line', () => {
    const wrong = keys('{"":"k1","  ":"k2","a\\u0000b":"k3","c\\nd":"k4","e\\ud800":"k5"}');
    expect(wrong).toHaveLength(5);
    expect(String(wrong)).not.toMatch(/[\u0000\n]/);
  });

  test('one name given twice is refused; JSON alone would keep the last', () => {
    expect(keys('{"a":"k-1","b":"a","\\u0061":"k-2"}')).toEqual(['names "a" twice; keep one']);
  });

  test('anything but an object with a key in it is refused', () => {
    for (const text of ['[]', '["a"]', '"a"', 'null', 'plain-secret', '{"a":']) {
      expect(String(keys(text))).toContain('must be a JSON object {"name":"key"}, file:PATH or dir:PATH');
    }
    expect(keys('{}')).toEqual(['holds no key; add one, or unset the variable']);
  });
});

describe('file:', () => {
  test('holds the same object', () => {
    const path = folder({ 'keys.json': '\uFEFF{"ci":"k-1"}\n' });
    expect(keys(`file:${path}/keys.json`)).toEqual({ ci: 'k-1' });
  });

  test('is named when it cannot be read or understood', () => {
    const path = folder({ 'keys.json': 'secret-text' });
    expect(keys(`file:${path}/none.json`)).toEqual([`cannot read file "${path}/none.json" (ENOENT)`]);
    expect(String(keys(`file:${path}/keys.json`))).toContain(
      `file "${path}/keys.json" must hold a JSON object`,
    );
    expect(String(keys(`file:${path}/keys.json`))).not.toContain('secret-text');
  });
});

describe('dir:', () => {
  test('has one file a key; the last newline is not part of it', () => {
    const path = folder({ ci: 'k-1\n', ops: 'k-2\r\n', agent: 'k-3' });
    expect(keys(`dir:${path}`)).toEqual({ agent: 'k-3', ci: 'k-1', ops: 'k-2' });
  });

  test('is read as Kubernetes mounts a Secret', () => {
    const path = folder();
    mkdirSync(join(path, '..2026_07_28'));
    writeFileSync(join(path, '..2026_07_28', 'ci'), 'k-1');
    symlinkSync('..2026_07_28', join(path, '..data'));
    symlinkSync('..data/ci', join(path, 'ci'));
    mkdirSync(join(path, 'lost+found'));
    writeFileSync(join(path, '.hidden'), 'k-1');
    expect(keys(`dir:${path}`)).toEqual({ ci: 'k-1' });
  });

  test('an empty file, more than one line and a dangling link are problems of that name', () => {
    const path = folder({ a: '\n', b: 'one\ntwo\n', c: Buffer.from([0xff, 0xfe]) });
    expect(keys(`dir:${path}`)).toEqual([
      'the key of "a" is empty',
      expect.stringContaining('the key of "b" has characters'),
      expect.stringContaining('the key of "c" has characters'),
    ]);
    symlinkSync('nowhere', join(path, 'd'));
    expect(keys(`dir:${path}`)).toEqual(['cannot read the key of "d" (ENOENT)']);
  });

  test('a folder that is missing or holds no key is refused', () => {
    const path = folder();
    expect(keys(`dir:${path}/none`)).toEqual([`cannot read folder "${path}/none" (ENOENT)`]);
    expect(keys(`dir:${path}`)).toEqual(['holds no key; add one, or unset the variable']);
  });
});
