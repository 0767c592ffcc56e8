export { workerSettings, workingSettings, type WorkingSettings } from './settings.js';
