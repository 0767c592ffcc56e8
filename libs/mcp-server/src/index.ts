export {
  authenticate,
  authRefusals,
  challengeTo,
  firstToAccept,
  keyAuth,
  openToAll,
  openWithoutCredential,
  type AuthProvider,
  type Verdict,
} from './auth.js';
export { jwtAlgorithms, jwtAuth, type JwtSettings } from './auth-jwt.js';
export { moduleAuth } from './auth-module.js';
export { cancelRun } from './cancel-run.js';
export type { HookRequest, IdentityHooks } from './call.js';
export { McpEndpoint, type McpParts, type McpSettings } from './endpoint.js';
export {
  hostProblem,
  isAllowedHost,
  isAllowedOrigin,
  loopbackHosts,
  originProblem,
  type OriginRules,
} from './http.js';
export type { CallObserver } from './observer.js';
export { Refusals, type RefusalReason } from './refusals.js';
export { serveHostOverStdio } from './stdio.js';
export { McpUnavailable } from './wire-errors.js';
