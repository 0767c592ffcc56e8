export { ChildGuard } from './stdio/child-guard.js';
export { Connector, NotOwner } from './connector.js';
export type { Diagnostic } from './diagnostic.js';
export { connectionOpener } from './open-connection.js';
export { watchServersFile } from './servers-file.js';
