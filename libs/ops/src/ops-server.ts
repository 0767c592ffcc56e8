import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { opsRoutes, type OpsRoutes } from './ops-routes.js';

export interface OpsServer {
  readonly port: number;
  close(): Promise<void>;
}

/** Serves `/healthz`, `/readyz` and `/metrics` on a port of their own. @throws Error when it cannot listen there */
export async function serveOps(host: string, port: number, routes: OpsRoutes): Promise<OpsServer> {
  const serve = opsRoutes(routes);
  const server = createServer((req, res) =>
    serve(req, res, () => res.writeHead(404, { 'Content-Length': 0 }).end()),
  );
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
