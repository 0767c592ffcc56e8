import { createRequire } from 'node:module';
import { ConnectorClient } from '@holdfast/connector-rpc';
import {
  loadTools,
  resolveOurPackagesEverywhere,
  toolModules,
  Worker,
  workerRules,
  workerSettings,
} from '@holdfast/engine';
import { readRpcCredentials, runService, startOrExit } from '@holdfast/ops';

const { version } = createRequire(import.meta.url)('../package.json') as { version: string };

await startOrExit(() =>
  runService(
    workerSettings,
    process.env,
    { name: 'worker', version, rules: workerRules },
    async ({ settings, log, metrics }) => {
      resolveOurPackagesEverywhere();
      const tools = await loadTools(toolModules(settings.tools), process.cwd());
      const security = readRpcCredentials(settings);
      const tlsName = settings.connectorUrl.replace(/:\d+$/, '');
      let upstreams: ConnectorClient | undefined;
      let worker: Worker | undefined;
      return {
        started: { message: 'worker starts', fields: { tools: tools.length } },
        serveFrom: async (store) => {
          if (settings.connectorUrl !== 'off')
            upstreams ??= new ConnectorClient({ store, security, tlsName });
          const observer = metrics.worker();
          worker ??= new Worker({ store, tools, ...(upstreams && { upstreams }), settings, log, observer });
          await worker.start();
          metrics.queue(() => store.runs.queue());
        },
        stop: async () => {
          await worker?.stop();
          upstreams?.close();
        },
      };
    },
  ),
);
