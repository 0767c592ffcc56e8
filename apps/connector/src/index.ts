export { Connecting, type ConnectingParts } from './connecting.js';
export { connectingSettings, connectorSettings, stdioOn, type ConnectingSettings } from './settings.js';
