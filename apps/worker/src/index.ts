export { workingSettings, type WorkingSettings } from './settings.js';
