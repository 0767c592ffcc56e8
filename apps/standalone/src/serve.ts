import { isApiOpen, serveGateway } from '@holdfast/gateway';
import { isLoopback, runUntilSignal } from '@holdfast/ops';
import { storeName } from '@holdfast/store';
import { makeStandalone, type Standalone } from './standalone.js';

/** Serves hosts over HTTP until a signal. */
export async function serve(): Promise<void> {
  const standalone = await makeStandalone(process.env);
  const { gateway, health, metrics, log, settings } = standalone;
  const server = await serveGateway(gateway, { health, metrics }, log);
  runUntilSignal({
    log,
    graceMs: settings.drainMs + 10_000,
    stop: async () => {
      server.refuse();
      await standalone.end();
      await server.close();
    },
  });
  if ((await standalone.begin()) === undefined) return;
  process.stdout.write(welcome(standalone, server.port));
}

/** What a person needs first: the URL, how to add it to a host, where to look. */
function welcome({ settings }: Standalone, port: number): string {
  const name = settings.host.includes(':') ? `[${settings.host}]` : settings.host;
  const base = settings.publicUrl?.replace(/\/$/, '') ?? `http://${name}:${port}`;
  const isOpen = settings.auth.includes('none');
  const reach = isLoopback(settings.host)
    ? 'everybody on this machine'
    : `everybody who reaches ${settings.host}`;
  const hasAdmins =
    settings.adminKeys !== undefined ||
    (settings.auth.includes('jwt') && settings.jwtAdminScope !== undefined);
  const stop =
    settings.store === 'memory:'
      ? 'Ctrl+C stops, and everything is gone: the store is in memory.'
      : 'Ctrl+C stops; what was accepted goes on at the next start.';
  const header = isOpen ? '' : ' --header "Authorization: Bearer <key>"';
  return `
Holdfast serves ${base}${settings.mcpPath}

  Claude Code   claude mcp add --transport http holdfast ${base}${settings.mcpPath}${header}
  Runs          ${base}/api/runs${hasAdmins || isApiOpen(settings) ? '' : ' (closed: set HOLDFAST_ADMIN_KEYS)'}
  Metrics       ${base}/metrics
  Store         ${storeName(settings.store)}
  Callers       ${isOpen ? `${reach} (HOLDFAST_AUTH=none)` : settings.auth.join(', ')}

${stop}
`;
}
