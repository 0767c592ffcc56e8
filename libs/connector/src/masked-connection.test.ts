import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { ChildGuard, type Connection } from '@holdfast/mcp-client';
import type { Principal, Progress } from '@holdfast/run';
import { ScriptableUpstream, tool, type UpstreamScript } from '../../../test/servers/index.ts';
import { afterTest } from '../../../test/support/after-test.ts';
import { silent } from '../../../test/support/log.ts';
import { connectionOpener } from './open-connection.js';
import { parseServers } from './parse-servers.js';

const variable = 'tok_live_51Habc"quoted/+x';
const literal = 'literal-Key-0123456789';
const given = 'module-Token-987654321';
const home = mkdtempSync(join(tmpdir(), 'holdfast-mask-'));

async function open(entry: object, principal: Principal | null = null): Promise<Connection> {
  const children = new ChildGuard({ log: silent });
  afterTest(() => children.close());
  const parsed = parseServers(JSON.stringify({ servers: [{ id: 'up', ...entry }] }), {
    stdioEnabled: true,
    legacySse: false,
    isProduction: false,
    approvalMode: 'guarded',
  });
  if (typeof parsed === 'string' || parsed.servers.length === 0) throw new Error(JSON.stringify(parsed));
  const connection = await connectionOpener({
    guard: { allowLoopback: true, requireAllowedHosts: false, network: 'on' },
    placeholders: {
      node: process.execPath,
      python: 'python3',
      repo: home,
      home,
      environment: { SECRET: variable, SHORT: 'eu', STAGE: 'prod' },
    },
    children,
    version: '1',
    log: silent,
  })(parsed.servers[0]!, principal, AbortSignal.timeout(20_000));
  afterTest(() => connection.close());
  return connection;
}

/** Everything that a call of `name` brought out, as text. */
async function call(connection: Connection, name: string): Promise<string> {
  const progress: Progress[] = [];
  const sent = await connection.send(
    { tool: name, arguments: '{}', meta: {}, paramHeaders: {} },
    {
      beforeSend: async () => {},
      signal: new AbortController().signal,
      timeoutMs: 10_000,
      onProgress: (one) => progress.push(one),
    },
  );
  return JSON.stringify([sent, progress]);
}

async function startUpstream(script: Partial<UpstreamScript>): Promise<ScriptableUpstream> {
  const upstream = await ScriptableUpstream.start({ script });
  afterTest(() => upstream.close());
  return upstream;
}

const headers = { Authorization: 'Bearer ${env:SECRET}', 'X-Api-Key': literal, 'X-Region': '${env:SHORT}' };
const echoed = [variable, literal, encodeURIComponent(variable)]
  .map((value) => `you sent Bearer ${value} to eu prod`)
  .join('; ');
const tools = [
  tool('result', {
    result: {
      content: [
        { type: 'text', text: echoed },
        { type: 'text', text: JSON.stringify({ auth: variable }) },
      ],
    },
  }),
  tool('failure', { result: { isError: true, content: [{ type: 'text', text: echoed }] } }),
  tool('structured', { result: { content: [], structuredContent: { [literal]: { deep: [echoed] } } } }),
  tool('error', { error: { code: -5, message: echoed } as never }),
  tool('progress', { progress: [{ value: 1, message: echoed }] }),
];

test.each(tools.map(({ definition }) => definition.name as string))(
  'G14: values that go to a server over HTTP do not come back: %s',
  async (name) => {
    const { url } = await startUpstream({ pages: [tools] });
    const text = await call(await open({ transport: 'http', url, headers }), name);
    expect(text).toContain('***');
    for (const value of [
      variable,
      literal,
      encodeURIComponent(variable),
      JSON.stringify(variable).slice(1, -1),
    ]) {
      expect(text).not.toContain(value);
      expect(text).not.toContain(JSON.stringify(value).slice(1, -1));
    }
    // What is too short to be told from other text stays.
    if (name !== 'structured') expect(text).toContain('to eu prod');
  },
);

test.each([400, 401, 403, 500])('G14: the body of a %i is masked', async (status) => {
  const upstream = await startUpstream({ pages: [tools] });
  const connection = await open({ transport: 'http', url: upstream.url, headers });
  const body = JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    error: { code: -1, message: `bad token ${variable} or key=abcdefgh12345` },
  });
  upstream.faults.push({ on: 'tools/call', do: { kind: 'status', status, body } });
  const text = await call(connection, 'result');
  expect(text).toContain('bad token ***');
  expect(text).not.toContain('abcdefgh12345');
});

test('G14: a secret that an error cuts is masked as far as it stands', async () => {
  const message = `${'x'.repeat(1_985)}${variable}`;
  const { url } = await startUpstream({
    pages: [[tool('error', { error: { code: -5, message } as never })]],
  });
  expect(await call(await open({ transport: 'http', url, headers }), 'error')).not.toContain('tok_live');
});

test('G14: what a credentials module gave does not come back, after a renewal neither', async () => {
  const module = join(home, 'credentials.mjs');
  writeFileSync(module, `let n = 0; export default () => ({ Authorization: 'Bearer ${given}' + n++ });`);
  const pages = [[tool('result', { result: { content: [{ type: 'text', text: `${given}0 ${given}1` }] } })]];
  const { url } = await startUpstream({ pages });
  const connection = await open(
    { transport: 'http', url, credentials: { per: 'principal', module } },
    { realm: 'apikey', id: 'desk' },
  );
  await connection.renewCredentials?.(AbortSignal.timeout(5_000));
  expect(await call(connection, 'result')).not.toContain(given);
});

test('G14: credentials by form are masked in errors, and results keep their text', async () => {
  const text =
    'Authorization: Bearer eyJhbGciOi.J9abcdef0 x-api-key: 0123456789abc password=hunter22 api_key=zzzzzzzz1';
  const code = 'const token=readToken(); // sort key=createdAt, Bearer authentication';
  const { url } = await startUpstream({
    pages: [
      [
        tool('error', { error: { code: -5, message: text } as never }),
        tool('code', { result: { content: [{ type: 'text', text: code }] } }),
      ],
    ],
  });
  const connection = await open({ transport: 'http', url });
  expect(await call(connection, 'error')).not.toMatch(/eyJ|0123456789abc|hunter22|zzzzzzzz1/);
  expect(await call(connection, 'code')).toContain(code);
});

test('G14: a definition is masked, and its name stays', async () => {
  const { url } = await startUpstream({
    pages: [[tool('look', { definition: { description: `for ${variable}` } })]],
  });
  const connection = await open({ transport: 'http', url, headers });
  expect(await connection.listPage(undefined, AbortSignal.timeout(5_000))).toMatchObject({
    tools: [{ name: 'look', description: 'for ***' }],
  });
});

test('G14: values of env and args of a server over stdio do not come back', async () => {
  const script = join(home, 'echo.mjs');
  writeFileSync(
    script,
    `
    import { createInterface } from 'node:readline';
    const said = process.env.KEY + ' ' + process.env.FIXED + ' ' + process.argv.slice(2).join(' ');
    createInterface({ input: process.stdin }).on('line', (line) => {
      const { id, method, params } = JSON.parse(line);
      if (id === undefined) return;
      const result = method === 'initialize'
        ? { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'n', version: '1' } }
        : { content: [{ type: 'text', text: said + ' /srv/files/report.txt' }] };
      const answer = params?.name === 'error' ? { error: { code: -5, message: said } } : { result };
      console.log(JSON.stringify({ jsonrpc: '2.0', id, ...answer }));
    });`,
  );
  const connection = await open({
    transport: 'stdio',
    command: '${node}',
    args: [script, `--api-key=${literal}`, '/srv/files', '--verbose'],
    env: { KEY: '${env:SECRET}', FIXED: given },
  });
  for (const name of ['error', 'result']) {
    const text = await call(connection, name);
    for (const value of [JSON.stringify(variable).slice(1, -1), literal, given])
      expect(text).not.toContain(value);
    expect(text).toContain('--verbose');
  }
  expect(await call(connection, 'result')).toContain('/srv/files/report.txt');
});
