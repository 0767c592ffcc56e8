import {
  callErrorNames,
  systemClock,
  type CallErrorName,
  type Clock,
  type Outcome,
  type ToolClass,
} from '@holdfast/run';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';

/** How a host's call ended: how far its run got, or `left` when the host went away before an answer. */
export type CallOutcome = Outcome | 'left';

/** The runs waiting in the store, of every service together. */
export interface QueueDepth {
  readonly queued: number;
  /** Since when the oldest of them waits; undefined when none does. */
  readonly oldest: Date | undefined;
}

export interface RunEnded {
  readonly state: 'succeeded' | 'failed' | 'cancelled';
  readonly toolClass: ToolClass;
  /** The error's name; one outside the closed list is counted as `other`. */
  readonly error?: string | undefined;
  /** How long the last attempt took, when there was one. */
  readonly executeSeconds?: number;
}

export interface GatewayMetrics {
  /** A request that was not served, by a reason of `REFUSALS`. */
  refused(reason: string): void;
  runSubmitted(run: { readonly toolClass: ToolClass; readonly reattached: boolean }): void;
  runFinished(run: RunEnded): void;
  /** A host's call waits for its answer from here until `callFinished`. */
  callStarted(): void;
  callFinished(call: { readonly outcome: CallOutcome; readonly seconds: number }): void;
}

/** What the engine's worker tells. */
export interface WorkerMetrics {
  /** A worker claimed a run for the first time. */
  claimed(queueSeconds: number): void;
  finished(run: RunEnded): void;
  leaseLost(): void;
}

/** What the connector tells. Servers are named by operators; those that come after a thousand names are `other`. */
export interface ConnectorMetrics {
  called(call: { readonly server: string; readonly outcome: string; readonly seconds: number }): void;
  /** Whether a server is connected; undefined when this connector has it no longer. */
  connected(server: string, isConnected: boolean | undefined): void;
}

/** Asks the store at the time of a scrape. May reject or hang: the sample is then absent, never stale. */
export type Ask<T> = (signal: AbortSignal) => Promise<T>;

/**
 * The metrics of one process. A service creates only the groups it feeds; standalone creates all of them on
 * one object. Asking twice for a group gives the same series.
 */
export interface Metrics {
  gateway(): GatewayMetrics;
  worker(): WorkerMetrics;
  connector(): ConnectorMetrics;
  /** `holdfast_runs_queued` and `holdfast_queue_age_seconds`, read together once a scrape. */
  queue(ask: Ask<QueueDepth>): void;
  /** `holdfast_sessions`: open sessions in the store. */
  sessions(ask: Ask<number>): void;
  /** The page of `/metrics`. */
  render(): Promise<{ readonly contentType: string; readonly body: string }>;
}

/** Seconds, 1 ms to 10 min: a warm local tool takes milliseconds, a call that waits for a person minutes. */
const BUCKETS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600,
];

const OTHER = 'other';
const MAX_SERVERS = 1_000;
const TOOL_CLASSES = new Set<string>(['read', 'write'] satisfies ToolClass[]);
const STATES = new Set<string>(['succeeded', 'failed', 'cancelled'] satisfies RunEnded['state'][]);
const ERRORS = new Set<string>(callErrorNames);
/** Ends of which the first one counts: somebody must look. */
const ALERTING_ERRORS = ['OutcomeUnknown', 'RunTimeout', 'MCPCallOutcomeUnknown'] satisfies CallErrorName[];
const OUTCOMES = new Set<string>([
  'not_sent',
  'refused',
  'unknown',
  'ran',
  'pending',
  'left',
] satisfies CallOutcome[]);
/**
 * Why requests are refused: what is wrong with the credential of the caller, a `Host` or an `Origin` that is not
 * allowed, or the limit that they reach (docs/limits.md).
 */
const REFUSALS = new Set([
  'no_credential',
  'malformed',
  'wrong_key',
  'module',
  'algorithm',
  'key_unknown',
  'signature',
  'claims',
  'issuer',
  'audience',
  'not_yet_valid',
  'expired',
  'unavailable',
  'host',
  'origin',
  'body_bytes',
  'body_values',
  'body_depth',
  'bytes_in_flight',
  'calls_per_second',
  'runs_waiting',
  'runs_under_way',
  'sessions',
  'streams',
  'unread_bytes',
]);

/** Well within the 10 s that Prometheus gives a scrape, so that a hanging store costs two samples, not the page. */
const ASK_TIMEOUT_MS = 2_000;

/**
 * Creates a registry of its own (never prom-client's global one) with the metrics of Node and the process.
 * Every label comes from a closed list; anything else is counted as `other`, so no label can grow without
 * bound or carry what a caller sent.
 */
export function createMetrics({
  clock = systemClock,
  askTimeoutMs = ASK_TIMEOUT_MS,
}: { readonly clock?: Clock; readonly askTimeoutMs?: number } = {}): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });

  const finished = once(() => {
    const counter = new Counter({
      name: 'holdfast_runs_finished_total',
      help: 'Runs that reached a terminal state.',
      labelNames: ['state', 'tool_class', 'error'],
      registers,
    });
    // A series that starts at zero lets rate() see its first event.
    for (const tool_class of TOOL_CLASSES) counter.inc({ state: 'succeeded', tool_class, error: 'none' }, 0);
    for (const error of ALERTING_ERRORS) counter.inc({ state: 'failed', tool_class: 'write', error }, 0);
    return counter;
  });

  const executeSeconds = once(
    () =>
      new Histogram({
        name: 'holdfast_run_execute_seconds',
        help: 'Time from the start of the last attempt of a run to its end.',
        buckets: BUCKETS,
        registers,
      }),
  );

  function runFinished({ state, toolClass, error, executeSeconds: seconds }: RunEnded): void {
    finished().inc({
      state: within(STATES, state),
      tool_class: within(TOOL_CLASSES, toolClass),
      error: error === undefined ? 'none' : within(ERRORS, error),
    });
    if (seconds !== undefined) observe(executeSeconds(), seconds);
  }

  const gateway = once((): GatewayMetrics => {
    const submitted = new Counter({
      name: 'holdfast_runs_submitted_total',
      help: 'Calls accepted as runs; reattached ones joined a run that was there.',
      labelNames: ['tool_class', 'reattached'],
      registers,
    });
    for (const tool_class of TOOL_CLASSES) {
      for (const reattached of ['true', 'false']) submitted.inc({ tool_class, reattached }, 0);
    }
    const refused = new Counter({
      name: 'holdfast_refused_total',
      help: 'Requests of hosts that were refused before they were served, by reason.',
      labelNames: ['reason'],
      registers,
    });
    for (const reason of REFUSALS) refused.inc({ reason }, 0);
    const waiting = new Gauge({
      name: 'holdfast_calls_waiting',
      help: 'Calls of hosts that wait for their answer at this gateway.',
      registers,
    });
    const callSeconds = new Histogram({
      name: 'holdfast_call_seconds',
      help: 'Time from a call of a host to its answer.',
      labelNames: ['outcome'],
      buckets: BUCKETS,
      registers,
    });
    callSeconds.zero({ outcome: 'unknown' satisfies CallOutcome });
    finished();
    return {
      refused: (reason) => refused.inc({ reason: within(REFUSALS, reason) }),
      runSubmitted: ({ toolClass, reattached }) =>
        submitted.inc({
          tool_class: within(TOOL_CLASSES, toolClass),
          reattached: reattached ? 'true' : 'false',
        }),
      runFinished,
      callStarted: () => waiting.inc(),
      callFinished({ outcome, seconds }) {
        waiting.dec();
        observe(callSeconds.labels(within(OUTCOMES, outcome)), seconds);
      },
    };
  });

  const worker = once((): WorkerMetrics => {
    const queueSeconds = new Histogram({
      name: 'holdfast_run_queue_seconds',
      help: 'Time from the submission of a run to its first claim.',
      buckets: BUCKETS,
      registers,
    });
    const leaseLost = new Counter({
      name: 'holdfast_lease_lost_total',
      help: 'Leases of workers that ran out while they worked; other workers took over their runs.',
      registers,
    });
    finished();
    executeSeconds();
    return {
      claimed: (seconds) => observe(queueSeconds, seconds),
      finished: runFinished,
      leaseLost: () => leaseLost.inc(),
    };
  });

  const connector = once((): ConnectorMetrics => {
    const calls = new Counter({
      name: 'holdfast_upstream_calls_total',
      help: 'Calls of upstream servers, by how far they got.',
      labelNames: ['server', 'outcome'],
      registers,
    });
    const callSeconds = new Histogram({
      name: 'holdfast_upstream_call_seconds',
      help: 'Time from a call at the connector to its outcome, its wait for a turn included.',
      labelNames: ['server'],
      buckets: BUCKETS,
      registers,
    });
    // A settings file that is generated may bring new names for as long as the process lives (F196).
    const known = new Set<string>();
    const nameOf = (server: string): string => {
      if (known.size < MAX_SERVERS) known.add(server);
      return within(known, server);
    };
    const connected = new Gauge({
      name: 'holdfast_upstream_connected',
      help: 'Whether a server that this connector owns is connected.',
      labelNames: ['server'],
      registers,
    });
    return {
      called({ server, outcome, seconds }) {
        calls.inc({ server: nameOf(server), outcome: within(OUTCOMES, outcome) });
        observe(callSeconds.labels(nameOf(server)), seconds);
      },
      connected(server, isConnected) {
        const name = nameOf(server);
        if (isConnected === undefined) {
          connected.remove(name);
          // What others share is not only its own.
          if (name === OTHER) return;
          callSeconds.remove(name);
          for (const outcome of OUTCOMES) calls.remove({ server: name, outcome });
          known.delete(server);
          return;
        }
        connected.set({ server: name }, isConnected ? 1 : 0);
        calls.inc({ server: name, outcome: 'unknown' satisfies CallOutcome }, 0);
      },
    };
  });

  /** A gauge that is asked for at each scrape and has no sample when there is no answer. */
  function asked(name: string, help: string, answer: () => Promise<number | undefined>): void {
    new Gauge({
      name,
      help,
      registers,
      async collect() {
        const value = await answer();
        if (value !== undefined && Number.isFinite(value)) this.set(value);
        else this.remove();
      },
    });
  }

  return {
    gateway,
    worker,
    connector,
    queue(ask) {
      const depth = shared(() => answerOf(ask, askTimeoutMs));
      asked(
        'holdfast_runs_queued',
        'Runs that wait for a worker, store-wide: aggregate with max(), not sum().',
        async () => (await depth())?.queued,
      );
      asked(
        'holdfast_queue_age_seconds',
        'How long the oldest queued run waits, store-wide: aggregate with max(), not sum().',
        async () => {
          const answer = await depth();
          const sinceMs = answer?.oldest === undefined ? 0 : clock().getTime() - answer.oldest.getTime();
          return answer && Math.max(0, sinceMs) / 1000;
        },
      );
    },
    sessions(ask) {
      asked('holdfast_sessions', 'Open sessions, store-wide: aggregate with max(), not sum().', () =>
        answerOf(ask, askTimeoutMs),
      );
    },
    render: async () => ({ contentType: registry.contentType, body: await registry.metrics() }),
  };
}

function within(closed: ReadonlySet<string>, value: string): string {
  return closed.has(value) ? value : OTHER;
}

/** Two clocks may disagree by a little; a negative time is none. */
function observe(histogram: { observe(seconds: number): void }, seconds: number): void {
  if (Number.isFinite(seconds)) histogram.observe(Math.max(0, seconds));
}

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

/** Callers that come while an answer is on its way get that one. */
function shared<T>(ask: () => Promise<T>): () => Promise<T> {
  let pending: Promise<T> | undefined;
  return () => (pending ??= ask().finally(() => (pending = undefined)));
}

/** The answer, or undefined when it fails or does not come in time. */
async function answerOf<T>(ask: Ask<T>, timeoutMs: number): Promise<T | undefined> {
  const timeout = new AbortController();
  const { promise: late, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => {
    timeout.abort();
    resolve(undefined);
  }, timeoutMs);
  try {
    return await Promise.race([ask(timeout.signal), late]);
  } catch {
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}
