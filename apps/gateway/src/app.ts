import { createRequire } from 'node:module';
import { beginService, runUntilSignal, serveOps, startOrExit } from '@holdfast/ops';
import { openStoreWhenThere, type Store } from '@holdfast/store';
import { Gateway } from './gateway.js';
import { serveGateway } from './http-server.js';
import { gatewaySettings, servingRules } from './settings.js';

const { version } = createRequire(import.meta.url)('../package.json') as { version: string };

await startOrExit(async () => {
  const service = beginService(gatewaySettings, process.env, { name: 'gateway', rules: servingRules });
  const { settings, log, health, metrics, readiness } = service;
  const gateway = await Gateway.create({ settings, version, log, metrics });
  const ops = await serveOps(settings.opsHost ?? settings.host, settings.opsPort, { health, metrics });
  const server = await serveGateway(gateway, { health }, log);
  log.info(
    { host: settings.host, port: server.port, path: settings.mcpPath, opsPort: ops.port },
    'gateway listens',
  );

  const stopping = new AbortController();
  const open: { store?: Store } = {};
  runUntilSignal({
    log,
    graceMs: settings.drainMs + 10_000,
    stop: async () => {
      health.drain();
      stopping.abort();
      server.refuse();
      await gateway.drain({ hasReplicas: true });
      await server.close();
      await open.store?.close();
      await ops.close();
    },
  });

  open.store = await openStoreWhenThere(
    settings.store,
    { listenUrl: settings.storeListenUrl, pollMs: settings.pollIntervalMs, log },
    readiness.failed,
    stopping.signal,
  );
  if (open.store === undefined) return;
  await gateway.serveFrom(open.store);
  readiness.reached();
});
