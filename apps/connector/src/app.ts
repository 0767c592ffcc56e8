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
import { readRpcCredentials, runService, startOrExit } from '@holdfast/ops';
import { Serving } from './calls.controller.js';
import { ConnectorModule } from './connector.module.js';

const { version } = createRequire(import.meta.url)('../package.json') as { version: string };

await startOrExit(() =>
  runService(
    connectorSettings,
    process.env,
    { name: 'connector', version, rules: connectorRules },
    async ({ settings, log, health, metrics }) => {
      const security = readRpcCredentials(settings);
      const dataFolder = resolve('data');
      const connecting = new Connecting({
        settings,
        env: process.env,
        version,
        dataFolder,
        log,
        health,
        metrics,
      });
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
      return {
        started: { message: 'connector listens', fields: { bind: settings.bind } },
        serveFrom: async (store) => {
          await connecting.serveFrom(store, settings.advertise ?? settings.bind);
          log.info({}, 'connector serves');
        },
        afterwards: () => connecting.requiredServers(),
        stop: async () => {
          await connecting.stop(settings.drainMs);
          await app.close();
        },
      };
    },
  ),
);
