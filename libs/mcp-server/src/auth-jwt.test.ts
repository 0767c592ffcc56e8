import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { exportJWK, generateKeyPair, SignJWT, type JWK } from 'jose';
import { jwtAuth } from './auth-jwt.js';
import type { AuthProvider, Verdict } from './auth.js';

const issuer = 'https://idp.example';
const audience = 'https://gateway.example/mcp';
type Keys = Awaited<ReturnType<typeof generateKeyPair>>;

let idp: Server;
let published: JWK[] = [];
let isDown = false;
let reads = 0;
let url = '';
let first: Keys;
let second: Keys;
let foreign: Keys;

const publish = async (...keys: [string, Keys][]): Promise<void> => {
  published = await Promise.all(
    keys.map(async ([kid, { publicKey }]) => ({ ...(await exportJWK(publicKey)), kid, alg: 'ES256' })),
  );
};

beforeAll(async () => {
  [first, second, foreign] = (await Promise.all([1, 2, 3].map(() => generateKeyPair('ES256')))) as [
    Keys,
    Keys,
    Keys,
  ];
  await publish(['one', first]);
  idp = createServer((_req, res) => {
    reads++;
    if (isDown) return void res.writeHead(503).end();
    res.setHeader('content-type', 'application/json').end(JSON.stringify({ keys: published }));
  });
  await new Promise<void>((resolve) => idp.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(idp.address() as AddressInfo).port}/jwks`;
});
afterAll(() => new Promise((resolve) => idp.close(resolve)));

const faults: Error[] = [];
const provider = (): AuthProvider =>
  jwtAuth({ issuer, audience, jwksUrl: url, algorithms: ['ES256'], adminScope: 'admin' }, (error) =>
    faults.push(error),
  );
const now = (): number => Math.floor(Date.now() / 1000);

async function token(
  change: Record<string, unknown> = {},
  { keys = first, kid = 'one' } = {},
): Promise<string> {
  const claims = { iss: issuer, aud: audience, sub: 'desk', exp: now() + 300, ...change };
  return new SignJWT(Object.fromEntries(Object.entries(claims).filter(([, value]) => value !== undefined)))
    .setProtectedHeader({ alg: 'ES256', kid })
    .sign(keys.privateKey);
}
const verdict = async (auth: AuthProvider, text: string): Promise<Verdict> =>
  auth({ scheme: 'Bearer', token: text });
const refused = (status: number, reason?: string): object =>
  expect.objectContaining({ kind: 'refused', status, ...(reason && { reason }) }) as object;

test('the caller is the subject, in a realm of its issuer (BEHAVIOURS 6, R2)', async () => {
  expect(await verdict(provider(), await token())).toEqual({
    kind: 'accepted',
    principal: { realm: `jwt:${issuer}`, id: 'desk' },
  });
});

test('one audience of several is enough, and the admin scope is told', async () => {
  const auth = provider();
  expect(await verdict(auth, await token({ aud: ['other', audience] }))).toMatchObject({ kind: 'accepted' });
  expect(await verdict(auth, await token({ scope: 'read admin' }))).toMatchObject({ isAdmin: true });
  expect(await verdict(auth, await token({ scope: 'administrator' }))).not.toHaveProperty('isAdmin');
});

describe('G55: scopes are text or a list, under scope or scp', () => {
  test.each<[Record<string, unknown>]>([
    [{ scp: 'read admin' }],
    [{ scp: ['read', 'admin'] }],
    [{ scope: ['admin'] }],
    [{ scope: 'read', scp: ['admin'] }],
    [{ scope: { admin: true }, scp: 'admin' }],
  ])('%j opens /api', async (claims) => {
    expect(await verdict(provider(), await token(claims))).toMatchObject({ isAdmin: true });
  });

  test.each<[Record<string, unknown>]>([
    [{ scp: 'administrator' }],
    [{ scp: ['read admin'] }],
    [{ scp: [['admin']] }],
    [{ scope: { admin: true } }],
    [{ scope: null, scp: 7 }],
    [{ scopes: 'admin' }],
  ])('%j does not', async (claims) => {
    const said = await verdict(provider(), await token(claims));
    expect(said).toMatchObject({ kind: 'accepted' });
    expect(said).not.toHaveProperty('isAdmin');
  });
});

describe('G39: the class of a refused token', () => {
  test.each<[string, Record<string, unknown>]>([
    ['issuer', { iss: 'https://idp.example.evil' }],
    ['audience', { aud: 'https://other.example' }],
    ['audience', { aud: undefined }],
    ['expired', { exp: now() - 61 }],
    ['claims', { exp: undefined }],
    ['not_yet_valid', { nbf: now() + 120 }],
    ['claims', { sub: undefined }],
    ['claims', { sub: ' ' }],
  ])('%s of %j', async (reason, change) => {
    expect(await verdict(provider(), await token(change))).toEqual(refused(401, reason));
  });

  test('signature, unknown key, algorithm, and what is no token', async () => {
    expect(await verdict(provider(), await token({}, { keys: foreign }))).toEqual(refused(401, 'signature'));
    expect(await verdict(provider(), await token({}, { kid: 'nobody' }))).toEqual(
      refused(401, 'key_unknown'),
    );
    const shared = await new SignJWT({ sub: 'desk' })
      .setProtectedHeader({ alg: 'HS256' })
      .sign(Buffer.alloc(32));
    expect(await verdict(provider(), shared)).toEqual(refused(401, 'algorithm'));
    expect(await verdict(provider(), 'a.b.c')).toEqual(refused(401, 'malformed'));
    expect(await provider()(undefined)).toEqual(refused(401, 'no_credential'));
  });
});

describe('a token is refused with 401 (BEHAVIOURS 15)', () => {
  test.each<[string, Record<string, unknown>]>([
    ['of another issuer', { iss: 'https://idp.example.evil' }],
    ['for another audience', { aud: 'https://other.example' }],
    ['without audience', { aud: undefined }],
    ['that expired beyond the skew', { exp: now() - 61 }],
    ['that never expires', { exp: undefined }],
    ['that is not valid yet', { nbf: now() + 120 }],
    ['without subject', { sub: undefined }],
    ['with a blank subject', { sub: ' ' }],
    ['whose subject is no string', { sub: 7 }],
  ])('%s', async (_title, change) => {
    expect(await verdict(provider(), await token(change))).toEqual(refused(401));
  });

  test('signed by somebody else under a known key id', async () => {
    expect(await verdict(provider(), await token({}, { keys: foreign }))).toEqual(refused(401));
  });

  test.each(['', 'x', 'a.b.c', 'eyJhbGciOiJub25lIn0.eyJzdWIiOiJkZXNrIn0.'])('%j', async (text) => {
    expect(await verdict(provider(), text)).toEqual(refused(401));
  });

  test('signed with a shared secret that looks like the public key', async () => {
    const secret = new TextEncoder().encode(JSON.stringify(await exportJWK(first.publicKey)));
    const forged = await new SignJWT({ iss: issuer, aud: audience, sub: 'desk', exp: now() + 300 })
      .setProtectedHeader({ alg: 'HS256', kid: 'one' })
      .sign(secret);
    expect(await verdict(provider(), forged)).toEqual(refused(401));
  });

  test('without a bearer credential, not asking the issuer', async () => {
    const before = reads;
    const auth = provider();
    expect(await auth(undefined)).toEqual(refused(401));
    expect(await auth({ scheme: 'Basic', token: await token() })).toEqual(refused(401));
    expect(reads).toBe(before);
  });
});

test('F155 clocks that differ by a few seconds are no reason to refuse', async () => {
  const auth = provider();
  expect(await verdict(auth, await token({ iat: now() + 5, nbf: now() + 5 }))).toMatchObject({
    kind: 'accepted',
  });
  expect(await verdict(auth, await token({ exp: now() - 5 }))).toMatchObject({ kind: 'accepted' });
});

test('F155 variant: the stated leeway holds to its end', async () => {
  const auth = provider();
  expect(await verdict(auth, await token({ exp: now() - 50 }))).toMatchObject({ kind: 'accepted' });
  expect(await verdict(auth, await token({ nbf: now() + 50 }))).toMatchObject({ kind: 'accepted' });
});

describe('keys of the issuer', () => {
  test('a token signed with a key that was published since is accepted, and one of a withdrawn key is not for ever', async () => {
    jest.useFakeTimers({
      doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask', 'setTimeout', 'clearTimeout'],
      now: Date.now(),
    });
    try {
      const auth = provider();
      expect(await verdict(auth, await token())).toMatchObject({ kind: 'accepted' });
      await publish(['two', second]);
      jest.setSystemTime(Date.now() + 11_000);
      expect(await verdict(auth, await token({}, { keys: second, kid: 'two' }))).toMatchObject({
        kind: 'accepted',
      });
      jest.setSystemTime(Date.now() + 11 * 60_000);
      expect(await verdict(auth, await token())).toEqual(refused(401));
    } finally {
      jest.useRealTimers();
      await publish(['one', first]);
    }
  });

  test('unknown keys do not make us flood the issuer', async () => {
    const auth = provider();
    await verdict(auth, await token());
    const before = reads;
    for (let i = 0; i < 20; i++)
      expect(await verdict(auth, await token({}, { keys: foreign, kid: `k${i}` }))).toEqual(refused(401));
    expect(reads - before).toBeLessThanOrEqual(1);
  });

  test('while the issuer is away known keys go on for an hour, and what cannot be judged is 503', async () => {
    jest.useFakeTimers({
      doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask', 'setTimeout', 'clearTimeout'],
      now: Date.now(),
    });
    try {
      const auth = provider();
      await verdict(auth, await token());
      isDown = true;
      jest.setSystemTime(Date.now() + 30 * 60_000);
      expect(await verdict(auth, await token())).toMatchObject({ kind: 'accepted' });
      expect(await verdict(auth, await token({}, { keys: second, kid: 'two' }))).toEqual(refused(503));
      jest.setSystemTime(Date.now() + 31 * 60_000);
      expect(await verdict(auth, await token())).toEqual(refused(503));
      isDown = false;
      jest.setSystemTime(Date.now() + 11_000);
      expect(await verdict(auth, await token())).toMatchObject({ kind: 'accepted' });
    } finally {
      isDown = false;
      jest.useRealTimers();
    }
  });

  test('an issuer that was never reached is 503, and the operator is told', async () => {
    isDown = true;
    faults.length = 0;
    expect(await verdict(provider(), await token())).toEqual(refused(503));
    expect(faults.map(({ message }) => message)).toEqual(['the keys of the issuer cannot be read']);
    isDown = false;
  });
});
