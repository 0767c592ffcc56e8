import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { loadTools, resolveOurPackagesEverywhere, Worker } from '@holdfast/engine';
import { Gateway, servingRules } from '@holdfast/gateway';
import { beginService, type Environment, type Health, type Log, type Metrics } from '@holdfast/ops';
import { openStoreWhenThere, type Store } from '@holdfast/store';
import type { Tool } from '@holdfast/tools';
import { standaloneSettings, type StandaloneSettings } from './settings.js';

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
  const service = beginService(standaloneSettings, env, {
    name: 'standalone',
    destination: 'stderr',
    rules: servingRules,
  });
  const { settings, log, health, metrics, readiness } = service;
  resolveOurPackagesEverywhere();
  const tools = runsTools(settings)
    ? await loadTools(settings.tools.map(ourExamples), process.cwd())
    : undefined;
  const gateway = await Gateway.create({ settings, version, log, metrics });
  const stopping = new AbortController();
  let store: Store | undefined;
  let worker: Worker | undefined;
  return {
    settings,
    gateway,
    tools: tools ?? [],
    health,
    metrics,
    log,
    begin: async () => {
      store = await openStoreWhenThere(
        settings.store,
        { listenUrl: settings.storeListenUrl, pollMs: settings.pollIntervalMs, log },
        readiness.failed,
        stopping.signal,
      );
      if (store === undefined) return;
      if (tools !== undefined) {
        worker = new Worker({ store, tools, settings, log, observer: metrics.worker() });
        await worker.start();
      }
      await gateway.serveFrom(store);
      readiness.reached();
      return store;
    },
    end: async () => {
      health.drain();
      stopping.abort();
      await Promise.all([gateway.drain({ hasReplicas: false }), worker?.stop()]);
      await store?.close();
    },
  };
}

/** The examples are found from here, whatever the working folder. */
function ourExamples(module: string): string {
  return module === '@holdfast/orders' ? fileURLToPath(import.meta.resolve(module)) : module;
}
