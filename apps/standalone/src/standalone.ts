import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Connecting } from '@holdfast/connector';
import { loadTools, resolveOurPackagesEverywhere, toolModules, Worker } from '@holdfast/engine';
import { Gateway, servingRules } from '@holdfast/gateway';
import { beginService, type Environment, type Health, type Metrics } from '@holdfast/ops';
import type { Log } from '@holdfast/run';
import { openStore, whenThere, type Store } from '@holdfast/store';
import type { Tool } from '@holdfast/tools';
import { standaloneSettings, type StandaloneSettings } from './settings.js';

/** Nobody calls this connector from outside. */
const ownAddress = 'standalone';

const { version } = createRequire(import.meta.url)('../package.json') as { version: string };

/** The modules of the services, composed in one process over one store. */
export interface Standalone {
  readonly settings: StandaloneSettings;
  readonly gateway: Gateway;
  /** The tools that this process runs. */
  readonly tools: readonly Tool[];
  readonly health: Health;
  readonly metrics: Metrics;
  readonly log: Log;
  /** Opens the store and begins to work; resolves when runs are served, to undefined when `end` came first. */
  begin(): Promise<Store | undefined>;
  /** Drains worker and gateway together and closes the store. */
  end(): Promise<void>;
}

/**
 * @param runsTools  whether this process runs tools; otherwise workers elsewhere do, on the same store
 * @throws ConfigError, or RunError for tools that cannot be served
 */
export async function makeStandalone(
  env: Environment,
  runsTools: (settings: StandaloneSettings) => boolean = () => true,
): Promise<Standalone> {
  // stdout is for the welcome, and over stdio for the protocol.
  const service = await beginService(standaloneSettings, env, {
    name: 'standalone',
    version,
    destination: 'stderr',
    rules: servingRules,
  });
  const { settings, log, health, metrics, readiness, tracing } = service;
  resolveOurPackagesEverywhere();
  const tools = runsTools(settings)
    ? await loadTools(toolModules(settings.tools).map(ourExamples), process.cwd())
    : undefined;
  const gateway = await Gateway.create({ settings, version, log, metrics });
  const connecting =
    tools && new Connecting({ settings, env, version, dataFolder: resolve('data'), log, health, metrics });
  const { storeListenUrl: listenUrl, pollIntervalMs: pollMs } = settings;
  const stopping = new AbortController();
  let store: Store | undefined;
  let worker: Worker | undefined;
  const isOneCaller = settings.auth.every((provider) => provider === 'none');
  return {
    settings,
    gateway,
    tools: tools ?? [],
    health,
    metrics,
    log,
    begin: async () => {
      const there = await whenThere(
        async () => {
          store ??= await openStore(settings.store, { listenUrl, pollMs, log });
          if (tools !== undefined) {
            await connecting!.serveFrom(store, ownAddress);
            const upstreams = connecting!.connector!;
            worker ??= new Worker({
              store,
              tools,
              upstreams,
              // Without authentication all calls are of one caller.
              settings: { ...settings, callerShare: isOneCaller ? 100 : settings.callerShare },
              log,
              observer: metrics.worker(),
            });
            await worker.start();
          }
          await gateway.serveFrom(store);
          readiness.reached();
          return store;
        },
        readiness.failed,
        stopping.signal,
      );
      if (there !== undefined) await connecting?.requiredServers();
      return there;
    },
    end: async () => {
      health.drain();
      stopping.abort();
      // The worker last: until the calls that wait have their results it goes on claiming.
      const until = performance.now() + settings.drainMs;
      await gateway.drain({ hasReplicas: false });
      await worker?.stop(Math.max(0, until - performance.now()));
      await connecting?.stop(Math.max(0, until - performance.now()));
      await store?.close();
      await tracing.stop();
    },
  };
}

/** The examples are found from here, whatever the working folder. */
function ourExamples(module: string): string {
  return module === '@holdfast/orders' ? fileURLToPath(import.meta.resolve(module)) : module;
}
