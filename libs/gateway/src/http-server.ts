import type { Server } from 'node:http';
import { Server as NetServer, type AddressInfo } from 'node:net';
import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { opsRoutes, type OpsRoutes } from '@holdfast/ops';
import type { Log } from '@holdfast/run';
import { ErrorFilter } from './error.filter.js';
import type { Gateway } from './gateway.js';
import { GatewayModule } from './gateway.module.js';

export interface GatewayServer {
  readonly port: number;
  /** Takes no new connections; what is under way goes on. */
  refuse(): void;
  /** Ends every connection that is left and the listener. */
  close(): Promise<void>;
}

/** Longer than the 60 s that proxies keep idle connections, so that a proxy never reuses one that we are closing. */
const keepAliveTimeoutMs = 75_000;

/** Listens at once, before the store is there: `/healthz` and `/readyz` tell. */
export async function serveGateway(gateway: Gateway, ops: OpsRoutes, log: Log): Promise<GatewayServer> {
  const { host, port, mcpPath } = gateway.settings;
  const app = await NestFactory.create<NestExpressApplication>(GatewayModule.of(gateway), {
    bodyParser: false,
    logger: false,
  });
  app.disable('x-powered-by');
  app.set('query parser', 'simple');
  app.useGlobalFilters(new ErrorFilter(log));
  app.use(opsRoutes(ops));
  // Raw, because the wire of a call is ours: no framework parses, times or answers it.
  app.use(
    (req: Parameters<Gateway['handle']>[0], res: Parameters<Gateway['handle']>[1], next: () => void) => {
      const path = req.url?.split('?', 1)[0];
      if (path === mcpPath || path === `${mcpPath}/`) void gateway.handle(req, res);
      else next();
    },
  );
  await app.listen(port, host);
  const server = app.getHttpServer() as Server;
  server.keepAliveTimeout = keepAliveTimeoutMs;
  server.headersTimeout = keepAliveTimeoutMs + 5_000;
  return {
    port: (server.address() as AddressInfo).port,
    refuse: () => {
      // An http.Server would close idle connections with that, among them those whose next request is there and was
      // not read yet: two turns of the loop read it.
      NetServer.prototype.close.call(server);
      setImmediate(() => setImmediate(() => server.closeIdleConnections()));
    },
    close: async () => {
      const closed = app.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
