import { createRequire } from 'node:module';
import { Gateway, gatewaySettings, serveGateway, servingRules } from '@holdfast/gateway';
import { beginService, runUntilSignal, serveOps, startOrExit } from '@holdfast/ops';
import { openStore, whenThere, type Store } from '@holdfast/store';

const { version } = createRequire(import.meta.url)('../package.json') as { version: string };

await startOrExit(async () => {
  const service = await beginService(gatewaySettings, process.env, {
    name: 'gateway',
    version,
    rules: servingRules,
  });
  const { settings, log, health, metrics, readiness, tracing } = service;
  const gateway = await Gateway.create({ settings, version, log, metrics });
  const ops = await serveOps(settings.opsHost ?? settings.host, settings.opsPort, { health, metrics });
  const server = await serveGateway(gateway, { health }, log);

  const stopping = new AbortController();
  const open: { store?: Store } = {};
  runUntilSignal({
    log,
    graceMs: settings.drainMs + 10_000,
    stop: async () => {
      health.drain();
      stopping.abort();
      await gateway.drain({ hasReplicas: true, refuse: () => server.refuse() });
      await server.close();
      await open.store?.close();
      await tracing.stop();
      await ops.close();
    },
  });
  // Who reads this may send a signal at once.
  log.info(
    { host: settings.host, port: server.port, path: settings.mcpPath, opsPort: ops.port },
    'gateway listens',
  );

  const { storeListenUrl: listenUrl, pollIntervalMs: pollMs } = settings;
  await whenThere(
    async () => {
      open.store ??= await openStore(settings.store, { listenUrl, pollMs, log });
      await gateway.serveFrom(open.store);
      readiness.reached();
    },
    readiness.failed,
    stopping.signal,
  );
});
