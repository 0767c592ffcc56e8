import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Health } from './health.js';
import type { Metrics } from './metrics.js';

export interface OpsRoutes {
  readonly health: Health;
  /** Left out where the path is open to hosts: metrics are for operators. */
  readonly metrics?: Metrics;
}

/**
 * Answers `/healthz`, `/readyz` and `/metrics` by GET and HEAD, and leaves every other request to
 * `next`. `/healthz` touches nothing; `/readyz` says by name what is missing.
 */
export function opsRoutes({
  health,
  metrics,
}: OpsRoutes): (req: IncomingMessage, res: ServerResponse, next: () => void) => void {
  return (req, res, next) => {
    const path = req.url?.split('?', 1)[0];
    if (req.method !== 'GET' && req.method !== 'HEAD') return next();
    if (path === '/healthz') return answer(res, 200, 'application/json', JSON.stringify(health.live()));
    if (path === '/readyz') {
      const ready = health.ready();
      return answer(res, ready.ok ? 200 : 503, 'application/json', JSON.stringify(ready));
    }
    if (path !== '/metrics' || metrics === undefined) return next();
    metrics.render().then(
      ({ contentType, body }) => answer(res, 200, contentType, body),
      () => answer(res, 500, 'text/plain', 'metrics could not be written\n'),
    );
  };
}

function answer(res: ServerResponse, status: number, contentType: string, body: string): void {
  res.writeHead(status, {
    'Content-Type': contentType,
    'Content-Length': Buffer.byteLength(body),
    'Cache-Control': 'no-store',
  });
  res.end(body);
}
