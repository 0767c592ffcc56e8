import type { ServiceLog } from '@holdfast/run';
import { createHealth, type Health } from './health.js';
import { knownVariables } from './known-variables.js';
import { createLogger, type LogLevel, type LogOptions } from './log.js';
import { createMetrics, type Metrics } from './metrics.js';
import type { Setting } from './setting.js';
import {
  readSettings,
  type Environment,
  type SettingsOf,
  type SettingsRule,
  type SettingsSpec,
} from './settings.js';
import { crashOnUnhandled } from './shutdown.js';
import { storeReadiness, type StoreReadiness } from './store-readiness.js';
import { startTracing, type Tracing } from './tracing.js';
import { unknownVariables } from './unknown-variables.js';

/** What every service has before it does anything. */
export interface Service<S extends SettingsSpec> {
  readonly settings: SettingsOf<S>;
  readonly log: ServiceLog;
  readonly health: Health;
  readonly metrics: Metrics;
  readonly readiness: StoreReadiness;
  readonly tracing: Tracing;
}

export type ServiceOptions = Pick<LogOptions, 'name' | 'destination'> & {
  readonly version: string;
  readonly rules?: readonly SettingsRule[];
};

/** Reads the settings and sets up what tells of a service. @throws ConfigError listing every problem */
export async function beginService<S extends SettingsSpec & { readonly logLevel: Setting<LogLevel> }>(
  spec: S,
  env: Environment,
  { name, destination, version, rules = [] }: ServiceOptions,
): Promise<Service<S>> {
  const settings = readSettings(spec, env, rules);
  const log = createLogger({
    level: settings.logLevel as LogLevel,
    name,
    ...(destination && { destination }),
  });
  crashOnUnhandled({ log });
  for (const { variable, message } of unknownVariables(env, knownVariables)) log.warn({ variable }, message);
  const tracing = await startTracing(env, { name, version, log });
  const health = createHealth();
  return { settings, log, health, metrics: createMetrics(), readiness: storeReadiness(health, log), tracing };
}
