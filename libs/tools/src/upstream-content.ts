import { isInexactNumber, writeJson } from '@holdfast/run';
import type { ContentBlock } from './content.js';
import { isDeeperThan } from './nesting.js';
import { isSchema } from './schema-walk.js';

/** Reports one flaw, path first, in words that quote nothing of what came. */
export type Tell = (flaw: string) => void;

type Fields = Readonly<Record<string, unknown>>;

/** Blocks are walked by recursion. */
export const maxDepth = 200;

/**
 * Reads the blocks of an upstream's result, one by one and as tolerantly as their meaning allows: null
 * is absent, a hint that is not valid is dropped, and a block that no host can take is replaced
 * by a text that says what can be said of it. Everything else stays, unknown fields and unknown types of
 * blocks included.
 */
export function readContent(raw: unknown, tell: Tell): ContentBlock[] {
  if (raw === undefined || raw === null) return [];
  if (!Array.isArray(raw)) tell('content is not an array');
  const blocks: readonly unknown[] = Array.isArray(raw) ? raw : [raw];
  return blocks.flatMap((block, i) =>
    block === undefined || block === null ? [] : [readBlock(block, (flaw) => tell(`content[${i}]${flaw}`))],
  );
}

/** An object of JSON. A number that was kept for its digits is an object to JavaScript only. */
export function isFields(value: unknown): value is Fields {
  return isSchema(value) && !isInexactNumber(value);
}

/** `_meta` as an object; anything else is dropped. */
export function readMeta(raw: unknown, tell: Tell): Fields | undefined {
  if (isFields(raw)) return raw;
  if (raw !== undefined && raw !== null) tell('_meta is not an object');
  return undefined;
}

/** Icons as every host takes them; undefined when none is left. */
export function readIcons(raw: unknown, tell: Tell): readonly Fields[] | undefined {
  if (raw === undefined || raw === null) return undefined;
  const given: readonly unknown[] = Array.isArray(raw) ? raw : [raw];
  const icons = given.filter(isFields).filter(({ src }) => typeof src === 'string');
  if (!Array.isArray(raw) || icons.length < raw.length) tell('icons are not all icons');
  const read = icons.map((icon) => {
    const { sizes } = icon;
    const listed = typeof sizes === 'string' ? { ...icon, sizes: sizes.split(/\s+/) } : icon;
    return kept(listed, hintsOfIcon, tell, 'icons');
  });
  if (read.length === given.length && read.every((icon, i) => icon === given[i])) return given as Fields[];
  return read.length > 0 ? read : undefined;
}

export function textBlock(text: string): ContentBlock {
  return { type: 'text', text };
}

/** What can be said of a block to whoever cannot take it (BEHAVIOURS 98). */
export function placeholder(block: ContentBlock): string {
  switch (block.type) {
    case 'image':
    case 'audio':
      return `[${block.type}: ${wordOr(block['mimeType'], 'of an unknown type')}]`;
    case 'resource_link':
      return `[resource link: ${wordOr(block['uri'], wordOr(block['name'], 'without a URI'))}]`;
    case 'resource': {
      const resource = isFields(block['resource']) ? block['resource'] : {};
      const uri = wordOr(resource['uri'], 'without a URI');
      const { mimeType } = resource;
      return typeof mimeType === 'string' ? `[resource: ${uri} (${mimeType})]` : `[resource: ${uri}]`;
    }
    default:
      return `[${block.type}]`;
  }
}

function readBlock(raw: unknown, tell: Tell): ContentBlock {
  const type = isFields(raw) ? raw['type'] : undefined;
  if (isDeeperThan(raw, maxDepth)) {
    tell(` is nested deeper than ${maxDepth} levels`);
    return textBlock(`[${wordOr(type, 'block').slice(0, 64)}: nested deeper than ${maxDepth} levels]`);
  }
  if (!isFields(raw)) {
    tell(' is not an object');
    return textBlock(asText(raw));
  }
  if (typeof type !== 'string') {
    tell('.type is not a string');
    return typeof raw['text'] === 'string'
      ? readBlock({ ...raw, type: 'text' }, tell)
      : textBlock(asText(raw));
  }
  if (!Object.hasOwn(readers, type)) return raw as ContentBlock;
  const { annotations, _meta, ...rest } = raw;
  const hints = readAnnotations(annotations, tell);
  const meta = readMeta(_meta, (flaw) => tell(`.${flaw}`));
  const block = { ...rest, ...(hints && { annotations: hints }), ...(meta && { _meta: meta }) };
  const read = readers[type as keyof typeof readers](block as unknown as ContentBlock, tell);
  return sameFields(raw, read) ? (raw as ContentBlock) : read;
}

/** Reading adds, drops and replaces whole fields, so one that is the same object is unchanged. */
function sameFields(raw: Fields, read: ContentBlock): boolean {
  return (
    Object.keys(raw).length === Object.keys(read).length &&
    Object.keys(raw).every((key) => raw[key] === read[key])
  );
}

const readers = {
  text: readText,
  image: readMedia,
  audio: readMedia,
  resource_link: readLink,
  resource: readResource,
};

function readText(block: ContentBlock, tell: Tell): ContentBlock {
  const { text } = block;
  if (typeof text === 'string') return block;
  tell('.text is not a string');
  return text === undefined || text === null
    ? textBlock('[text block without text]')
    : { ...block, text: asText(text) };
}

function readMedia(block: ContentBlock, tell: Tell): ContentBlock {
  const read = readBytes(block['data']);
  const mimeType = typeof block['mimeType'] === 'string' ? block['mimeType'] : read?.mimeType;
  if (read !== undefined && mimeType !== undefined) {
    if (read.isRewritten) tell('.data is not plain base64');
    if (mimeType !== block['mimeType']) tell('.mimeType is not a string');
    return { ...block, data: read.base64, mimeType };
  }
  const problem = read === undefined ? 'its data is not base64' : `${bytesIn(read.base64)} bytes`;
  tell(read === undefined ? '.data is not base64' : '.mimeType is not a string');
  const words = placeholder({ type: block.type, ...(mimeType !== undefined && { mimeType }) });
  return textBlock(`${words.slice(0, -1)}; ${problem}]`);
}

function readLink(block: ContentBlock, tell: Tell): ContentBlock {
  const { uri, name, title } = block;
  if (typeof uri !== 'string') {
    tell('.uri is not a string');
    return textBlock(placeholder(block));
  }
  if (typeof name !== 'string') tell('.name is not a string');
  const known = typeof name === 'number' ? String(name) : wordOr(title, uri);
  const icons = readIcons(block['icons'], (flaw) => tell(`.${flaw}`));
  return {
    ...(kept(without(block, ['icons']), hintsOfLink, tell, '') as ContentBlock),
    name: typeof name === 'string' ? name : known,
    ...(icons && { icons }),
  };
}

function readResource(block: ContentBlock, tell: Tell): ContentBlock {
  const { resource } = block;
  if (!isFields(resource)) {
    tell('.resource is not an object');
    return textBlock(typeof resource === 'string' ? resource : placeholder(block));
  }
  const { text, blob, _meta, ...rest } = resource;
  const meta = readMeta(_meta, (flaw) => tell(`.resource.${flaw}`));
  const frame = { ...kept(rest, hintsOfContents, tell, '.resource'), ...(meta && { _meta: meta }) };
  const words = text === undefined || text === null ? undefined : asText(text);
  const read = words === undefined ? readBytes(blob) : undefined;
  if (typeof resource['uri'] === 'string' && (words !== undefined || read !== undefined)) {
    if (words !== undefined && typeof text !== 'string') tell('.resource.text is not a string');
    if (read?.isRewritten === true) tell('.resource.blob is not plain base64');
    const contents = { ...frame, ...(words === undefined ? { blob: read!.base64 } : { text: words }) };
    return sameFields(resource, contents as unknown as ContentBlock)
      ? block
      : { ...block, resource: contents };
  }
  tell(
    typeof resource['uri'] === 'string'
      ? '.resource has no text and no blob of base64'
      : '.resource.uri is not a string',
  );
  return textBlock(words ?? placeholder(block));
}

const audiences: readonly unknown[] = ['user', 'assistant'];

function readAnnotations(raw: unknown, tell: Tell): Fields | undefined {
  if (raw === undefined || raw === null) return undefined;
  if (!isFields(raw)) {
    tell('.annotations is not an object');
    return undefined;
  }
  const { audience } = raw;
  const given: readonly unknown[] = Array.isArray(audience) ? audience : [audience];
  const known = given.filter((one) => audiences.includes(one));
  if (Array.isArray(audience) && known.length === audience.length)
    return kept(raw, hintsOfBlock, tell, '.annotations');
  // A block that is meant for nobody whom we know is not one that is meant for nobody.
  if (audience !== undefined && audience !== null) tell('.annotations.audience is not valid');
  return {
    ...kept(without(raw, ['audience']), hintsOfBlock, tell, '.annotations'),
    ...(known.length > 0 && { audience: known }),
  };
}

type Validity = Readonly<Record<string, (value: unknown) => boolean>>;

const isText = (value: unknown): boolean => typeof value === 'string';
const isShare = (value: unknown): boolean => typeof value === 'number' && value >= 0 && value <= 1;
const isCount = (value: unknown): boolean => typeof value === 'number' || isInexactNumber(value);
const hintsOfBlock: Validity = {
  priority: (value) => isShare(isInexactNumber(value) ? Number(value.rawJSON) : value),
  lastModified: isText,
};
const hintsOfLink: Validity = { title: isText, description: isText, mimeType: isText, size: isCount };
const hintsOfContents: Validity = { mimeType: isText };
const hintsOfIcon: Validity = {
  mimeType: isText,
  sizes: (value) => Array.isArray(value) && value.every(isText),
  theme: (value) => value === 'light' || value === 'dark',
};

/** The fields without the hints that are not valid; the very same object when all are. */
function kept(fields: Fields, valid: Validity, tell: Tell, at: string): Fields {
  const dropped = Object.keys(valid).filter((key) => Object.hasOwn(fields, key) && !valid[key]!(fields[key]));
  if (dropped.length === 0) return fields;
  for (const key of dropped)
    if (fields[key] !== null && fields[key] !== undefined) tell(`${at}.${key} is not valid`);
  return without(fields, dropped);
}

function without(fields: Fields, keys: readonly string[]): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([key]) => !keys.includes(key)));
}

interface Bytes {
  readonly base64: string;
  /** What a `data:` URL says of them. */
  readonly mimeType?: string;
  readonly isRewritten: boolean;
}

/** Bytes as base64 that every decoder takes: a `data:` URL is opened, the URL-safe alphabet replaced. Line breaks stay. */
function readBytes(raw: unknown): Bytes | undefined {
  if (typeof raw !== 'string') return undefined;
  const url = /^data:([^,;]*)([^,]*),/i.exec(raw.slice(0, 1024));
  if (url === null) {
    const plain = plainBase64(raw);
    if (plain === undefined) return undefined;
    // Without padding it stays as it came: every decoder of hosts takes that (F39).
    return /[_-]/.test(raw) ? { base64: plain.text, isRewritten: true } : { base64: raw, isRewritten: false };
  }
  const body = decoded(raw.slice(url[0].length));
  if (body === undefined) return undefined;
  const text = /;base64$/i.test(url[2]!) ? plainBase64(body)?.text : Buffer.from(body).toString('base64');
  if (text === undefined) return undefined;
  return { base64: text, isRewritten: true, ...(url[1] !== '' && { mimeType: url[1]! }) };
}

function plainBase64(text: string): { readonly text: string } | undefined {
  if (!/^[A-Za-z0-9+/_=\s-]*$/.test(text)) return undefined;
  const digits = text.replace(/\s+/g, '').replace(/=+$/, '');
  if (digits.includes('=') || digits.length % 4 === 1) return undefined;
  const whole = digits
    .replaceAll('-', '+')
    .replaceAll('_', '/')
    .padEnd(Math.ceil(digits.length / 4) * 4, '=');
  return { text: whole === text.replace(/\s+/g, '') ? text : whole };
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

function bytesIn(base64: string): number {
  return Buffer.byteLength(base64, 'base64');
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : writeJson(value)!;
}

function wordOr(value: unknown, otherwise: string): string {
  return typeof value === 'string' && value !== '' ? value : otherwise;
}
