export { Gateway, type GatewayParts } from './gateway.js';
export { serveGateway, type GatewayServer } from './http-server.js';
export {
  gatewaySettings,
  isApiOpen,
  servingRules,
  servingSettings,
  type ServingSettings,
} from './settings.js';
