export { Connecting, type ConnectingParts } from './connecting.js';
export { Connector, NotOwner } from './connector.js';
export {
  connectingSettings,
  connectorRules,
  connectorSettings,
  stdioOn,
  type ConnectingSettings,
} from './settings.js';
export { watchServersFile } from './servers-file.js';
