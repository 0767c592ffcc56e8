/** `npm run sizing`: measures the throughput of one gateway, one worker and one connector on this machine, on a private Postgres. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startPostgres, startUpstreamProcess, tool } from '../servers/index.ts';
import { Fleet, keys } from '../system/fleet.ts';
import { stopEverything, until } from '../system/service.ts';
import { rawCall } from './raw-call.ts';

const inFlight = 64;
const seconds = 8;
const waitingCalls = 2_000;
const reader = { definition: { annotations: { readOnlyHint: true } } };

const say = (line: string): void => void process.stdout.write(`${line}\n`);
const postgres = await startPostgres();
const upstream = await startUpstreamProcess({ pages: [[tool('look', reader), tool('pay')]] });
const url = await postgres.createDatabase();
const fleet = await Fleet.start(
  'postgres',
  (folder) => {
    const path = join(folder, 'servers.json');
    const servers = [{ id: 'up', url: upstream.url, concurrency: inFlight }];
    writeFileSync(path, JSON.stringify({ servers }));
    return {
      HOLDFAST_STORE: url,
      HOLDFAST_SERVERS_FILE: path,
      HOLDFAST_WORKER_CONCURRENCY: String(inFlight),
      HOLDFAST_LEASE_MS: '30000',
      HOLDFAST_CONNECTOR_LEASE_MS: '15000',
      HOLDFAST_POLL_INTERVAL_MS: '500',
      HOLDFAST_LOG_LEVEL: 'info',
    };
  },
  { gateways: 1, workers: 1, connectors: 1 },
);
const pids = {
  gateway: fleet.gateways[0]!.service.pid,
  worker: fleet.workers[0]!.pid,
  connector: fleet.connectors[0]!.pid,
};

try {
  await until(async () => !(await call('up__look', {})).includes('unknown tool'), 100);
  say(`${inFlight} calls in flight, ${seconds} s each; CPU in milliseconds a call\n`);
  say('call                           calls/s  p50 ms  p99 ms  gateway  worker  connector');
  // The first round warms up.
  await measure('lookup_order', { order_id: 'o-1' });
  const rows = [
    ['a tool of a worker, read', await measure('lookup_order', { order_id: 'o-1' })],
    ['a tool of an upstream, read', await measure('up__look', { q: 1 })],
    ['a tool of an upstream, write', await measure('up__pay', { q: 1 })],
  ] as const;
  for (const [name, { callsPerSecond, p50, p99, cpu }] of rows) {
    const figures = [
      callsPerSecond.toFixed(0).padStart(7),
      p50.toFixed(1).padStart(6),
      p99.toFixed(1).padStart(6),
      cpu.gateway.toFixed(2).padStart(7),
      cpu.worker.toFixed(2).padStart(6),
      cpu.connector.toFixed(2).padStart(9),
    ];
    say(`${name.padEnd(30)} ${figures.join('  ')}`);
  }
  const before = memoryOf(pids.gateway);
  for (let i = 0; i < waitingCalls; i++)
    void call('refund_order', { order_id: `o-${i}`, delay_ms: 25_000 }).catch(() => {});
  await until(async () => (await waiting()) >= waitingCalls, 100);
  await sleep(2_000);
  const each = (memoryOf(pids.gateway) - before) / waitingCalls;
  say(`\na call that waits: ${each.toFixed(1)} kB of a gateway (${waitingCalls} of them)`);
} finally {
  await stopEverything();
  await upstream.stop();
  await postgres.stop();
}
process.exit();

interface Measured {
  readonly callsPerSecond: number;
  readonly p50: number;
  readonly p99: number;
  /** Milliseconds for each call. */
  readonly cpu: Readonly<Record<keyof typeof pids, number>>;
}

async function measure(name: string, args: object): Promise<Measured> {
  const first = await call(name, args);
  if (first.includes('"isError":true')) throw new Error(`${name}: ${first}`);
  const times: number[] = [];
  const used = { gateway: cpuOf(pids.gateway), worker: cpuOf(pids.worker), connector: cpuOf(pids.connector) };
  const begunAt = performance.now();
  await Promise.all(
    Array.from({ length: inFlight }, async () => {
      while (performance.now() - begunAt < seconds * 1_000) {
        const sentAt = performance.now();
        await call(name, args);
        times.push(performance.now() - sentAt);
      }
    }),
  );
  const took = (performance.now() - begunAt) / 1_000;
  times.sort((a, b) => a - b);
  const perCall = (service: keyof typeof pids): number =>
    (cpuOf(pids[service]) - used[service]) / times.length;
  return {
    callsPerSecond: times.length / took,
    p50: times[Math.floor(times.length * 0.5)]!,
    p99: times[Math.floor(times.length * 0.99)]!,
    cpu: { gateway: perCall('gateway'), worker: perCall('worker'), connector: perCall('connector') },
  };
}

async function call(name: string, args: object): Promise<string> {
  return (await rawCall(fleet.url(), keys.desk, name, args)).text;
}

async function waiting(): Promise<number> {
  const page = await (await fetch(`${fleet.gateways[0]!.ops}/metrics`)).text();
  return Number(/^holdfast_calls_waiting (\d+)/m.exec(page)?.[1] ?? 0);
}

/** CPU milliseconds that a process has used; the kernel counts in hundredths of a second. */
function cpuOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/** Resident kilobytes of a process. */
function memoryOf(pid: number): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]);
}
