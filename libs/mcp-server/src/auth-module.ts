import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ensureError, isPrincipalId } from '@holdfast/run';
import { refused, type AuthProvider, type OnAuthFault } from './auth.js';

/**
 * A function of the deployment that tells who presents a credential (`HOLDFAST_AUTH_MODULE`): its
 * default export, `({scheme, token}) => string | null` or a promise of one. It returns a stable
 * id; anything else refuses. Of what it throws only a `status` of 403 or 503 is kept (BEHAVIOURS 5, 7, R2).
 *
 * @throws Error when the module cannot be loaded or has no such export
 */
export async function moduleAuth(path: string, onFault: OnAuthFault): Promise<AuthProvider> {
  const module = (await import(pathToFileURL(resolve(path)).href)) as { default?: unknown };
  const identify = module.default;
  if (typeof identify !== 'function') throw new Error(`${path}: the default export must be a function`);
  return async (credential) => {
    if (credential === undefined) return refused(401, 'no_credential');
    if (credential.token === '') return refused(401, 'malformed');
    try {
      const id: unknown = await identify(credential);
      return isPrincipalId(id)
        ? { kind: 'accepted', principal: { realm: 'custom:module', id } }
        : refused(401, 'module');
    } catch (thrown) {
      const status = (thrown as { status?: unknown } | null)?.status;
      if (typeof status !== 'number') onFault(ensureError(thrown));
      return status === 503 ? refused(503, 'unavailable') : refused(status === 403 ? 403 : 401, 'module');
    }
  };
}
