import {
  createHealth,
  createLogger,
  createMetrics,
  crashOnUnhandled,
  knownVariables,
  readSettings,
  runUntilSignal,
  serveOps,
  startOrExit,
  storeReadiness,
  unknownVariables,
} from '@holdfast/ops';
import { loadTools, resolveOurPackagesEverywhere, Worker } from '@holdfast/engine';
import { openStoreWhenThere, whenStoreIsThere, type Store } from '@holdfast/store';
import { workerSettings } from './settings.js';

await startOrExit(async () => {
  const settings = readSettings(workerSettings, process.env);
  const log = createLogger({ level: settings.logLevel, name: 'worker' });
  crashOnUnhandled({ log });
  for (const { variable, message } of unknownVariables(process.env, knownVariables))
    log.warn({ variable }, message);

  resolveOurPackagesEverywhere();
  const tools = await loadTools(settings.tools, process.cwd());
  const health = createHealth();
  const readiness = storeReadiness(health, log);
  const metrics = createMetrics();
  const ops = await serveOps(settings.opsHost ?? '127.0.0.1', settings.opsPort, { health, metrics });
  log.info({ opsPort: ops.port, tools: tools.length }, 'worker starts');

  const stopping = new AbortController();
  const open: { store?: Store; worker?: Worker } = {};
  runUntilSignal({
    log,
    graceMs: settings.drainMs + 10_000,
    stop: async () => {
      health.drain();
      stopping.abort();
      await open.worker?.stop();
      await open.store?.close();
      await ops.close();
    },
  });

  const store = (open.store = await openStoreWhenThere(
    settings.store,
    { listenUrl: settings.storeListenUrl, log },
    readiness.failed,
    stopping.signal,
  ));
  if (store === undefined) return;
  const worker = (open.worker = new Worker({ store, tools, settings, log, observer: metrics.worker() }));
  metrics.queue(() => store.runs.queue());
  await whenStoreIsThere(() => worker.start(), readiness.failed, stopping.signal);
  readiness.reached();
});
