import { randomUUID } from 'node:crypto';
import { diag, DiagLogLevel } from '@opentelemetry/api';
import { onceEvery, systemClock, type Log } from '@holdfast/run';
import type { Environment } from './settings.js';

/** The export of traces of one process. */
export interface Tracing {
  /** Sends what is left, for a few seconds at most. Safe twice, and where nothing is exported. */
  stop(): Promise<void>;
}

/** Within the grace of a stop, which a collector that hangs must not use up. */
const flushMs = 3_000;
const longestMessage = 300;

/**
 * Whether the standard variables ask for traces: they name a collector, or an exporter. Those that only describe
 * the service (`OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`) are often set for every pod of a cluster.
 */
export function tracesAreWanted(env: Environment): boolean {
  if (env['OTEL_SDK_DISABLED']?.trim().toLowerCase() === 'true') return false;
  const exporter = env['OTEL_TRACES_EXPORTER']?.trim() ?? '';
  if (exporter !== '') return exporter !== 'none';
  return ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_CONFIG_FILE'].some(
    (name) => !isEmpty(env[name]),
  );
}

const isEmpty = (value: string | undefined): boolean => (value?.trim() ?? '') === '';

/** What traces say of the service, where the operator says nothing else. */
function attributesOf(env: Environment, name: string, version: string): Record<string, string> {
  const given = (env['OTEL_RESOURCE_ATTRIBUTES'] ?? '')
    .split(',')
    .map((pair) => pair.split('=', 1)[0]!.trim());
  const serviceName = env['OTEL_SERVICE_NAME']?.trim() ?? '';
  const attributes = {
    'service.name': `holdfast-${name}`,
    'service.version': version,
    'service.instance.id': randomUUID(),
  };
  const own = Object.entries(attributes).filter(([key]) => !given.includes(key));
  return { ...Object.fromEntries(own), ...(serviceName !== '' && { 'service.name': serviceName }) };
}

/**
 * Exports traces as the standard `OTEL_*` variables of this process say. Without them nothing of the SDK is
 * loaded, which takes some 150 ms and 30 MB, and spans record nothing.
 *
 * Traces only: metrics are scraped, and logs are written to stdout. What is known of the process without being
 * asked for, its command line above all, is not told. A collector that is not there costs spans, never a call.
 */
export async function startTracing(
  env: Environment,
  { name, version, log }: { readonly name: string; readonly version: string; readonly log: Log },
): Promise<Tracing> {
  if (!tracesAreWanted(env)) return { stop: async () => {} };
  const { startNodeSdk } = await import('@opentelemetry/sdk-node');
  const sdk = startNodeSdk({
    logLevel: 'warn',
    metricReaders: [],
    logRecordProcessors: [],
    // We carry the context ourselves, in `_meta` and with the run.
    propagators: [],
    ...(isEmpty(env['OTEL_NODE_RESOURCE_DETECTORS']) && { resourceDetectors: [] }),
    resourceAttributes: attributesOf(env, name, version),
  });
  const lost = onceEvery(log, 60_000, systemClock);
  // The first may be the name of a part of the SDK; objects among them may hold what a collector answered.
  const report = (...said: unknown[]): void => {
    const reason = said.filter((part) => typeof part !== 'object' || part instanceof Error).join(': ');
    lost.report({ reason: reason.slice(0, longestMessage) }, 'trouble with the export of traces');
  };
  diag.setLogger(
    { error: report, warn: report, info: () => {}, debug: () => {}, verbose: () => {} },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
  log.info({}, 'traces are exported');
  let stopped: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, flushMs);
    await Promise.race([sdk.shutdown().catch(report), late]);
    clearTimeout(timer);
  };
  return { stop: () => (stopped ??= stop()) };
}
