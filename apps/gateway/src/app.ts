import { createRequire } from 'node:module';
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
import { openStoreWhenThere, whenStoreIsThere, type Store } from '@holdfast/store';
import { Gateway } from './gateway.js';
import { serveGateway } from './http-server.js';
import { gatewaySettings, servingRules } from './settings.js';

const { version } = createRequire(import.meta.url)('../package.json') as { version: string };

await startOrExit(async () => {
  const settings = readSettings(gatewaySettings, process.env, servingRules);
  const log = createLogger({ level: settings.logLevel, name: 'gateway' });
  crashOnUnhandled({ log });
  for (const { variable, message } of unknownVariables(process.env, knownVariables))
    log.warn({ variable }, message);

  const health = createHealth();
  const readiness = storeReadiness(health, log);
  const metrics = createMetrics();
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
      await gateway.drain({ hasReplicas: true, refuse: () => server.refuse() });
      await server.close();
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
  await whenStoreIsThere(() => gateway.serveFrom(store), readiness.failed, stopping.signal);
  readiness.reached();
});
