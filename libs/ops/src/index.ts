export { CONFIG_EXIT_CODE, ConfigError, reportConfigError, type ConfigProblem } from './config-error.js';
export { maskSecrets } from './mask.js';
export { setting, type Setting, type SettingDocs } from './setting.js';
export {
  readSettings,
  rule,
  type Environment,
  type SettingsOf,
  type SettingsRule,
  type SettingsSpec,
} from './settings.js';
export { describeSettings, markdownTable, type SettingRow } from './settings-table.js';
export { unknownVariables, type UnknownVariable } from './unknown-variables.js';
export { createLogger, logLevels, type Log, type LogFields, type LogLevel, type LogOptions } from './log.js';
export { loggable } from './loggable.js';
export { onceEvery, type RepeatedFault } from './repeated-fault.js';
export {
  createMetrics,
  type Ask,
  type CallOutcome,
  type GatewayMetrics,
  type Metrics,
  type QueueDepth,
  type RunEnded,
  type WorkerMetrics,
} from './metrics.js';
export { createHealth, type Condition, type Health, type HealthAnswer } from './health.js';
export {
  crashOnUnhandled,
  runUntilSignal,
  type ProcessLike,
  type RunOptions,
  type Running,
} from './shutdown.js';
export { opsRoutes, type OpsRoutes } from './ops-routes.js';
export { listenHost, opsSettings, ownStore, serviceSettings, sharedStore } from './service-settings.js';
export { serveOps, type OpsServer } from './ops-server.js';
export { startOrExit } from './start.js';
export { storeReadiness } from './store-readiness.js';
export { knownVariables } from './known-variables.js';
