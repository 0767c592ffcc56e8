import type { IncomingMessage } from 'node:http';
import { HttpException, Inject, Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import {
  isAllowedHost,
  isAllowedOrigin,
  keyAuth,
  readCredential,
  type AuthProvider,
} from '@holdfast/mcp-server';
import type { Principal } from '@holdfast/run';
import { Gateway } from './gateway.js';
import { isApiOpen, originRules } from './settings.js';

/** Who asks `/api`: an admin sees everything, a caller its own runs. */
export type ApiCaller =
  { readonly kind: 'admin' } | { readonly kind: 'caller'; readonly principal: Principal | null };

const caller = Symbol('holdfast.api-caller');

export function apiCallerOf(request: IncomingMessage): ApiCaller {
  return (request as unknown as Record<symbol, ApiCaller>)[caller]!;
}

/**
 * Lets in who has an admin key or a token with the admin scope, or a key of a caller. Where no admin key is set, open mode on
 * loopback opens `/api` too.
 */
@Injectable()
export class ApiAccess implements CanActivate {
  readonly #gateway: Gateway;
  readonly #admins: AuthProvider;

  constructor(@Inject(Gateway) gateway: Gateway) {
    this.#gateway = gateway;
    this.#admins = keyAuth(gateway.settings.adminKeys ?? new Map());
  }

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const request = context.switchToHttp().getRequest<IncomingMessage>();
    const rules = originRules(this.#gateway.settings);
    const { origin } = request.headers;
    if (
      !isAllowedHost(request.headers.host, rules) ||
      (origin !== undefined && !isAllowedOrigin(origin, rules))
    ) {
      throw new HttpException('this Host or Origin is not allowed', 403);
    }
    (request as unknown as Record<symbol, ApiCaller>)[caller] = await this.#identify(request);
    return true;
  }

  async #identify(request: IncomingMessage): Promise<ApiCaller> {
    const { settings, auth } = this.#gateway;
    const credential = readCredential(request.headers.authorization);
    if ((await this.#admins(credential)).kind === 'accepted' || isApiOpen(settings)) return { kind: 'admin' };
    const verdict = await auth(credential);
    if (verdict.kind === 'accepted' && verdict.isAdmin === true) return { kind: 'admin' };
    if (verdict.kind === 'accepted' && verdict.principal !== null)
      return { kind: 'caller', principal: verdict.principal };
    // A caller that cannot be judged now is not told that his key is wrong.
    if (verdict.kind === 'refused' && verdict.status !== 401)
      throw new HttpException('not now', verdict.status);
    throw new HttpException('an admin key is needed (HOLDFAST_ADMIN_KEYS)', 401);
  }
}
