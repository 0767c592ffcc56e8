import type { IncomingMessage, ServerResponse } from 'node:http';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { randomBytes } from 'node:crypto';
import {
  cancelRun,
  firstToAccept,
  jwtAuth,
  keyAuth,
  McpEndpoint,
  moduleAuth,
  openToAll,
  openWithoutCredential,
  Refusals,
  type AuthProvider,
  type IdentityHooks,
} from '@holdfast/mcp-server';
import { ensureError, onceEvery, systemClock, type Run, type Log } from '@holdfast/run';
import { ConfigError, type ConfigProblem, type Metrics } from '@holdfast/ops';
import { keepRetention, type Store } from '@holdfast/store';
import { absentStore } from './absent-store.js';
import { limitsOf } from './limit-settings.js';
import { originRules, type ServingSettings } from './settings.js';

export interface GatewayParts {
  readonly settings: ServingSettings;
  readonly version: string;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Balancers look at `/readyz` every few seconds at the most, and are told of pods that go at once. */
const longestLeadMs = 5_000;

/** The gateway of one process: what is served, from the moment that the store is there. */
export class Gateway {
  readonly settings: ServingSettings;
  readonly auth: AuthProvider;
  readonly refusals: Refusals;
  readonly #parts: GatewayParts;
  readonly #hooks: IdentityHooks;
  /** Serves until the store is there. */
  readonly #early: McpEndpoint;
  #serving:
    | { readonly store: Store; readonly endpoint: McpEndpoint; readonly retention: { stop(): void } }
    | undefined;

  /** Loads the modules that the settings name. @throws ConfigError naming the variable of each that cannot be used */
  static async create(parts: GatewayParts): Promise<Gateway> {
    const { settings } = parts;
    const { auth, apiKeys, authModule, identityModule } = settings;
    const fault = onceEvery(parts.log, 10_000, systemClock);
    const onFault = (err: Error): void => fault.report({ err }, 'callers cannot be judged');
    const [ofModule, hooks] = await Promise.allSettled([
      auth.includes('module') ? moduleAuth(authModule!, onFault) : undefined,
      loadHooks(identityModule),
    ]);
    if (ofModule.status === 'rejected' || hooks.status === 'rejected') {
      throw new ConfigError([
        ...problemOf('HOLDFAST_AUTH_MODULE', ofModule),
        ...problemOf('HOLDFAST_IDENTITY_MODULE', hooks),
      ]);
    }
    const providers: Readonly<Record<(typeof auth)[number], () => AuthProvider>> = {
      none: () => (auth.length === 1 ? openToAll : openWithoutCredential),
      keys: () => keyAuth(apiKeys!),
      jwt: () =>
        jwtAuth(
          {
            issuer: settings.jwtIssuer!,
            audience: settings.jwtAudience!,
            jwksUrl: settings.jwtJwksUrl!,
            algorithms: settings.jwtAlgorithms,
            adminScope: settings.jwtAdminScope,
          },
          onFault,
        ),
      module: () => ofModule.value!,
    };
    return new Gateway(parts, firstToAccept(auth.map((kind) => providers[kind]())), hooks.value);
  }

  private constructor(parts: GatewayParts, auth: AuthProvider, hooks: IdentityHooks) {
    this.settings = parts.settings;
    this.auth = auth;
    this.refusals = new Refusals(parts.log, parts.metrics.gateway(), systemClock);
    this.#parts = parts;
    this.#hooks = hooks;
    this.#early = this.#endpointOver(absentStore, randomBytes(32));
  }

  /** The store, once it is there. */
  get store(): Store | undefined {
    return this.#serving?.store;
  }

  get endpoint(): McpEndpoint | undefined {
    return this.#serving?.endpoint;
  }

  /** Begins to serve from `store`. */
  async serveFrom(store: Store): Promise<void> {
    const { settings, log, metrics } = this.#parts;
    const key =
      settings.runIdKey ??
      Buffer.from(await store.secret('run-id-key', () => randomBytes(32).toString('hex')), 'hex');
    const endpoint = this.#endpointOver(store, key);
    metrics.queue(() => store.runs.queue());
    metrics.sessions(() => endpoint.sessionCount());
    this.#serving = { store, endpoint, retention: keepRetention(store, settings, log) };
    await this.#early.close();
  }

  #endpointOver(store: Store, key: Uint8Array): McpEndpoint {
    const { settings, version, log, metrics } = this.#parts;
    return new McpEndpoint({
      store,
      auth: this.auth,
      hooks: this.#hooks,
      serverInfo: { name: 'holdfast', version },
      log,
      observer: metrics.gateway(),
      refusals: this.refusals,
      settings: {
        ...settings,
        runIdKeys: [key, ...settings.runIdKeysPrevious],
        ...originRules(settings),
        limits: limitsOf(settings),
        sessions: {
          max: settings.maxSessions,
          idleMs: settings.sessionIdleMs,
          ...(settings.maxSessionsPerPrincipal !== undefined && {
            maxPerPrincipal: settings.maxSessionsPerPrincipal,
          }),
        },
      },
    });
  }

  /**
   * Serves one request to the MCP path. Discovery needs no store: a host that is answered 503 there takes the
   * gateway for an older one. All else is refused with 503 until the store was there once.
   */
  async handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    return (this.endpoint ?? this.#early).handle(req, res);
  }

  /** Ends a run that has not ended. @returns the run as it is then */
  cancel(run: Run): Promise<Run> {
    return cancelRun(this.store!, this.#parts.metrics.gateway(), run);
  }

  /**
   * Stops, in `drainMs` at most; the store stays open. With other replicas there it first serves on
   * while balancers learn from `/readyz` that this one goes, and hands its calls over only after
   * `refuse`: hosts that come back would else be brought here again.
   *
   * @param refuse takes no new connections from then on
   */
  async drain({ hasReplicas, refuse }: { hasReplicas: boolean; refuse?: () => void }): Promise<void> {
    if (this.#serving === undefined) {
      refuse?.();
      return this.#early.close();
    }
    const { endpoint, retention } = this.#serving;
    retention.stop();
    const leadMs = hasReplicas ? Math.min(this.settings.drainMs / 5, longestLeadMs) : 0;
    endpoint.endConnections();
    await sleep(leadMs);
    refuse?.();
    await endpoint.drain({ patienceMs: this.settings.drainMs - leadMs, hasReplicas });
    await endpoint.close();
  }
}

function problemOf(variable: string, loaded: PromiseSettledResult<unknown>): ConfigProblem[] {
  return loaded.status === 'rejected' ? [{ variable, message: ensureError(loaded.reason).message }] : [];
}

async function loadHooks(path: string | undefined): Promise<IdentityHooks> {
  if (path === undefined) return {};
  const module = (await import(pathToFileURL(resolve(path)).href)) as Record<string, unknown>;
  const names = ['identityFromRequest', 'idempotencyFromRequest'] as const;
  const found = names.filter((name) => module[name] !== undefined);
  if (found.length === 0) throw new Error(`${path} exports neither ${names.join(' nor ')}`);
  for (const name of found)
    if (typeof module[name] !== 'function') throw new Error(`${path}: ${name} must be a function`);
  return Object.fromEntries(found.map((name) => [name, module[name]])) as IdentityHooks;
}
