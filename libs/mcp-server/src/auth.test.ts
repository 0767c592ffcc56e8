import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import {
  firstToAccept,
  keyAuth,
  openToAll,
  readCredential,
  type AuthProvider,
  type Verdict,
} from './auth.js';
import { moduleAuth } from './auth-module.js';
import { afterTest, ci, desk, openGateway } from './test-gateway.js';

const refused = (status: 401 | 403 | 503): Verdict => ({ kind: 'refused', status });
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
    expect(answer.headers['www-authenticate']).toBe('Bearer');
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
    const gateway = await openGateway({ auth: () => refused(status) });
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
  for (const none of [undefined, '', 'Bearer', 'Bearer ', ' Bearer x'])
    expect([none, readCredential(none)]).toEqual([none, undefined]);
});

test('a key names its caller', async () => {
  const auth = keyAuth(new Map([['desk', 'one'], ['ci', 'two']])); // prettier-ignore
  expect(await auth(bearer('one'))).toEqual(accepted('apikey', 'desk'));
  expect(await auth(bearer('two'))).toEqual(accepted('apikey', 'ci'));
  expect(await auth(bearer('desk'))).toEqual(refused(401));
  expect(await auth(undefined)).toEqual(refused(401));
});

test('of several providers the first that accepts decides', async () => {
  const no =
    (status: 401 | 403 | 503): AuthProvider =>
    () =>
      refused(status);
  const yes: AuthProvider = () => accepted('apikey', 'desk');
  const verdict = (...providers: AuthProvider[]) => firstToAccept(providers)(undefined);
  expect(await verdict(no(503), yes)).toEqual(accepted('apikey', 'desk'));
  expect(await verdict(no(401), openToAll, yes)).toEqual({ kind: 'accepted', principal: null });
  expect(await verdict(no(401), no(401))).toEqual(refused(401));
  expect(await verdict(no(403), no(401))).toEqual(refused(403));
  expect(await verdict(no(401), no(503), no(403))).toEqual(refused(503));
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
    expect(await auth(bearer('x'))).toEqual(refused(401));
    expect(await auth(bearer('y'))).toEqual(refused(403));
    expect(faults).toEqual(['no database']);
  });

  test('gives the stable id of whoever presents a credential', async () => {
    const auth = await provider('export default async ({ scheme, token }) => `${scheme}:${token}`;');
    expect(await auth(bearer('x'))).toEqual(accepted('custom:module', 'Bearer:x'));
    expect(await auth(undefined)).toEqual(refused(401));
  });

  test.each(['null', 'undefined', '""', '"  "', '({})', '7', 'true', '"a\\0b"', '"\\ud800"'])(
    'that returns %s refuses',
    async (value) => {
      expect(await (await provider(`export default () => ${value};`))(bearer('x'))).toEqual(refused(401));
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
    expect(await auth(bearer('x'))).toEqual(refused(status));
  });

  test('without a function to call is refused when it is loaded', async () => {
    await expect(provider('export default "x";')).rejects.toThrow(/default export must be a function/);
  });
});
