export { loadTools } from './load-tools.js';
export { resolveOurPackagesEverywhere } from './our-packages.js';
export {
  toolModules,
  workerRules,
  workerSettings,
  workingSettings,
  type WorkingSettings,
} from './settings.js';
export type { Upstreams } from './upstreams.js';
export { Worker, type WorkerObserver, type WorkerParts, type WorkerSettings } from './worker.js';
