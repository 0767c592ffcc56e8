import assert from 'node:assert/strict';
import { Report } from '../interop/report.ts';
import { upstreamStorm, type UpstreamStormOptions } from './upstream-storm.ts';
import type { UpstreamVerdict } from './upstream-verdict.ts';

/** `npm run chaos -- --upstream`: storms, prints the table, and sets the exit code. */
export async function stormUpstreams(
  options: UpstreamStormOptions,
  say: (line: string) => void,
): Promise<void> {
  const { calls, reads, seconds, hosts, gateways, workers, connectors, store, seed } = options;
  say(
    `${calls} writes and ${reads} reads in ${seconds} s from ${hosts} hosts, ${gateways} gateways, ${workers} workers, ` +
      `${connectors} connectors, 2 upstreams, ${store}, seed ${seed}`,
  );
  const { faults, broken, endedByThemselves, verdict } = await upstreamStorm(options, say);
  say(`
faults     ${faults.gatewaysKilled} gateways, ${faults.workersKilled} workers, ${faults.connectorsKilled} connectors and ${faults.upstreamsKilled} upstreams killed;
           ${faults.connectorsStopped} owners and ${faults.workersStopped} workers stopped beyond the lease; the store restarted ${faults.storeRestarts}×;
           connections cut: ${faults.upstreamConnectionsCut} to upstreams, ${faults.storeConnectionsCut} to the store, ${faults.hostConnectionsCut} of hosts;
           bytes to and from an upstream held back ${faults.upstreamHeldBack}×
calls      ${calls + reads}, ${broken} of them broken and sent again`);
  say(shown(verdict));
  const report = new Report();
  report.heading('what became of them');
  const none = (name: string, found: readonly string[]): Promise<void> =>
    report.check(`${name}: 0`, async () => assert.deepEqual(found, []));
  await none('executed twice', verdict.executedTwice);
  await none('lost silently', verdict.lost);
  await none('told otherwise than the upstream counted', verdict.wronglyTold);
  await none('executed without a dispatch mark', verdict.executedWithoutMark);
  await none('unknown without a dispatch mark', verdict.unknownWithoutMark);
  await none('reads that ended as MCPCallOutcomeUnknown', verdict.unknownReads);
  await report.check('executions that nobody called for: 0', async () => assert.equal(verdict.strays, 0));
  await none('services that ended by themselves', endedByThemselves);
  report.finish();
}

function shown({ rows, phases, brokenAfterMark }: UpstreamVerdict): string {
  return `
${table(
  ['', 'ended as', 'calls', 'executed 0', '1', 'more'],
  rows.map(({ toolClass, name, calls, never, once, more }) => [toolClass, name, calls, never, once, more]),
)}

broken between the mark and the first byte: ${brokenAfterMark} of the unknown writes

where writes were when a service was struck (one write may be met more than once)
${table(
  ['struck', 'times', 'queued', 'claimed', 'marked', 'acted', 'recorded'],
  phases.map(({ struck, times, queued, claimed, marked, acted, recorded }) => [
    ...[struck, times, queued, claimed, marked, acted, recorded],
  ]),
)}`;
}

/** Aligns text to the left, numbers to the right. */
function table(head: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const width = head.map((name, i) => Math.max(name.length, ...rows.map((row) => String(row[i]).length)));
  const isText = (i: number): boolean => typeof rows[0]?.[i] === 'string';
  return [head, ...rows]
    .map((row) =>
      row
        .map((cell, i) => (isText(i) ? String(cell).padEnd(width[i]!) : String(cell).padStart(width[i]!)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
