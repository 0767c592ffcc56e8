import { createRequire } from 'node:module';
import { Gateway, gatewaySettings, serveGateway, servingRules } from '@holdfast/gateway';
import { runService, startOrExit } from '@holdfast/ops';

const { version } = createRequire(import.meta.url)('../package.json') as { version: string };

await startOrExit(() =>
  runService(
    gatewaySettings,
    process.env,
    { name: 'gateway', version, rules: servingRules },
    async ({ settings, log, health, metrics }) => {
      const gateway = await Gateway.create({ settings, version, log, metrics });
      const server = await serveGateway(gateway, { health }, log);
      const { host, mcpPath: path } = settings;
      return {
        started: { message: 'gateway listens', fields: { host, port: server.port, path } },
        serveFrom: (store) => gateway.serveFrom(store),
        stop: async () => {
          await gateway.drain({ hasReplicas: true, refuse: () => server.refuse() });
          await server.close();
        },
      };
    },
  ),
);
