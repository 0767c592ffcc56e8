/**
 * `npm run fairness`: measures the effect of a busy caller on a caller with one call a second, on each store. The busy
 * caller keeps 100 long calls open and sends 500 short calls a second. Exits with 1 if the p95 of the other caller is
 * more than three times its value alone. `-- --seconds N` sets the length of each of the two phases (20),
 * `-- --store KIND` selects one store.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startPostgres, startValkey } from '../servers/index.ts';
import { Fleet, keys } from '../system/fleet.ts';
import { stopEverything } from '../system/service.ts';
import { rawCall } from './raw-call.ts';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '20' },
    store: { type: 'string' },
  },
});
const seconds = Number(values.seconds);
const longCalls = 100;
const shortCallsPerSecond = 500;
const mostInFlight = 400;
const limit = 3;
/** Replaces the short times of tests. */
const production = {
  HOLDFAST_LEASE_MS: '30000',
  HOLDFAST_POLL_INTERVAL_MS: '500',
  HOLDFAST_LOG_LEVEL: 'info',
};

const say = (line: string): void => void process.stdout.write(`${line}\n`);

/** The server of each kind of store; it stops after its turn. */
const open: Record<'sqlite' | 'postgres' | 'valkey', () => Promise<{ url?: string; stop(): Promise<void> }>> =
  {
    sqlite: () => Promise.resolve({ stop: () => Promise.resolve() }),
    postgres: async () => {
      const server = await startPostgres();
      return { url: await server.createDatabase(), stop: () => server.stop() };
    },
    valkey: startValkey,
  };
const stores = ['sqlite', 'postgres', 'valkey'] as const;
let isFair = true;

say(
  'store      alone p95 ms  beside p95 ms  ratio  short calls: answered  refused  long calls: taken  refused',
);
for (const store of stores) {
  if (values.store !== undefined && values.store !== store) continue;
  const server = await open[store]();
  try {
    const fleet = await Fleet.start(
      store === 'sqlite' ? 'standalone' : store,
      { ...production, ...(server.url !== undefined && { HOLDFAST_STORE: server.url }) },
      { gateways: 1, workers: 1 },
    );
    const ratio = await measure(store, fleet.url());
    if (ratio > limit) isFair = false;
  } finally {
    await stopEverything();
    await server.stop();
  }
}
process.exit(isFair ? 0 : 1);

async function measure(store: string, url: string): Promise<number> {
  await steadyCaller(url, 5);
  const alone = percentile95(await steadyCaller(url, seconds));
  const busy = busyCaller(url);
  // The busy caller starts its calls before the measurement of the other caller.
  await sleep(2_000);
  const beside = percentile95(await steadyCaller(url, seconds));
  const { shorts, longs } = await busy.stop();
  const ratio = beside / alone;
  say(
    [
      store.padEnd(9),
      alone.toFixed(1).padStart(13),
      beside.toFixed(1).padStart(14),
      ratio.toFixed(1).padStart(6),
      String(shorts.answered).padStart(22),
      String(shorts.refused).padStart(8),
      String(longs.answered).padStart(18),
      String(longs.refused).padStart(8),
    ].join(' '),
  );
  return ratio;
}

/** Sends one call a second. @returns the milliseconds of each */
async function steadyCaller(url: string, forSeconds: number): Promise<number[]> {
  const times: number[] = [];
  const begunAt = performance.now();
  for (let n = 0; n < forSeconds; n++) {
    const due = begunAt + n * 1_000;
    await sleep(Math.max(0, due - performance.now()));
    const sentAt = performance.now();
    const { status, text } = await rawCall(url, keys.ci, 'lookup_order', { order_id: `s-${n}` });
    if (status !== 200 || text.includes('"isError":true')) throw new Error(`${status} ${text}`);
    times.push(performance.now() - sentAt);
  }
  return times;
}

interface Count {
  answered: number;
  refused: number;
}

/** Keeps 100 long calls open and sends 500 short ones a second, regardless of their results. */
function busyCaller(url: string): { stop(): Promise<{ shorts: Count; longs: Count }> } {
  const shorts: Count = { answered: 0, refused: 0 };
  const longs: Count = { answered: longCalls, refused: 0 };
  for (let n = 0; n < longCalls; n++) {
    const args = { order_id: `l-${n}`, delay_ms: 25_000 };
    void rawCall(url, keys.desk, 'refund_order', args).then(
      ({ status }) => {
        if (status !== 429) return;
        longs.answered--;
        longs.refused++;
      },
      () => {},
    );
  }
  let inFlight = 0;
  let isOver = false;
  const shoot = async (): Promise<void> => {
    inFlight++;
    try {
      const { status } = await rawCall(url, keys.desk, 'lookup_order', { order_id: 'b' });
      if (status === 429) shorts.refused++;
      else shorts.answered++;
    } catch {
      // Ignores a connection that ends with the service.
    } finally {
      inFlight--;
    }
  };
  const begunAt = performance.now();
  let sent = 0;
  const timer = setInterval(() => {
    const due = ((performance.now() - begunAt) / 1_000) * shortCallsPerSecond;
    for (; sent < due; sent++) if (!isOver && inFlight < mostInFlight) void shoot();
  }, 10);
  return {
    stop: () => {
      isOver = true;
      clearInterval(timer);
      return Promise.resolve({ shorts, longs });
    },
  };
}

function percentile95(times: readonly number[]): number {
  return times.toSorted((a, b) => a - b)[Math.min(times.length - 1, Math.floor(times.length * 0.95))]!;
}
