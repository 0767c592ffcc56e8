export { Connecting, type ConnectingParts } from './connecting.js';
export {
  connectingSettings,
  connectorRules,
  connectorSettings,
  stdioOn,
  type ConnectingSettings,
} from './settings.js';
