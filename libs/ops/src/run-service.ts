import { openStore, whenThere, type Store } from '@holdfast/store';
import type { LogLevel } from './log.js';
import { serveOps } from './ops-server.js';
import { beginService, type Service, type ServiceOptions } from './service.js';
import type { opsSettings, serviceSettings, sharedStore } from './service-settings.js';
import type { Setting } from './setting.js';
import type { Environment, SettingsOf, SettingsSpec } from './settings.js';
import { runUntilSignal } from './shutdown.js';

/** How much longer than its drain a service may take to stop. */
const stopMarginMs = 10_000;

/** The settings that every separate service has. */
type ServiceSpec = SettingsSpec &
  typeof serviceSettings &
  typeof opsSettings & {
    readonly host: Setting<string>;
    readonly store: typeof sharedStore;
    readonly logLevel: Setting<LogLevel>;
  };

/** What one service does between its start and its end. */
export interface ServiceWork {
  /** The first line of its log, beside the port of `/healthz`. */
  readonly started: { readonly message: string; readonly fields: object };
  /** Begins to work from the store; called again after the store was unavailable. */
  serveFrom(store: Store): Promise<void>;
  /** Runs once the service works. What it throws ends the process. */
  afterwards?(): Promise<void>;
  /** Ends the work; the store is still open. Called even when the work never began. */
  stop(): Promise<void>;
}

/**
 * Runs a service of its own from its settings to the signal that ends it: health and metrics first, then
 * the work, from the moment that the store is there.
 *
 * @throws ConfigError listing every problem; whatever `make` and `afterwards` throw
 */
export async function runService<S extends ServiceSpec>(
  spec: S,
  env: Environment,
  options: ServiceOptions,
  make: (service: Service<S>) => Promise<ServiceWork>,
): Promise<void> {
  const service = await beginService(spec, env, options);
  const { log, health, metrics, readiness, tracing } = service;
  const settings = service.settings as SettingsOf<ServiceSpec>;
  const work = await make(service);
  const ops = await serveOps(settings.opsHost ?? settings.host, settings.opsPort, { health, metrics });

  const stopping = new AbortController();
  let store: Store | undefined;
  runUntilSignal({
    log,
    graceMs: settings.drainMs + stopMarginMs,
    stop: async () => {
      health.drain();
      stopping.abort();
      await work.stop();
      await store?.close();
      await tracing.stop();
      await ops.close();
    },
  });
  // Readers of this line may send a signal at once.
  log.info({ ...work.started.fields, opsPort: ops.port }, work.started.message);

  const { storeListenUrl: listenUrl, pollIntervalMs: pollMs } = settings;
  const isThere = await whenThere(
    async () => {
      store ??= await openStore(settings.store, { listenUrl, pollMs, log });
      await work.serveFrom(store);
      readiness.reached();
      return true;
    },
    readiness.failed,
    stopping.signal,
  );
  if (isThere) await work.afterwards?.();
}
