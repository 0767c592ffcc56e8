export type {
  Catalogue,
  Claim,
  ClaimKey,
  ClaimPool,
  ClaimRequest,
  LeaseHolder,
  LiveWorker,
  News,
  Repeat,
  RunFilter,
  RunStore,
  ServerOwner,
  ServerStore,
  Session,
  SessionLimits,
  SessionStore,
  Signal,
  Store,
  Submission,
  ToolStore,
  UnreadableRow,
  Watched,
  WorkerStore,
} from './contract.js';
export { hasCallerAtShare } from './fair-share.js';
export { keepRetention, type RetentionSettings } from './retention.js';
export { isShared, storeName } from './store-url.js';
export { openStore, whenThere, type OpenOptions } from './open-store.js';
