import { createHash, timingSafeEqual } from 'node:crypto';
import type { Principal } from '@holdfast/run';

/** What a request presents: scheme and token of its `Authorization` header; undefined without one. */
export interface Credential {
  readonly scheme: string;
  readonly token: string;
}

export type Verdict =
  /** null: served without knowing who it is. */
  | {
      readonly kind: 'accepted';
      readonly principal: Principal | null;
      /** May see everybody's runs. */ readonly isAdmin?: boolean;
    }
  /** 401 whatever the reason, unless the provider itself says 403 or 503 (BEHAVIOURS 4, 5). */
  | { readonly kind: 'refused'; readonly status: 401 | 403 | 503 };

export type AuthProvider = (credential: Credential | undefined) => Verdict | Promise<Verdict>;

/** Told when a provider cannot judge a credential through no fault of who presents it. */
export type OnAuthFault = (error: Error) => void;

export function readCredential(authorization: string | undefined): Credential | undefined {
  const parts = /^([^\s]+) +(.+)$/.exec(authorization ?? '');
  return parts === null ? undefined : { scheme: parts[1]!, token: parts[2]!.trim() };
}

/** Open on purpose: everybody is served, nobody is known (BEHAVIOURS 8, 46). */
export const openToAll: AuthProvider = () => ({ kind: 'accepted', principal: null });

/**
 * Named keys. The caller is the key's name, so a new secret under the same name keeps its runs
 * (BEHAVIOURS 6, 49). Every key is compared, in constant time.
 */
export function keyAuth(keys: ReadonlyMap<string, string>): AuthProvider {
  const digests = [...keys].map(([name, secret]) => ({ name, digest: sha256(secret) }));
  return (credential) => {
    if (credential === undefined || credential.scheme.toLowerCase() !== 'bearer')
      return { kind: 'refused', status: 401 };
    const presented = sha256(credential.token);
    let owner: string | undefined;
    for (const { name, digest } of digests) if (timingSafeEqual(digest, presented)) owner = name;
    return owner === undefined
      ? { kind: 'refused', status: 401 }
      : { kind: 'accepted', principal: { realm: 'apikey', id: owner } };
  };
}

/** The first provider that accepts decides; when all refuse: 503 if any said so, else 403 if any, else 401. */
export function firstToAccept(providers: readonly AuthProvider[]): AuthProvider {
  return async (credential) => {
    let worst: Verdict = { kind: 'refused', status: 401 };
    for (const provider of providers) {
      const verdict = await provider(credential);
      if (verdict.kind === 'accepted') return verdict;
      if (verdict.status > worst.status) worst = verdict;
    }
    return worst;
  };
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
