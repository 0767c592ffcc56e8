export { ConnectorClient, type ConnectorClientParts } from './connector-client.js';
export { hasToken, serverCredentials, type RpcSecurity, type TlsFiles } from './credentials.js';
export {
  fromCallMessage,
  heartbeatEvent,
  heartbeatMs,
  loaderOptions,
  maxMessageBytes,
  outcomeEvent,
  progressEvent,
  protoPackage,
  protoPath,
  rpcAttributes,
  rpcMethod,
  serviceName,
  type CallMessage,
  type EventMessage,
} from './wire.js';
