import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import {
  firstToAccept,
  keyAuth,
  openToAll,
  openWithoutCredential,
  readCredential,
  refused,
  type AuthProvider,
  type Verdict,
} from './auth.js';
import { moduleAuth } from './auth-module.js';
import { afterTest, ci, desk, openGateway } from './test-gateway.js';

const refusedWith = (status: 401 | 403 | 503): object =>
  expect.objectContaining({ kind: 'refused', status }) as object;
const accepted = (realm: string, id: string): Verdict => ({ kind: 'accepted', principal: { realm, id } });
const bearer = (token: string) => ({ scheme: 'Bearer', token });

describe('over HTTP', () => {
  const headers: [string, string | undefined][] = [
    ['no header', undefined],
    ['Basic', `Basic ${Buffer.from(`desk:${desk}`).toString('base64')}`],
    ['the key under another scheme', `Basic ${desk}`],
    ['a wrong key', 'Bearer wrong'],
    ['part of a key', `Bearer ${desk.slice(0, -1)}`],
    ['no key', 'Bearer '],
    ['two keys', `Bearer ${desk}, ${ci}`],
  ];
  const cases = ['POST', 'GET', 'DELETE'].flatMap((method) =>
    headers.map(([what, authorization]) => ({ method, what, authorization })),
  );

  test.each(cases)('$method with $what is answered 401 and no reason', async ({ method, authorization }) => {
    const gateway = await openGateway();
    const { session } = await gateway.host('legacy');
    const answer = await gateway.send({
      method,
      headers: { authorization, 'mcp-session-id': session },
      ...(method === 'POST' && { body: { jsonrpc: '2.0', id: 1, method: 'ping' } }),
    }).answer;
    expect(answer.status).toBe(401);
    // G39: a credential that was presented is called invalid, never why.
    expect(answer.headers['www-authenticate']).toBe(
      authorization === undefined ? 'Bearer' : 'Bearer error="invalid_token"',
    );
    expect(JSON.parse(answer.body)).toEqual({ error: { name: 'Unauthorized', message: 'Unauthorized' } });
  });

  test.each([`Bearer ${desk}`, `bearer ${desk}`, `BEARER   ${desk} `])(
    '%p is accepted',
    async (authorization) => {
      const gateway = await openGateway();
      const answer = await gateway.send({
        headers: { authorization },
        body: {
          jsonrpc: '2.0',
          id: 1,
          method: 'initialize',
          params: { protocolVersion: '2025-11-25', capabilities: {} },
        },
      }).answer;
      expect(answer.status).toBe(200);
    },
  );

  test.each([403, 503] as const)('a provider that says %d is heard, without a challenge', async (status) => {
    const gateway = await openGateway({ auth: () => refused(status, 'module') });
    for (const method of ['POST', 'GET', 'DELETE']) {
      const answer = await gateway.send({ method }).answer;
      expect(answer.status).toBe(status);
      expect(answer.headers['www-authenticate']).toBeUndefined();
    }
  });

  test('the caller owns the run', async () => {
    const gateway = await openGateway();
    gateway.finishAll();
    await (await gateway.host('legacy', ci)).call('work', {});
    await (await gateway.host('modern', desk)).call('work', {});
    expect((await gateway.runs()).map(({ principal }) => principal)).toEqual([
      { realm: 'apikey', id: 'desk' },
      { realm: 'apikey', id: 'ci' },
    ]);
  });
});

test('a credential is a scheme and a token', () => {
  expect(readCredential('Bearer a b')).toEqual({ scheme: 'Bearer', token: 'a b' });
  for (const blank of ['', 'Bearer', 'Bearer ', 'Bearer  '])
    expect([blank, readCredential(blank).token]).toEqual([blank, '']);
});

/** The answer to a request with these header lines, byte for byte. */
async function answerTo(url: string, ...lines: string[]): Promise<string> {
  const body = '{"jsonrpc":"2.0","id":1,"method":"ping"}';
  const { hostname, port, pathname, host } = new URL(url);
  const socket = connect(Number(port), hostname);
  const fixed = ['Content-Type: application/json', `Content-Length: ${body.length}`, 'Connection: close'];
  socket.write([`POST ${pathname} HTTP/1.1`, `Host: ${host}`, ...fixed, ...lines, '', body].join('\r\n'));
  return text(socket);
}

describe('G74: two Authorization headers are refused', () => {
  test.each([
    ['the right key first', [`Authorization: Bearer ${desk}`, 'Authorization: Bearer wrong']],
    ['the right key last', ['authorization: Bearer wrong', `AUTHORIZATION: Bearer ${desk}`]],
    ['twice the same', [`Authorization: Bearer ${desk}`, `Authorization: Bearer ${desk}`]],
    ['two callers', [`Authorization: Bearer ${desk}`, `Authorization: Bearer ${ci}`]],
    ['one of them blank', [`Authorization: Bearer ${desk}`, 'Authorization:']],
  ])('%s', async (_what, lines) => {
    const gateway = await openGateway();
    const answer = await answerTo(gateway.url, ...lines);
    expect(answer).toMatch(/^HTTP\/1\.1 401 /);
    expect(answer).toContain('WWW-Authenticate: Bearer error="invalid_token"\r\n');
    expect(gateway.seen).toEqual(['refused malformed']);
  });
});

describe('G32: open to callers without a credential, beside keys', () => {
  const auth = firstToAccept([keyAuth(new Map([['desk', desk]])), openWithoutCredential]);

  test.each([
    ['a wrong key', 'Bearer wrong'],
    ['another scheme', `Basic ${desk}`],
    ['a blank key', 'Bearer '],
    ['a blank header', ''],
    ['a key without its scheme', desk],
    ['two keys', `Bearer ${desk}, ${desk}`],
  ])('%s is answered 401', async (_what, authorization) => {
    const gateway = await openGateway({ auth });
    const answer = await gateway.send({
      headers: { authorization },
      body: { jsonrpc: '2.0', id: 1, method: 'ping' },
    }).answer;
    expect([answer.status, answer.headers['www-authenticate']]).toEqual([
      401,
      'Bearer error="invalid_token"',
    ]);
  });

  test.each([
    [[keyAuth(new Map([['desk', desk]])), openWithoutCredential]],
    [[openWithoutCredential, keyAuth(new Map([['desk', desk]]))]],
  ])('a right key names its caller, and who presents none is nobody', async (providers) => {
    const both = firstToAccept(providers);
    expect(await both(bearer(desk))).toEqual(accepted('apikey', 'desk'));
    expect(await both(undefined)).toEqual({ kind: 'accepted', principal: null });
  });
});

describe('G39: refused callers', () => {
  test('400 wrong keys leave one line with the class, and 400 in the counter', async () => {
    const gateway = await openGateway();
    for (let i = 0; i < 400; i++)
      await gateway.send({ headers: { authorization: `Bearer wrong-${i}` }, method: 'GET' }).answer;
    expect(gateway.seen).toEqual(Array<string>(400).fill('refused wrong_key'));
    expect(gateway.log).toEqual([
      { level: 'warn', message: 'caller refused', fields: { reason: 'wrong_key' } },
    ]);
  });

  test('one class does not silence another; a caller without a credential is only counted', async () => {
    const gateway = await openGateway();
    const say = (headers: Record<string, string | undefined>) =>
      gateway.send({ headers, method: 'GET' }).answer;
    await say({ authorization: undefined });
    await say({ authorization: 'Bearer wrong' });
    await say({ authorization: 'Basic x' });
    expect(gateway.seen).toEqual(['refused no_credential', 'refused wrong_key', 'refused malformed']);
    expect(gateway.log.map(({ fields }) => fields)).toEqual([
      { reason: 'wrong_key' },
      { reason: 'malformed' },
    ]);
  });

  test('of several providers, the reason of the one that got furthest is reported', async () => {
    const both = firstToAccept([() => refused(401, 'expired'), () => refused(401, 'wrong_key')]);
    expect(await both(bearer('x'))).toEqual(refused(401, 'expired'));
  });
});

test('a key names its caller', async () => {
  const auth = keyAuth(new Map([['desk', 'one'], ['ci', 'two']])); // prettier-ignore
  expect(await auth(bearer('one'))).toEqual(accepted('apikey', 'desk'));
  expect(await auth(bearer('two'))).toEqual(accepted('apikey', 'ci'));
  expect(await auth(bearer('desk'))).toEqual(refusedWith(401));
  expect(await auth(undefined)).toEqual(refusedWith(401));
});

test('of several providers the first that accepts decides', async () => {
  const no =
    (status: 401 | 403 | 503): AuthProvider =>
    () =>
      refused(status, 'module');
  const yes: AuthProvider = () => accepted('apikey', 'desk');
  const verdict = (...providers: AuthProvider[]) => firstToAccept(providers)(undefined);
  expect(await verdict(no(503), yes)).toEqual(accepted('apikey', 'desk'));
  expect(await verdict(no(401), openToAll, yes)).toEqual({ kind: 'accepted', principal: null });
  expect(await verdict(no(401), no(401))).toEqual(refusedWith(401));
  expect(await verdict(no(403), no(401))).toEqual(refusedWith(403));
  expect(await verdict(no(401), no(503), no(403))).toEqual(refusedWith(503));
});

describe('a module of the deployment', () => {
  let count = 0;
  const faults: string[] = [];
  async function provider(body: string): Promise<AuthProvider> {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-auth-'));
    afterTest(() => rmSync(folder, { recursive: true }));
    const path = join(folder, `auth-${++count}.mjs`);
    writeFileSync(path, body);
    return moduleAuth(path, (error) => faults.push(error.message));
  }

  test('that fails refuses, and the operator is told; a status that it chose is no fault', async () => {
    faults.length = 0;
    const auth = await provider(
      'export default ({ token }) => { if (token === "x") throw new TypeError("no database"); throw Object.assign(new Error(), { status: 403 }); };',
    );
    expect(await auth(bearer('x'))).toEqual(refusedWith(401));
    expect(await auth(bearer('y'))).toEqual(refusedWith(403));
    expect(faults).toEqual(['no database']);
  });

  test('gives the stable id of whoever presents a credential', async () => {
    const auth = await provider('export default async ({ scheme, token }) => `${scheme}:${token}`;');
    expect(await auth(bearer('x'))).toEqual(accepted('custom:module', 'Bearer:x'));
    expect(await auth(undefined)).toEqual(refusedWith(401));
  });

  test.each(['null', 'undefined', '""', '"  "', '({})', '7', 'true', '"a\\0b"', '"\\ud800"'])(
    'that returns %s refuses',
    async (value) => {
      expect(await (await provider(`export default () => ${value};`))(bearer('x'))).toEqual(refusedWith(401));
    },
  );

  test.each([
    ['new Error("no")', 401],
    ['null', 401],
    ['Object.assign(new Error(), { status: 403 })', 403],
    ['{ status: 503 }', 503],
    ['{ status: 500 }', 401],
    ['{ status: "403" }', 401],
  ] as const)('that throws %s is answered %d', async (thrown, status) => {
    const auth = await provider(`export default () => { throw ${thrown}; };`);
    expect(await auth(bearer('x'))).toEqual(refusedWith(status));
  });

  test('without a function to call is refused when it is loaded', async () => {
    await expect(provider('export default "x";')).rejects.toThrow(/default export must be a function/);
  });
});
