/** `npm run chaos`: hosts repeat calls until they succeed, while the test breaks services and store. */
import assert from 'node:assert/strict';
import { parseArgs } from 'node:util';
import { Report } from '../interop/report.ts';
import { storm, type Quantiles, type StormReport } from './storm.ts';
import { chaosStores } from './stores.ts';
import { stopEverything } from '../system/service.ts';
import { stormUpstreams } from './upstream-report.ts';

const stores = Object.keys(chaosStores).join(' | ');
const help = `Sends calls with tokens from hosts of both eras. Meanwhile it kills a random gateway or worker every second,
stops services for longer than a lease, restarts the store, and cuts connections.

  npm run chaos -- [options]

  --store     ${stores} (postgres); the command starts its server
  --calls     number of calls (1000)
  --seconds   duration of the faults; the starts of the calls are spread evenly over it (60)
  --gateways  number of gateways, behind a load balancer (3)
  --workers   number of workers (3)
  --hosts     number of hosts, half of them on 2025-11-25 and half on 2026-07-28 (50)
  --spared    minimum number of running gateways, and of workers (1)
  --seed      determines the faults and the durations of bodies (7)
  --upstream  calls upstream servers, which count executions. It also breaks connectors, the upstreams and the
              connections to them. --calls then counts writes
  --reads     number of additional reads (300)
  --connectors  number of connectors (2)
  --help      prints this text
`;

const { values } = parseArgs({
  options: {
    store: { type: 'string', default: 'postgres' },
    calls: { type: 'string', default: '1000' },
    seconds: { type: 'string', default: '60' },
    gateways: { type: 'string', default: '3' },
    workers: { type: 'string', default: '3' },
    hosts: { type: 'string', default: '50' },
    spared: { type: 'string', default: '1' },
    seed: { type: 'string', default: '7' },
    upstream: { type: 'boolean', default: false },
    reads: { type: 'string', default: '300' },
    connectors: { type: 'string', default: '2' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(help);
  process.exit();
}
const number = (
  name: 'calls' | 'seconds' | 'gateways' | 'workers' | 'hosts' | 'spared' | 'seed' | 'reads' | 'connectors',
  least = 1,
): number => {
  const value = Number(values[name]);
  if (!Number.isInteger(value) || value < least)
    throw new Error(`--${name} must be a whole number from ${least} on`);
  return value;
};
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => void stopEverything().finally(() => process.exit(1)));

const say = (line: string): void => void process.stdout.write(`${line}\n`);
const options = {
  store: values.store,
  calls: number('calls'),
  seconds: number('seconds'),
  gateways: number('gateways'),
  workers: number('workers'),
  hosts: number('hosts'),
  spared: number('spared', 0),
  seed: number('seed', 0),
};
if (values.upstream) {
  await stormUpstreams({ ...options, reads: number('reads', 0), connectors: number('connectors') }, say);
  process.exit();
}
say(
  `${options.calls} calls in ${options.seconds} s from ${options.hosts} hosts, ${options.gateways} gateways, ` +
    `${options.workers} workers, ${options.store}, seed ${options.seed}`,
);
await judge(await storm(options, say));

async function judge(it: StormReport): Promise<void> {
  const { faults } = it;
  say(`
faults     ${faults.gatewaysKilled} gateways and ${faults.workersKilled} workers killed; ${faults.workersStopped} workers and ${faults.gatewaysStopped} gateways stopped beyond the lease;
           the store restarted ${faults.storeRestarts}×; ${faults.storeConnectionsCut} connections to it and ${faults.hostConnectionsCut} of hosts cut
calls      ${it.calls}, ${it.broken} of them broken and sent again
starts     ${shown(it.startMs)} until a service was ready again
bodies     ${it.bodiesRerun} begun again, ${it.endsNotRecorded} ended without being recorded
re-attach  ${shown(it.reattachMs)} from the first break to the result
           ${shown(it.afterEndMs)} once the run had ended`);
  const report = new Report();
  report.heading('what became of them');
  await report.check('lost: 0', async () => assert.deepEqual(it.lost, []));
  await report.check('completed twice: 0', async () => assert.deepEqual(it.completedTwice, []));
  await report.check(`sessions lost: 0 of ${it.sessions}`, async () => assert.equal(it.sessionsLost, 0));
  await report.check('one run a call, and every run ended', async () =>
    assert.deepEqual([it.surplusRuns, it.unfinishedRuns], [0, 0]),
  );
  await report.check('no service ended by itself', async () => assert.deepEqual(it.endedByThemselves, []));
  report.finish();
}

function shown({ p50, p99, max }: Quantiles): string {
  return `p50 ${p50} ms, p99 ${p99} ms, longest ${max} ms`;
}
