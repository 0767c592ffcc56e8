import { serveHostOverStdio } from '@holdfast/mcp-server';
import { runUntilSignal } from '@holdfast/ops';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeStandalone } from './standalone.js';

/**
 * Serves one host over stdin and stdout. When the host goes, runs that were accepted are ended
 * first; those of a process that was killed go on at the next start (BEHAVIOURS 68).
 */
export async function serveOverStdio(): Promise<void> {
  const standalone = await makeStandalone(process.env);
  const { gateway, log, settings } = standalone;
  const running = runUntilSignal({ log, graceMs: settings.drainMs + 10_000, stop: () => standalone.end() });
  const store = await standalone.begin();
  await serveHostOverStdio(gateway.endpoint!.core, process.stdin, process.stdout);
  for (;;) {
    const open = await Promise.all(
      (['queued', 'running'] as const).map((state) => store.runs.list({ state, limit: 1 })),
    );
    if (open.every((runs) => runs.length === 0)) break;
    await sleep(settings.pollIntervalMs);
  }
  running.requestStop('the host closed stdin');
}
