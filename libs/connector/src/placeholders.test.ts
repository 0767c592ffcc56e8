import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import type { StdioSettings } from '@holdfast/mcp-client';
import {
  fillPlaceholders,
  hasPlaceholderInAuthority,
  placeholderProblem,
  type PlaceholderValues,
} from './placeholders.js';
import type { HttpSettings } from './server-settings.js';
import { afterTest } from '../../../test/support/after-test.ts';

const stdioSettings = (change: Partial<StdioSettings>): StdioSettings => ({
  kind: 'stdio',
  command: process.execPath,
  args: [],
  env: {},
  envPolicy: 'allow-list',
  ...change,
});

const values = (change: Partial<PlaceholderValues> = {}): PlaceholderValues => ({
  node: '/bin/node',
  python: 'python3',
  repo: '/app',
  home: '/data',
  environment: { ONE: '1', PGPASSWORD: 'pg', HOLDFAST_SECRET_KEY: 'ours', NESTED: '${env:ONE} ${home}' },
  ...change,
});

const fillOne = async (text: string, change?: Partial<PlaceholderValues>) => {
  const { settings, secrets } = await fillPlaceholders(
    'files',
    stdioSettings({ args: [text] }),
    values(change),
  );
  return { text: settings.args[0], secrets };
};

const http = (url: string, headers: Record<string, string> = {}): HttpSettings => ({
  kind: 'http',
  url,
  headers,
});

describe('placeholders', () => {
  test('are filled wherever settings may hold them (BEHAVIOURS 148)', async () => {
    const { settings, secrets } = await fillPlaceholders(
      'files',
      stdioSettings({
        command: '${node}',
        args: ['${python}', '--in=${repo}/a,${home}/b', 'none $HOME {x}'],
        env: { TOKEN: '<${env:ONE}>' },
        cwd: '${home}',
      }),
      values(),
    );
    expect(settings).toEqual({
      kind: 'stdio',
      command: '/bin/node',
      args: ['python3', '--in=/app/a,/data/b', 'none $HOME {x}'],
      env: { TOKEN: '<1>' },
      cwd: '/data',
      envPolicy: 'allow-list',
    });
    expect(secrets).toEqual(['1']);
    const filled = await fillPlaceholders('gh', http('https://h.example/${env:ONE}', { A: 'Bearer ${env:ONE}' }), values()); // prettier-ignore
    expect(filled.settings).toMatchObject({ url: 'https://h.example/1', headers: { A: 'Bearer 1' } });
  });

  test('that come in with a value are text (BEHAVIOURS 149)', async () => {
    expect((await fillOne('${env:NESTED}')).text).toBe('${env:ONE} ${home}');
  });

  test.each([
    [
      '${HOME}',
      'unknown placeholder ${HOME}; did you mean ${env:HOME}? Known are ${node}, ${python}, ${repo}, ${home}, ${env:NAME} and ${env:NAME:-default}; $${ is a literal ${',
    ],
    ['${env:}', 'a placeholder ${env:…} names no variable'],
    ['${env:../x}', 'a placeholder ${env:…} names no variable'],
    ['${env:A', 'a placeholder is not closed: ${ without }; write $${ for a literal ${'],
    ['${env:a b:-c}', 'a placeholder ${env:…} names no variable'],
  ])('%s is told as wrong', async (text, problem) => {
    expect(placeholderProblem(text)).toBe(problem);
    await expect(fillOne(text)).rejects.toMatchObject({ code: 'variable', message: `files: ${problem}` });
  });

  test.each([
    ['${env:NONE:-y}', 'y'],
    ['${env:EMPTY:-y}', 'y'],
    ['${env:ONE:-y}', '1'],
    ['${env:NONE:-}', ''],
    ['${env:NONE:-a:-b ${}', 'a:-b ${'],
    ['$${env:ONE}', '${env:ONE}'],
    ['$${', '${'],
    ['$$${env:ONE}', '$${env:ONE}'],
    ['$$', '$$'],
    ['a$${x}b${env:ONE}', 'a${x}b1'],
  ])('G49: %s is filled as %s', async (text, filled) => {
    expect((await fillOne(text, { environment: { ONE: '1', EMPTY: '' } })).text).toBe(filled);
  });

  test('G49: a default does not read what may not be read', async () => {
    await expect(fillOne('${env:HOLDFAST_SECRET_KEY:-x}')).rejects.toThrow('may not be read here');
  });

  test.each(['HOLDFAST_SECRET_KEY', 'holdfast_secret_key', 'DATABASE_URL', 'APP_DATABASE_URL', 'PGPASSWORD', 'POSTGRES_PASSWORD', 'REDIS_URL', 'VALKEY_URL', 'MYSQL_PWD', 'MONGO_URL', 'OTEL_EXPORTER_OTLP_HEADERS'])('never read %s, and name it (BEHAVIOURS R18)', async (name) => {
    await expect(fillOne(`\${env:${name}}`, { environment: { [name]: 'hunter2' } })).rejects.toMatchObject({
      code: 'variable',
      message: `files: the variable ${name} may not be read here; HOLDFAST_ENV_ALLOW says which may`,
    });
  }); // prettier-ignore

  test('read only the names that a deployment allows, and never ours', async () => {
    const environment = { MCP_A: 'a', PGX: 'x', ONE: '1', HOLDFAST_X: 'ours' };
    const allowed = { environment, allowedPrefixes: ['MCP_', 'PG', 'HOLDFAST_'] };
    expect((await fillOne('${env:MCP_A}${env:PGX}', allowed)).text).toBe('ax');
    await expect(fillOne('${env:ONE}', allowed)).rejects.toThrow('ONE may not be read here');
    await expect(fillOne('${env:HOLDFAST_X}', allowed)).rejects.toThrow('HOLDFAST_X may not be read here');
  });

  test.each(['GONE', 'constructor'])('name a variable that is not set: %s', async (name) => {
    await expect(fillOne(`\${env:${name}}`)).rejects.toThrow(`files: the variable ${name} is not set`);
  });

  test('read a folder of variables before the environment, at each connect (BEHAVIOURS 123)', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-env-'));
    afterTest(() => rmSync(folder, { recursive: true }));
    // As a mounted secret is laid out.
    mkdirSync(join(folder, '..data-1'));
    writeFileSync(join(folder, '..data-1', 'ONE'), 'from the file\n\n');
    symlinkSync(join(folder, '..data-1', 'ONE'), join(folder, 'ONE'));
    mkdirSync(join(folder, 'FOLDER'));
    const from = { environmentFolder: folder };
    expect((await fillOne('${env:ONE}', from)).text).toBe('from the file\n');
    writeFileSync(join(folder, '..data-1', 'ONE'), 'rotated\r\n');
    expect((await fillOne('${env:ONE}', from)).text).toBe('rotated');
    expect((await fillOne('${env:TWO}', { ...from, environment: { TWO: '2' } })).text).toBe('2');
    await expect(fillOne('${env:FOLDER}', from)).rejects.toThrow(
      'the file of the variable FOLDER is no file',
    );
  });

  test('cannot put into a header what none may hold, and the value is not told', async () => {
    const filling = fillPlaceholders('gh', http('https://h.example/', { Authorization: 'Bearer ${env:T}' }), values({ environment: { T: 'hunter2\r\nX: y' } })); // prettier-ignore
    await expect(filling).rejects.toMatchObject({ code: 'variable', message: expect.stringMatching(/^gh: the value of the header Authorization holds what no header may(?!.*hunter2)/) }); // prettier-ignore
  });

  test.each(['https://${env:H}/mcp', 'https://a.${env:H}/mcp', '${env:URL}', 'https:/${env:H}', 'https:///${env:H}/', 'https:\\\\${env:H}/', 'https://${env:U}@h.example/', '${env:S}://h.example/', 'https://h.example${env:REST}', 'https://h.example:${env:PORT}/'])('may not say where a url leads: %s', (url) => {
    expect(hasPlaceholderInAuthority(url)).toBe(true);
  }); // prettier-ignore

  test.each(['https://h.example/${env:P}', 'https://h.example?k=${env:K}', 'https://h.example/a//${env:P}', 'https://h.example/'])('may stand in the rest of a url: %s', (url) => {
    expect(hasPlaceholderInAuthority(url)).toBe(false);
  }); // prettier-ignore
});
