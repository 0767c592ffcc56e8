export {
  toolModules,
  workerRules,
  workerSettings,
  workingSettings,
  type WorkingSettings,
} from './settings.js';
