export type {
  Catalogue,
  Claim,
  ClaimKey,
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
export { keepRetention, type RetentionSettings } from './retention.js';
export { isShared, storeName } from './store-url.js';
export { openStore, whenThere, type OpenOptions } from './open-store.js';
