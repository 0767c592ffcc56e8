import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { parseServer, parseServers, type ServerLimits, type ServerSet } from './parse-servers.js';
import { serverIdentity, serverKey } from './server-identity.js';
import type { StdioSettings } from '@holdfast/mcp-client';
import type { HttpSettings, ServerSettings } from './server-settings.js';

const limits: ServerLimits = {
  stdioEnabled: true,
  legacySse: false,
  isProduction: false,
  approvalMode: 'guarded',
};

const set = (text: string, change: Partial<ServerLimits> = {}): ServerSet => {
  const parsed = parseServers(text, { ...limits, ...change });
  if (typeof parsed === 'string') throw new Error(parsed);
  return parsed;
};
const http = (fields: object = {}) => ({
  id: 'gh',
  transport: 'http',
  url: 'https://h.example/mcp',
  ...fields,
});
const stdio = (fields: object = {}) => ({ id: 'fs', transport: 'stdio', command: 'run', ...fields });
const accepted = (entry: unknown, change: Partial<ServerLimits> = {}): ServerSettings => {
  const parsed = parseServer(entry, { ...limits, ...change });
  if (parsed.kind === 'refused') throw new Error(parsed.message);
  return parsed.server;
};
const refusal = (entry: unknown, change: Partial<ServerLimits> = {}) => {
  const parsed = parseServer(entry, { ...limits, ...change });
  if (parsed.kind === 'server') throw new Error('it was accepted');
  return `${parsed.rule}: ${parsed.message}`;
};
const headersOf = (entry: unknown) => (accepted(entry).transport as HttpSettings).headers;

describe('an entry of the settings file', () => {
  test('has defaults for all that it does not say (BEHAVIOURS 145-147)', () => {
    expect(accepted(stdio())).toEqual({
      id: 'fs',
      name: 'fs',
      enabled: true,
      required: false,
      transport: { kind: 'stdio', command: 'run', args: [], env: {}, envPolicy: 'allow-list' },
      rules: {
        timeoutMs: 60_000,
        retry: 2,
        concurrency: 16,
        overrides: {},
        trustHints: true,
        requiresApproval: [],
        autoApprove: [],
        approvalMode: 'guarded',
        resultMode: 'passthrough',
        maxResultBytes: 4 * 1024 * 1024,
        descriptionPrefix: true,
      },
      connectTimeoutMs: 60_000,
      connectRetries: 3,
      connectBackoffMs: 500,
      maxToolPages: 100,
      maxTools: 500,
      placement: 'single',
      sessionScope: 'server',
    });
  });

  test('G44: a server over stdio has a minute to connect, one over HTTP ten seconds', () => {
    const timeoutOf = (entry: object) => accepted(entry).connectTimeoutMs;
    expect(timeoutOf(stdio())).toBe(60_000);
    expect(timeoutOf(http())).toBe(10_000);
    expect(timeoutOf(stdio({ connect_timeout: 5 }))).toBe(5_000);
    expect(timeoutOf(http({ connect_timeout: 120 }))).toBe(120_000);
  });

  test('may say all of it', () => {
    const entry = http({ name: 'GitHub', enabled: false, required: true, headers: { 'X-A': '1' }, timeout: 1.5, retry: 0, connect_retries: 1, connect_backoff: 0, connect_timeout: 5, max_tool_pages: 7, max_tools: 8, cache_ttl: 60, allow: ['a'], overrides: { a: 'read' }, trust_hints: false, requires_approval: ['a'], auto_approve: ['b'], approval_mode: 'ask', concurrency: 2, placement: 'every', on_crash: 'rerun', result_mode: 'text', max_result_bytes: 2048, description_prefix: false, allowed_hosts: ['h.example'], allow_private: true, credentials: { per: 'principal', module: './who.js' } }); // prettier-ignore
    expect(accepted(entry)).toEqual({
      id: 'gh',
      name: 'GitHub',
      enabled: false,
      required: true,
      transport: {
        kind: 'http',
        url: 'https://h.example/mcp',
        headers: { 'X-A': '1' },
        allowedHosts: ['h.example'],
        allowPrivate: true,
        credentialsModule: './who.js',
      },
      rules: {
        timeoutMs: 1500,
        retry: 0,
        concurrency: 2,
        overrides: { a: 'read' },
        trustHints: false,
        allow: ['a'],
        requiresApproval: ['a'],
        autoApprove: ['b'],
        approvalMode: 'ask',
        onCrash: 'rerun',
        resultMode: 'text',
        maxResultBytes: 2048,
        descriptionPrefix: false,
      },
      connectTimeoutMs: 5000,
      connectRetries: 1,
      connectBackoffMs: 0,
      maxToolPages: 7,
      maxTools: 8,
      cacheTtlMs: 60_000,
      placement: 'every',
      sessionScope: 'principal',
    });
  });

  test.each(['A', 'a.b', 'a'.repeat(33), '', 7, undefined])('needs an id of its form, not %p (C27)', (id) => {
    expect(refusal(http({ id }))).toMatch(/^server-entry-invalid: id: /);
  });

  test.each(['a-b_9', 'a'.repeat(32), '0'])('may have the id %s', (id) => {
    expect(accepted(http({ id })).id).toBe(id);
  });

  test.each(['mcp', 'holdfast'])('may not take the id %s (BEHAVIOURS 175)', (id) => {
    expect(refusal(http({ id }))).toBe(`server-entry-invalid: the id ${id} is taken by the product itself`);
  });

  test('names each unknown field and the nearest known one', () => {
    expect(refusal(http({ allows: ['a'], allowHttp: true, quux: 1 }))).toBe('server-entry-invalid: unknown field allows; did you mean allow?; unknown field allowHttp; did you mean allow_http?; unknown field quux'); // prettier-ignore
  });

  test.each([0, 601, '60', null])('refuses the timeout %p (C27)', (timeout) => {
    expect(refusal(http({ timeout }))).toMatch(/^server-entry-invalid: timeout: /);
  });

  test('is told what is wrong without the value of a field', () => {
    const told = [
      refusal(http({ headers: { Authorization: 'Bearer hunter2\n' } })),
      refusal(http({ headers: { Authorization: ['hunter2'] } })),
      refusal(http({ auth: { bearer: 'hunter2' } })),
      refusal(http({ url: 'https://user:hunter2@h.example/' })),
      refusal(stdio({ env: { TOKEN: 'a${hunter2' } })),
      refusal(['hunter2']),
      refusal('hunter2'),
    ];
    expect(told.join('\n')).not.toContain('hunter2');
  });

  test('is refused where its fields exclude each other', () => {
    expect(refusal(http({ allow: ['a'], deny: ['b'] }))).toContain('allow and deny exclude each other');
    expect(refusal(http({ auto_approve: ['a'], requires_approval: ['b', 'a'] }))).toContain('a is in auto_approve and in requires_approval'); // prettier-ignore
    expect(refusal(http({ args: ['a'] }))).toContain('args does not go with transport http');
    expect(refusal(stdio({ headers: {} }))).toContain('headers does not go with transport stdio');
    expect(refusal(stdio({ placement: 'every' }))).toContain('placement: ');
    expect(refusal(http({ placement: 'every', concurrency: 1 }))).toContain('placement: ');
    expect(refusal(http({ session_scope: 'server', credentials: { per: 'principal', module: 'm' } }))).toContain('session_scope: '); // prettier-ignore
    expect(refusal({ id: 'a', url: 'https://h.example/', command: 'run' })).toContain('transport: ');
    expect(refusal({ id: 'a', transport: 'http' })).toContain('url: an HTTP server needs one');
    expect(refusal({ id: 'a', transport: 'stdio' })).toContain('command: a stdio server needs one');
  });

  test.each(['allow', 'deny', 'requires_approval', 'auto_approve'])('takes bare names in %s (BEHAVIOURS X4)', (field) => {
    expect(refusal(http({ [field]: ['search', 'gh__search'] }))).toContain(`${field}: gh__search must be the bare name`);
  }); // prettier-ignore

  test.each([
    ['http://example.com/mcp', 'server-entry-invalid: url: must be https'],
    ['http://127.0.0.1.example/mcp', 'server-entry-invalid: url: must be https'],
    ['ftp://127.0.0.1/mcp', 'server-entry-invalid: url: must be https'],
    ['/mcp', 'connection-failure: url: must be absolute'],
    ['https:h.example/mcp', 'connection-failure: url: must be absolute'],
    ['https:///h.example/mcp', 'connection-failure: url: must be absolute'],
    ['https:\\\\h.example/mcp', 'connection-failure: url: must be absolute'],
    ['https://h.exa\tmple/mcp', 'connection-failure: url: must be absolute'],
    ['https://user@h.example/mcp', 'server-entry-invalid: url: may hold no user'],
    ['https://h.example/mcp#a', 'server-entry-invalid: url: may hold no fragment'],
    ['https://h.example/mcp#', 'server-entry-invalid: url: may hold no fragment'],
    ['https://${env:H}/mcp', 'server-entry-invalid: url: a placeholder may not stand in its host'],
    ['https://h.example/${what}', 'server-entry-invalid: url: unknown placeholder ${what}'],
  ])('refuses the url %s (BEHAVIOURS 142, 181)', (url, problem) => {
    expect(refusal(http({ url }))).toContain(problem);
  });

  test.each(['http://localhost:1/mcp', 'http://127.0.0.1/mcp', 'http://[::1]:9/', 'https://h.example/${env:P}?k=${env:K}'])('accepts the url %s', (url) => {
    expect(accepted(http({ url })).transport).toMatchObject({ url });
  }); // prettier-ignore

  test('may use plain http inside a cluster where it says so and lists the host', () => {
    const url = 'http://search.tools.svc:8080/mcp';
    expect(refusal(http({ url, allow_http: true }))).toContain('must be https');
    expect(refusal(http({ url, allow_http: true, allowed_hosts: ['other'] }))).toContain('must be https');
    expect(refusal(http({ url, allowed_hosts: ['search.tools.svc'] }))).toContain('must be https');
    expect(accepted(http({ url, allow_http: true, allowed_hosts: ['Search.Tools.svc'] })).id).toBe('gh');
  });

  test('must list its hosts in production', () => {
    expect(refusal(http(), { isProduction: true })).toContain('allowed_hosts: in production');
    expect(accepted(http({ allowed_hosts: ['h.example'] }), { isProduction: true }).id).toBe('gh');
    expect(refusal(http({ allowed_hosts: ['https://h.example'] }))).toContain('must be a host name');
  });

  test('reads credentials from variables by a short form', () => {
    expect(headersOf(http({ auth: { bearer_env: 'GH' } }))).toEqual({ Authorization: 'Bearer ${env:GH}' });
    expect(headersOf(http({ headers: { A: '1' }, auth: { headers_env: { 'X-Key': 'K' } } }))).toEqual({
      A: '1',
      'X-Key': '${env:K}',
    });
  });

  test('may not name a header twice, in whatever case', () => {
    expect(refusal(http({ headers: { 'X-A': '1', 'x-a': '2' } }))).toContain('headers: x-a is there twice');
    expect(refusal(http({ headers: { authorization: '1' }, auth: { bearer_env: 'T' } }))).toContain('headers: authorization is there twice'); // prettier-ignore
  });

  test('may not set a variable of ours for its process', () => {
    expect(refusal(stdio({ env: { HOLDFAST_SECRET_KEY: 'x' } }))).toMatch(/^env-reserved-name: env: HOLDFAST_SECRET_KEY/); // prettier-ignore
  });

  test('has no tools where its transport is off (BEHAVIOURS X9)', () => {
    expect(refusal(stdio(), { stdioEnabled: false })).toMatch(
      /^unsupported-transport: .*HOLDFAST_STDIO_ENABLED/,
    );
    const sse = http({ transport: 'sse' });
    expect(refusal(sse)).toMatch(/^unsupported-transport: .*HOLDFAST_ALLOW_LEGACY_SSE/);
    expect(accepted(sse, { legacySse: true }).transport.kind).toBe('sse');
  });

  test('may leave its transport out where it is plain, and call it streamable-http', () => {
    expect(accepted({ id: 'a', url: 'https://h.example/' }).transport.kind).toBe('http');
    expect(accepted({ id: 'a', command: 'run' }).transport.kind).toBe('stdio');
    expect(accepted(http({ transport: 'streamable-http' })).transport.kind).toBe('http');
  });

  test('takes the approval mode of the deployment', () => {
    expect(accepted(http(), { approvalMode: 'allow-all' }).rules.approvalMode).toBe('allow-all');
  });
});

describe('a settings file', () => {
  test('is read as JSON and as YAML alike', () => {
    const yaml =
      'servers:\n  - id: fs\n    command: run\n    args: [a, "b c"]\n    env: {PORT: "1"}\npolicy: []\n';
    const json = '{\n\t"servers": [{"id": "fs", "command": "run", "args": ["a", "b c"], "env": {"PORT": "1"}}],\n\t"policy": []}'; // prettier-ignore
    expect(set(yaml)).toEqual(set(json));
    expect(set(yaml)).toMatchObject({ servers: [{ id: 'fs' }], diagnostics: [] });
  });

  test.each(['[{"deny": "x"}]', '{}', '{"default": "deny"}', '"deny-all"', 'true', '[null]', 'null'])(
    'G31: with rules that are not served yet is not read: policy %s',
    (policy) => {
      expect(parseServers(`{"servers": [], "policy": ${policy}}`, limits)).toMatch(
        /^`policy` is not served yet.*remove it$/,
      );
    },
  );

  test('loses a bad entry and no other (BEHAVIOURS 160)', () => {
    const { servers, diagnostics } = set(JSON.stringify({ servers: [http(), http({ id: 'b', timeout: 0 }), null, http({ id: 'NO' }), stdio()] })); // prettier-ignore
    expect(servers.map(({ id }) => id)).toEqual(['gh', 'fs']);
    expect(diagnostics.map(({ section, rule, origin }) => [section, rule, origin])).toEqual([
      ['servers', 'server-entry-invalid', 'b'],
      ['servers', 'server-entry-invalid', 'servers[2]'],
      ['servers', 'server-entry-invalid', 'NO'],
    ]);
  });

  test('may name one id twice for two servers, and one server once (BEHAVIOURS R14)', () => {
    const { servers, diagnostics } = set(JSON.stringify({ servers: [http(), http({ url: 'https://i.example/' }), http({ name: 'again' })] })); // prettier-ignore
    expect(servers.map(({ id, name }) => [id, name])).toEqual([['gh', 'gh'], ['gh', 'gh']]); // prettier-ignore
    expect(diagnostics).toMatchObject([{ rule: 'server-entry-invalid', origin: 'gh' }]);
  });

  test.each([
    ['{"servers": [}', /^line 1: neither JSON nor YAML/],
    ['servers:\n  - id: [hunter2\n  b: c\n', /^line 3: neither JSON nor YAML/],
    ['"hunter2"', /^it must hold a list `servers`, or a map of them by id$/],
    ['', /^it must hold a list `servers`, or a map of them by id$/],
    ['null', /^it must hold a list `servers`, or a map of them by id$/],
    ['[]', /^it must hold a list `servers`, or a map of them by id$/],
    ['{"servers": 1}', /^it must hold a list `servers`, or a map of them by id$/],
    ['{"server": []}', /^unknown field server at the top/],
    [
      `a: &a [x]\nb: &b [${'*a,'.repeat(50)}]\nservers: [${'*b,'.repeat(50)}]`,
      /^its aliases cannot be resolved$/,
    ],
  ])('that is wrong as a whole is told so, and not quoted: %s', (text, problem) => {
    const told = parseServers(text, limits);
    expect(told).toMatch(problem);
    expect(told).not.toContain('hunter2');
  });

  test('with well-known servers comes with the product, each entry fit for use', () => {
    const text = readFileSync(new URL('../../../examples/servers.json', import.meta.url), 'utf8');
    for (const isProduction of [false, true]) {
      const { servers, diagnostics } = set(text, { isProduction });
      expect(diagnostics).toEqual([]);
      expect(servers.length).toBeGreaterThan(5);
      expect(servers.filter(({ enabled }) => enabled)).toEqual([]);
    }
  });
});

describe('the identity of a server', () => {
  const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

  test('is its type and url, or its command line, as written (BEHAVIOURS R14)', () => {
    const remote = accepted(http({ url: 'https://h.example/${env:P}' })).transport;
    expect(serverIdentity(remote)).toBe(sha256('http\nhttps://h.example/${env:P}'));
    const local = accepted(stdio({ command: '${node}', args: ['a "b"', 'é'], env: { X: '1' } })).transport;
    expect(serverIdentity(local)).toBe(sha256('stdio\n["${node}","a \\"b\\"","é"]'));
    expect(serverKey('fs', local)).toBe(`fs_${serverIdentity(local).slice(0, 8)}`);
  });
});

describe('what was written for another host', () => {
  const pasted = {
    files: { command: 'npx', args: ['-y', 'files'], env: { PORT: 8080, DEBUG: true, NAME: 'x' } },
    web: { type: 'http', url: 'https://h.example/mcp', headers: { A: '${env:T}' } },
    flow: { type: 'streamableHttp', url: 'https://i.example/mcp' },
  };

  test.each(['mcpServers', 'servers'])('G49: a map `%s` is taken, its keys being the ids', (field) => {
    const { servers, diagnostics } = set(JSON.stringify({ [field]: pasted, inputs: [{ id: 'token' }] }));
    expect(diagnostics).toEqual([]);
    expect(servers.map(({ id, transport }) => [id, transport.kind])).toEqual([
      ['files', 'stdio'],
      ['web', 'http'],
      ['flow', 'http'],
    ]);
    expect(servers[0]!.transport).toMatchObject({ env: { PORT: '8080', DEBUG: 'true', NAME: 'x' } });
  });

  test('G49: a number or a boolean in env is kept as it was written', () => {
    const env = (text: string) => (set(text).servers[0]!.transport as StdioSettings).env;
    const written = { A: '1.10', B: '12345678901234567890', C: '1e3', D: 'true' };
    expect(env('{"mcpServers":{"a":{"command":"run","env":{"A":1.10,"B":12345678901234567890,"C":1e3,"D":true}}}}')).toEqual(written); // prettier-ignore
    expect(env('servers:\n  a:\n    command: run\n    env: {A: 1.10, B: 12345678901234567890, C: 1e3, D: true}\n')).toEqual(written); // prettier-ignore
    expect(refusal(stdio({ env: { A: 1.5 } }))).toContain(
      'env.A: must be a text, a whole number or a boolean',
    );
    expect(refusal(stdio({ env: { A: null } }))).toContain(
      'env.A: must be a text, a whole number or a boolean',
    );
  });

  test.each([
    [{ serverUrl: 'https://h.example/' }, 'unknown field serverUrl; did you mean url?'],
    [{ httpUrl: 'https://h.example/' }, 'unknown field httpUrl; did you mean url?'],
    [{ command: 'a', disabled: true }, 'unknown field disabled; write enabled: false'],
    [{ command: 'a', alwaysAllow: [] }, 'unknown field alwaysAllow; did you mean auto_approve?'],
    [{ command: 'a', envFile: '.env' }, 'unknown field envFile; put one file a variable into'],
    [{ command: 'a', type: 'stdio', transport: 'stdio' }, 'unknown field type; it is the same as transport'],
    [{ command: 'a', type: 'local' }, 'transport: '],
    [{ command: 'a', args: ['${input:token}'] }, 'args: unknown placeholder ${input:…}; nobody can be asked'],
    [{ command: 'a', args: ['${TOKEN}'] }, 'args: unknown placeholder ${TOKEN}; did you mean ${env:TOKEN}?'],
    [{ command: 'a', args: ['${TOKEN:-x}'] }, 'did you mean ${env:TOKEN:-…}?'],
    [null, 'the entry: '],
  ])('G49: %j is refused with a hint', (entry, hint) => {
    const { servers, diagnostics } = set(JSON.stringify({ mcpServers: { mine: entry } }));
    expect(servers).toEqual([]);
    expect(diagnostics.map(({ message }) => message).join()).toContain(hint);
  });

  test('G49: both forms in one file are refused', () => {
    expect(parseServers('{"servers": [], "mcpServers": {}}', limits)).toMatch(/^`servers` and `mcpServers`/);
  });
});
