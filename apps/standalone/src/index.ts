export { standaloneSettings } from './settings.js';
