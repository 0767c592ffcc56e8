import type { IncomingMessage, ServerResponse } from 'node:http';
import { HttpException, Inject, Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import {
  authenticate,
  firstToAccept,
  isAllowedHost,
  isAllowedOrigin,
  keyAuth,
  type AuthProvider,
} from '@holdfast/mcp-server';
import type { Principal } from '@holdfast/run';
import { Gateway } from './gateway.js';
import { isApiOpen, originRules } from './settings.js';

/** Who asks `/api`: an admin sees everything, a caller its own runs. */
export interface ApiCaller {
  readonly kind: 'admin' | 'caller';
  /** null: open mode, nobody is known. */
  readonly principal: Principal | null;
}

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
  readonly #auth: AuthProvider;

  constructor(@Inject(Gateway) gateway: Gateway) {
    this.#gateway = gateway;
    const { adminKeys = new Map() } = gateway.settings;
    this.#auth = firstToAccept([keyAuth(adminKeys, 'admin'), gateway.auth]);
  }

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const request = context.switchToHttp().getRequest<IncomingMessage>();
    context.switchToHttp().getResponse<ServerResponse>().setHeader('Vary', 'Origin');
    const rules = originRules(this.#gateway.settings);
    const { host, origin } = request.headers;
    const isHostAllowed = isAllowedHost(host, rules);
    if (!isHostAllowed || (origin !== undefined && !isAllowedOrigin(origin, rules))) {
      this.#gateway.refusals.name(isHostAllowed ? 'origin' : 'host', isHostAllowed ? origin : host);
      throw new HttpException('this Host or Origin is not allowed', 403);
    }
    (request as unknown as Record<symbol, ApiCaller>)[caller] = await this.#identify(request);
    return true;
  }

  async #identify(request: IncomingMessage): Promise<ApiCaller> {
    const { settings, refusals } = this.#gateway;
    const verdict = await authenticate(this.#auth, request);
    if (verdict.kind === 'accepted') {
      const { principal } = verdict;
      if (verdict.isAdmin === true || isApiOpen(settings)) return { kind: 'admin', principal };
      if (principal !== null) return { kind: 'caller', principal };
    } else {
      refusals.caller(verdict.reason);
      // A caller that cannot be judged now is not told that its key is wrong.
      if (verdict.status !== 401) throw new HttpException('not now', verdict.status);
    }
    throw new HttpException('an admin key is needed (HOLDFAST_ADMIN_KEYS)', 401);
  }
}
