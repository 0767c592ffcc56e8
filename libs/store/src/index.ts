export type {
  Catalogue,
  Claim,
  ClaimKey,
  ClaimRequest,
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
  Watched,
  WorkerStore,
} from './contract.js';
export { keepRetention, type RetentionSettings } from './retention.js';
export { isShared, storeName } from './store-url.js';
export { openStore, whenThere, type OpenOptions } from './open-store.js';
