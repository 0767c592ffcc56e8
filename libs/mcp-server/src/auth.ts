import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Principal } from '@holdfast/run';

/** What a request presents: scheme and token of its `Authorization` header, blank where it has none. */
export interface Credential {
  readonly scheme: string;
  readonly token: string;
}

/**
 * Why a caller is refused, for the operator alone. Sorted by how far the credential got: of several
 * providers, the reason of the one that got furthest is reported.
 */
export const authRefusals = [
  'no_credential',
  'malformed',
  'wrong_key',
  'module',
  'algorithm',
  'key_unknown',
  'signature',
  'claims',
  'issuer',
  'audience',
  'not_yet_valid',
  'expired',
  'unavailable',
] as const;
export type AuthRefusal = (typeof authRefusals)[number];

export type Verdict =
  /** null: served without knowing who it is. */
  | {
      readonly kind: 'accepted';
      readonly principal: Principal | null;
      /** May see everybody's runs. */ readonly isAdmin?: boolean;
    }
  /** 401 whatever the reason, unless the provider itself says 403 or 503 (BEHAVIOURS 4, 5). */
  | Refused;

export interface Refused {
  readonly kind: 'refused';
  readonly status: 401 | 403 | 503;
  readonly reason: AuthRefusal;
}

export type AuthProvider = (credential: Credential | undefined) => Verdict | Promise<Verdict>;

/** Told when a provider cannot judge a credential through no fault of who presents it. */
export type OnAuthFault = (error: Error) => void;

export function refused(status: Refused['status'], reason: AuthRefusal): Refused {
  return { kind: 'refused', status, reason };
}

export function readCredential(authorization: string): Credential {
  const [, scheme = '', token = ''] = /^(\S*) *(.*)$/.exec(authorization) ?? [];
  return { scheme, token: token.trim() };
}

/** The verdict on who sends a request. With two Authorization headers, no provider is asked: which one counts would be a guess. */
export async function authenticate(
  auth: AuthProvider,
  { headersDistinct: { authorization: given = [] } }: IncomingMessage,
): Promise<Verdict> {
  if (given.length > 1) return refused(401, 'malformed');
  return auth(given[0] === undefined ? undefined : readCredential(given[0]));
}

/** The `WWW-Authenticate` of a 401 (RFC 6750 §3.1): without a credential there is nothing to call invalid. */
export function challengeTo({ headers }: IncomingMessage): string {
  return headers.authorization === undefined ? 'Bearer' : 'Bearer error="invalid_token"';
}

/** Open on purpose: everybody is served, nobody is known, and no credential is looked at (BEHAVIOURS 8, 46). */
export const openToAll: AuthProvider = () => ({ kind: 'accepted', principal: null });

/** Open beside providers that judge credentials: one that none of them accepts is not served as nobody. */
export const openWithoutCredential: AuthProvider = (credential) =>
  credential === undefined ? { kind: 'accepted', principal: null } : refused(401, 'wrong_key');

/**
 * Named keys. The caller is the key's name, so a new secret under the same name keeps its runs
 * (BEHAVIOURS 6, 49). Every key is compared, in constant time. Keys of the realm `admin` open `/api`.
 */
export function keyAuth(
  keys: ReadonlyMap<string, string>,
  realm: 'apikey' | 'admin' = 'apikey',
): AuthProvider {
  const digests = [...keys].map(([name, secret]) => ({ name, digest: sha256(secret) }));
  return (credential) => {
    const problem = bearerProblem(credential);
    if (problem !== undefined) return refused(401, problem);
    const presented = sha256(credential!.token);
    let owner: string | undefined;
    for (const { name, digest } of digests) if (timingSafeEqual(digest, presented)) owner = name;
    return owner === undefined
      ? refused(401, 'wrong_key')
      : { kind: 'accepted', principal: { realm, id: owner }, ...(realm === 'admin' && { isAdmin: true }) };
  };
}

/** Why a credential is none that a bearer provider judges; undefined when it is one. */
export function bearerProblem(credential: Credential | undefined): AuthRefusal | undefined {
  if (credential === undefined) return 'no_credential';
  return credential.scheme.toLowerCase() === 'bearer' && credential.token !== '' ? undefined : 'malformed';
}

/** The first provider that accepts decides; when all refuse: 503 if any said so, else 403 if any, else 401. */
export function firstToAccept(providers: readonly AuthProvider[]): AuthProvider {
  return async (credential) => {
    const refusals: Refused[] = [];
    for (const provider of providers) {
      const verdict = await provider(credential);
      if (verdict.kind === 'accepted') return verdict;
      refusals.push(verdict);
    }
    const [worst = refused(401, 'no_credential')] = refusals.sort(
      (a, b) => b.status - a.status || authRefusals.indexOf(b.reason) - authRefusals.indexOf(a.reason),
    );
    return worst;
  };
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
