/**
 * `npm run fleet`: installs the chart on this machine, as processes with the commands and variables that helm
 * renders, behind a real HAProxy, and runs hosts against its URL while it restarts and kills every service.
 */
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { install } from '../helm/install.ts';
import { Report } from '../interop/report.ts';
import { table } from './table.ts';

const help = `Installs the chart on this machine: three gateways, three workers and two connectors behind HAProxy, with the
commands, variables and volumes that helm renders. If you are root, the pods run as an unprivileged user. Hosts call
through the URL of HAProxy while the test restarts and kills each service and restarts the store.

  npm run fleet -- [options]

  --store     postgres or valkey; both, one after another, if omitted
  --sticky    on or off; both if omitted, but only off for valkey
  --hosts     number of hosts, half of them on 2025-11-25 and half on 2026-07-28 (50)
  --seed      determines the calls and their times (7)
  --help      prints this text
`;

const { values } = parseArgs({
  options: {
    store: { type: 'string' },
    sticky: { type: 'string' },
    hosts: { type: 'string', default: '50' },
    seed: { type: 'string', default: '7' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(help);
  process.exit();
}
const whole = (name: 'hosts' | 'seed', least: number): number => {
  const value = Number(values[name]);
  if (!Number.isInteger(value) || value < least)
    throw new Error(`--${name} must be a whole number from ${least} on`);
  return value;
};
const hosts = whole('hosts', 1);
const seed = whole('seed', 0);
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));
const say = (line: string): void => void process.stdout.write(`${line}\n`);

install();
const { drive } = await import('./drive.ts');
const { fleetStores } = await import('./stores.ts');
const kinds = Object.keys(fleetStores) as (keyof typeof fleetStores)[];
const setups = kinds
  .flatMap((store) => [false, true].map((sticky) => ({ store, sticky })))
  .filter(
    ({ store, sticky }) =>
      store === (values.store ?? store) && !(sticky && store === 'valkey' && values.sticky === undefined),
  )
  .filter(({ sticky }) => (values.sticky ?? (sticky ? 'on' : 'off')) === (sticky ? 'on' : 'off'));
if (setups.length === 0) throw new Error(help);

const folder = mkdtempSync(join(tmpdir(), 'holdfast-fleet-'));
// The pods run as another user.
chmodSync(folder, 0o755);
if (process.getuid?.() !== 0)
  say('not root: the pods run as the current user and could write to read-only mounts');
const report = new Report();
for (const { store, sticky } of setups) {
  const name = `${store}, stickiness ${sticky ? 'on' : 'off'}`;
  say(`\n${name}: ${hosts} hosts, seed ${seed}`);
  const it = await drive({ store, sticky, hosts, seed, folder: join(folder, `${store}-${sticky}`) }, (line) =>
    say(`  ${line}`),
  );
  say(`\n${table(it.phases)}`);
  report.heading(name);
  const none = (what: string, found: readonly string[]): Promise<void> =>
    report.check(`${what}: 0`, async () => assert.deepEqual(found, []));
  await none(
    'failed calls in rolling restarts',
    it.phases.filter(({ isCalm }) => isCalm).flatMap(({ failed }) => failed),
  );
  await none(
    'calls that failed otherwise than as unknown or not sent',
    it.phases.filter(({ isCalm }) => !isCalm).flatMap(({ failed }) => failed),
  );
  await none(
    'lost results',
    it.phases.flatMap(({ lost }) => lost),
  );
  await none(
    'doubled results',
    it.phases.flatMap(({ doubled }) => doubled),
  );
  await report.check('one run a call, every run ended, no execution that nobody called for', async () =>
    assert.deepEqual([it.surplusRuns, it.unfinishedRuns, it.strays], [0, 0, 0]),
  );
  await report.check('sessions lost: 0', async () => assert.equal(it.sessionsLost, 0));
  await report.check(`the proxy remembers sessions: ${it.remembered}`, async () =>
    assert.equal(it.remembered > 0, sticky),
  );
  await none('containers that ended by themselves', it.troubles);
  await none(`of ${it.deleted} pods that were deleted, not ended in time with exit code 0`, it.badEndings);
}
report.finish();
if (process.exitCode === 0) rmSync(folder, { recursive: true, force: true });
else say(`output of the pods: ${folder}`);
process.exit();
