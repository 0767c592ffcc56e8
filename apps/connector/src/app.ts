import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { Transport, type MicroserviceOptions } from '@nestjs/microservices';
import { Connecting, connectorRules, connectorSettings } from '@holdfast/connector';
import {
  loaderOptions,
  maxMessageBytes,
  protoPackage,
  protoPath,
  serverCredentials,
} from '@holdfast/connector-rpc';
import { beginService, readRpcCredentials, runUntilSignal, serveOps, startOrExit } from '@holdfast/ops';
import { openStore, whenThere, type Store } from '@holdfast/store';
import { Serving } from './calls.controller.js';
import { ConnectorModule } from './connector.module.js';

const { version } = createRequire(import.meta.url)('../package.json') as { version: string };

await startOrExit(async () => {
  const service = await beginService(connectorSettings, process.env, {
    name: 'connector',
    version,
    rules: connectorRules,
  });
  const { settings, log, health, metrics, readiness, tracing } = service;
  const security = readRpcCredentials(settings);
  const connecting = new Connecting({
    settings,
    env: process.env,
    version,
    dataFolder: resolve('data'),
    log,
    health,
    metrics,
  });
  const ops = await serveOps(settings.opsHost ?? settings.host, settings.opsPort, { health, metrics });
  const app = await NestFactory.createMicroservice<MicroserviceOptions>(
    ConnectorModule.of(new Serving(() => connecting.connector, security, log)),
    {
      logger: false,
      transport: Transport.GRPC,
      options: {
        package: protoPackage,
        protoPath,
        url: settings.bind,
        loader: loaderOptions,
        credentials: serverCredentials(security),
        maxReceiveMessageLength: maxMessageBytes,
        maxSendMessageLength: maxMessageBytes,
        gracefulShutdown: true,
      },
    },
  );
  await app.listen();

  const stopping = new AbortController();
  const open: { store?: Store } = {};
  runUntilSignal({
    log,
    graceMs: settings.drainMs + 10_000,
    stop: async () => {
      health.drain();
      stopping.abort();
      await connecting.stop(settings.drainMs);
      await app.close();
      await open.store?.close();
      await tracing.stop();
      await ops.close();
    },
  });
  // Who reads this may send a signal at once.
  log.info({ bind: settings.bind, opsPort: ops.port }, 'connector listens');

  const { storeListenUrl: listenUrl, pollIntervalMs: pollMs } = settings;
  const isThere = await whenThere(
    async () => {
      open.store ??= await openStore(settings.store, { listenUrl, pollMs, log });
      await connecting.serveFrom(open.store, settings.advertise ?? settings.bind);
      readiness.reached();
      log.info({}, 'connector serves');
      return true;
    },
    readiness.failed,
    stopping.signal,
  );
  if (isThere === true) await connecting.requiredServers();
});
