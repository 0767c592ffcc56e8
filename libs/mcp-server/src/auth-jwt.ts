import {
  createLocalJWKSet,
  createRemoteJWKSet,
  errors,
  jwtVerify,
  type JSONWebKeySet,
  type JWTPayload,
  type JWTVerifyGetKey,
} from 'jose';
import { isPrincipalId } from '@holdfast/run';
import {
  bearerProblem,
  refused,
  type AuthProvider,
  type AuthRefusal,
  type OnAuthFault,
  type Verdict,
} from './auth.js';

export interface JwtSettings {
  /** The only issuer that is believed, as its `iss`. */
  readonly issuer: string;
  /** What must be among a token's `aud`. */
  readonly audience: string;
  readonly jwksUrl: string;
  readonly algorithms: readonly string[];
  /** A token whose `scope` holds this opens `/api`. */
  readonly adminScope?: string | undefined;
}

/** Signatures that only the issuer can make; a shared secret would let every reader of it be everybody. */
export const jwtAlgorithms = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
] as const;

/** How far the clocks of issuer and gateway may differ, in seconds (BEHAVIOURS 15). */
const skewSeconds = 60;
/** Keys are read again after this, so that one that the issuer withdrew stops working. */
const keysMaxAgeMs = 10 * 60_000;
/** A key that is not known makes us look for new ones, at most this often. */
const lookAgainMs = 10_000;
const fetchTimeoutMs = 5_000;
/** While the issuer cannot be reached the last keys go on working for this long. */
const staleKeysMs = 60 * 60_000;

/**
 * Tokens of one issuer. The caller is the subject, in a realm of its issuer (BEHAVIOURS 6, 15, R2).
 *
 * Keys come from the issuer's JWKS. A token that is signed with a new key is accepted as soon as
 * the issuer publishes it. When the issuer cannot be reached, known keys go on for an hour; a
 * token that cannot be judged without the issuer is answered with 503, not with 401.
 */
export function jwtAuth(
  { issuer, audience, jwksUrl, algorithms, adminScope }: JwtSettings,
  onFault: OnAuthFault,
): AuthProvider {
  const keys = issuerKeys(jwksUrl);
  return async (credential) => {
    const problem = bearerProblem(credential);
    if (problem !== undefined) return refused(401, problem);
    try {
      const { payload } = await jwtVerify(credential!.token, keys, {
        issuer,
        audience,
        algorithms: [...algorithms],
        clockTolerance: skewSeconds,
        requiredClaims: ['exp', 'sub'],
      });
      return accept(payload, issuer, adminScope);
    } catch (error) {
      if (!(error instanceof IssuerAway)) return refused(401, reasonOf(error));
      onFault(error);
      return refused(503, 'unavailable');
    }
  };
}

function accept(payload: JWTPayload, issuer: string, adminScope: string | undefined): Verdict {
  const { sub } = payload;
  if (!isPrincipalId(sub)) return refused(401, 'claims');
  const isAdmin = adminScope !== undefined && scopesOf(payload).includes(adminScope);
  return { kind: 'accepted', principal: { realm: `jwt:${issuer}`, id: sub }, ...(isAdmin && { isAdmin }) };
}

/** `scope` is a text of scopes between spaces (RFC 8693 §4.2); issuers write `scp` as well, and either as a list. */
function scopesOf({ scope, scp }: JWTPayload): unknown[] {
  return [scope, scp].flatMap((claim) => (typeof claim === 'string' ? claim.split(' ') : claim));
}

function reasonOf(error: unknown): AuthRefusal {
  if (error instanceof errors.JWTExpired) return 'expired';
  if (error instanceof errors.JWTClaimValidationFailed) return reasonOfClaim[error.claim] ?? 'claims';
  if (error instanceof errors.JWSSignatureVerificationFailed) return 'signature';
  if (error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys)
    return 'key_unknown';
  return error instanceof errors.JOSEAlgNotAllowed ? 'algorithm' : 'malformed';
}

const reasonOfClaim: Readonly<Record<string, AuthRefusal>> = {
  iss: 'issuer',
  aud: 'audience',
  nbf: 'not_yet_valid',
};

/** The keys of the issuer could not be read, and those known do not decide. */
class IssuerAway extends Error {}

function issuerKeys(url: string): JWTVerifyGetKey {
  const remote = createRemoteJWKSet(new URL(url), {
    cacheMaxAge: keysMaxAgeMs,
    cooldownDuration: lookAgainMs,
    timeoutDuration: fetchTimeoutMs,
  });
  let last: { readonly jwks: JSONWebKeySet; readonly find: JWTVerifyGetKey; readonly at: number } | undefined;
  return async (header, token) => {
    try {
      const key = await remote(header, token);
      const jwks = remote.jwks();
      if (jwks !== undefined && jwks !== last?.jwks)
        last = { jwks, find: createLocalJWKSet(jwks), at: Date.now() };
      return key;
    } catch (error) {
      // What the keys themselves say is the token's fault; anything else is the issuer's.
      if (error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys)
        throw error;
      if (last !== undefined && Date.now() - last.at < staleKeysMs) {
        try {
          return await last.find(header, token);
        } catch {
          // A key that is not known may be a new one: only the issuer could tell.
        }
      }
      throw new IssuerAway('the keys of the issuer cannot be read', { cause: error });
    }
  };
}
