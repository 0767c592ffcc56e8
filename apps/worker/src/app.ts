import { createRequire } from 'node:module';
import { ConnectorClient } from '@holdfast/connector-rpc';
import { beginService, readRpcCredentials, runUntilSignal, serveOps, startOrExit } from '@holdfast/ops';
import {
  loadTools,
  resolveOurPackagesEverywhere,
  toolModules,
  Worker,
  workerRules,
  workerSettings,
} from '@holdfast/engine';
import { openStore, whenThere, type Store } from '@holdfast/store';

const { version } = createRequire(import.meta.url)('../package.json') as { version: string };

await startOrExit(async () => {
  const service = await beginService(workerSettings, process.env, {
    name: 'worker',
    version,
    rules: workerRules,
  });
  const { settings, log, health, metrics, readiness, tracing } = service;
  resolveOurPackagesEverywhere();
  const tools = await loadTools(toolModules(settings.tools), process.cwd());
  const ops = await serveOps(settings.opsHost ?? settings.host, settings.opsPort, { health, metrics });
  log.info({ opsPort: ops.port, tools: tools.length }, 'worker starts');

  const stopping = new AbortController();
  const security = readRpcCredentials(settings);
  const tlsName = settings.connectorUrl.replace(/:\d+$/, '');
  const open: { store?: Store; upstreams?: ConnectorClient; worker?: Worker } = {};
  runUntilSignal({
    log,
    graceMs: settings.drainMs + 10_000,
    stop: async () => {
      health.drain();
      stopping.abort();
      await open.worker?.stop();
      open.upstreams?.close();
      await open.store?.close();
      await tracing.stop();
      await ops.close();
    },
  });

  const { storeListenUrl: listenUrl, pollIntervalMs: pollMs } = settings;
  metrics.queue(async () => open.store!.runs.queue());
  await whenThere(
    async () => {
      const store = (open.store ??= await openStore(settings.store, { listenUrl, pollMs, log }));
      if (settings.connectorUrl !== 'off')
        open.upstreams ??= new ConnectorClient({ store, security, tlsName });
      const { upstreams } = open;
      const observer = metrics.worker();
      open.worker ??= new Worker({ store, tools, ...(upstreams && { upstreams }), settings, log, observer });
      await open.worker.start();
      readiness.reached();
    },
    readiness.failed,
    stopping.signal,
  );
});
