import { writeJson } from '@holdfast/run';
import { cutToBytes, cutToCodePoints } from './cut-text.js';
import { isDeeperThan } from './nesting.js';
import { isFields } from './upstream-content.js';

/** Bytes of the `data` of an upstream's error that are kept; what is longer becomes a text that is cut. */
const maxDataBytes = 8 * 1024;
const maxDataDepth = 32;
/** Code points of it in the text of the error, which is all that models read. */
const maxShown = 500;
const maxUrls = 3;
const maxUrlLength = 2_048;

export interface ErrorData {
  /** For programs; undefined where the error has none. */
  readonly data?: unknown;
  /** For models and people; empty where the error has none. */
  readonly text: string;
}

/** The `data` of a JSON-RPC error, bounded. Of one that asks for URLs to be opened (-32042) the text names these. */
export function readErrorData(raw: unknown): ErrorData {
  if (raw === undefined || raw === null) return { text: '' };
  if (isDeeperThan(raw, maxDataDepth))
    return { text: `its data is nested deeper than ${maxDataDepth} levels` };
  const json = writeJson(raw)!;
  const words = typeof raw === 'string' ? raw : json;
  const data = Buffer.byteLength(json) <= maxDataBytes ? raw : cutToBytes(words, maxDataBytes - 2);
  const urls = urlsIn(raw);
  return { data, text: urls.length > 0 ? `open ${urls.join(' and ')}` : cutToCodePoints(words, maxShown) };
}

function urlsIn(raw: unknown): string[] {
  const elicitations = isFields(raw) && Array.isArray(raw['elicitations']) ? raw['elicitations'] : [];
  return elicitations
    .map((one) => (isFields(one) ? one['url'] : undefined))
    .filter((url): url is string => typeof url === 'string' && url.length <= maxUrlLength)
    .slice(0, maxUrls);
}
