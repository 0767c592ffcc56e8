export { ByteLines, type LineTaker } from './byte-lines.js';
export { codes } from './codes.js';
export { legacyVersions, metaKeys, modernVersion } from './versions.js';
