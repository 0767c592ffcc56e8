export { aborted } from './aborted.js';
export {
  ConnectionFault,
  naming,
  type Connection,
  type OutgoingCall,
  type SendOptions,
  type Sent,
} from './connection.js';
export { isPrivateName, isReservedName, type Environment } from './environment.js';
export type { Era } from './era.js';
export type { GuardSettings } from './http/address-guard.js';
export { connectHttp } from './http/http-connection.js';
export { connectLegacySse } from './http/legacy-sse-connection.js';
export { ChildGuard } from './stdio/child-guard.js';
export { hideEnvironment } from './stdio/hide-environment.js';
export { connectStdio } from './stdio/stdio-connection.js';
export type { StdioSettings } from './stdio/stdio-settings.js';
