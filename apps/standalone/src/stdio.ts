import { serveHostOverStdio } from '@holdfast/mcp-server';
import { runUntilSignal } from '@holdfast/ops';
import { isShared, type Store } from '@holdfast/store';
import type { Tool } from '@holdfast/tools';
import { Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeStandalone } from './standalone.js';

/**
 * Serves one host over stdin and stdout. When the host goes, runs that were accepted are ended
 * first; those of a process that was killed go on at the next start.
 *
 * A store that other machines share has workers of its own. There the tools are theirs: a set that
 * a host's child registered, the examples to begin with, would replace them (BEHAVIOURS 68, 71).
 */
export async function serveOverStdio(): Promise<void> {
  const output = keepStdoutForTheHost();
  const standalone = await makeStandalone(process.env, ({ store }) => !isShared(store));
  const { gateway, log, settings, tools } = standalone;
  const running = runUntilSignal({ log, graceMs: settings.drainMs + 10_000, stop: () => standalone.end() });
  const store = await standalone.begin();
  if (store === undefined) return;
  await serveHostOverStdio(gateway.endpoint!.core, process.stdin, output, settings.drainMs);
  while (await hasWork(store, tools)) await sleep(settings.pollIntervalMs);
  running.requestStop('the host closed stdin');
}

/** stdout carries the protocol alone: what a tool prints goes to stderr. */
function keepStdoutForTheHost(): Writable {
  const write = process.stdout.write.bind(process.stdout);
  process.stdout.write = process.stderr.write.bind(process.stderr) as typeof process.stdout.write;
  const output = new Writable({
    write: (chunk: Buffer, _encoding, done) => void write(chunk, (error) => done(error)),
  });
  process.stdout.on('error', (error) => output.destroy(error));
  return output;
}

/** Whether a run of `tools` has not ended. What no tool here serves would keep the process for ever. */
async function hasWork(store: Store, tools: readonly Tool[]): Promise<boolean> {
  for (const { definition } of tools) {
    for (const state of ['queued', 'running'] as const) {
      const open = await store.runs.list({ state, tool: definition.name, limit: 1 });
      if (open.length > 0) return true;
    }
  }
  return false;
}
