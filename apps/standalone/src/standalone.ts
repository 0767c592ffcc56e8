import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { loadTools, resolveOurPackagesEverywhere, Worker } from '@holdfast/engine';
import { Gateway } from '@holdfast/gateway';
import {
  createHealth,
  createLogger,
  createMetrics,
  crashOnUnhandled,
  knownVariables,
  storeReadiness,
  unknownVariables,
  type Environment,
  type Health,
  type Log,
  type Metrics,
} from '@holdfast/ops';
import { openStoreWhenThere, whenStoreIsThere, type Store } from '@holdfast/store';
import type { Tool } from '@holdfast/tools';
import { readStandaloneSettings, type StandaloneSettings } from './settings.js';

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
  const settings = readStandaloneSettings(env);
  const log = createLogger({ level: settings.logLevel, name: 'standalone', destination: 'stderr' });
  crashOnUnhandled({ log });
  for (const { variable, message } of unknownVariables(env, knownVariables)) log.warn({ variable }, message);

  resolveOurPackagesEverywhere();
  const tools = runsTools(settings)
    ? await loadTools(settings.tools.map(ourExamples), process.cwd())
    : undefined;
  const health = createHealth();
  const metrics = createMetrics();
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
      const readiness = storeReadiness(health, log);
      const opened = (store = await openStoreWhenThere(
        settings.store,
        { listenUrl: settings.storeListenUrl, log },
        readiness.failed,
        stopping.signal,
      ));
      if (opened === undefined) return;
      if (tools !== undefined) {
        const made = (worker = new Worker({
          store: opened,
          tools,
          settings,
          log,
          observer: metrics.worker(),
        }));
        await whenStoreIsThere(() => made.start(), readiness.failed, stopping.signal);
      }
      await whenStoreIsThere(() => gateway.serveFrom(opened), readiness.failed, stopping.signal);
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
