import { parseKeyMap } from './key-map.js';
import { maskSecrets } from './mask.js';
import type { Parsed } from './parsed.js';

/** One documented variable that reads as a `T`. Build one with `setting`. */
export interface Setting<T> {
  readonly variable: string;
  readonly about: string;
  /** The values it takes, for people: `whole number of milliseconds, at least 100`. */
  readonly accepts: string;
  /** As it would be written, or a phrase such as `as HOLDFAST_HOST`; undefined when there is none. */
  readonly defaultText: string | undefined;
  readonly special: Readonly<Record<string, string>>;
  readonly required: boolean;
  readonly secret: boolean;
  readonly example: string | undefined;
  readonly fallback: T | undefined;
  parse(text: string): Parsed<T>;
}

/** The documentation every setting carries; docs/configuration.md is made from it. */
export interface SettingDocs {
  /** What it means, in a phrase. */
  readonly about: string;
  /** Shown as the default where that is no constant: `as HOLDFAST_HOST`, `made once`. */
  readonly defaultText?: string;
  /** Values with a meaning of their own. A number listed here is allowed outside the bounds. */
  readonly special?: Readonly<Record<string, string>>;
  /** A value that works, named when the setting is missing. */
  readonly example?: string;
}

interface Given<T> {
  readonly default: T;
}
interface Needed {
  readonly required: true;
}
type Options<T> = SettingDocs & Partial<Given<T> & Needed>;

/** With a default, or required, a setting always has a value; otherwise it may be undefined. */
interface Kind<T, More = unknown> {
  (variable: string, options: SettingDocs & More & Given<T>): Setting<T>;
  (variable: string, options: SettingDocs & More & Needed): Setting<T>;
  (variable: string, options: SettingDocs & More): Setting<T | undefined>;
}

interface Choice {
  <const V extends string>(
    variable: string,
    values: readonly V[],
    options: SettingDocs & (Given<NoInfer<V>> | Needed),
  ): Setting<V>;
  <const V extends string>(
    variable: string,
    values: readonly V[],
    options: SettingDocs,
  ): Setting<V | undefined>;
}

interface Choices {
  <const V extends string>(
    variable: string,
    values: readonly V[],
    options: SettingDocs & (Given<readonly NoInfer<V>[]> | Needed),
  ): Setting<readonly V[]>;
  <const V extends string>(
    variable: string,
    values: readonly V[],
    options: SettingDocs,
  ): Setting<readonly V[] | undefined>;
}

interface Bounds {
  readonly min?: number;
  readonly max?: number;
}

interface TextRules {
  /** Never echoed, and marked in the documentation. */
  readonly secret?: boolean;
  /** Completes "HOLDFAST_X: …" with what is wrong and the remedy; undefined when nothing is. */
  readonly check?: (text: string) => string | undefined;
}

/** Node's timers fire at once when asked for more milliseconds than this (24.8 days). */
const LONGEST_TIMER_MS = 2_147_483_647;

const string: Kind<string, TextRules> = (variable: string, options: Options<string> & TextRules) =>
  define<string>(variable, options, {
    accepts: 'text',
    secret: options.secret,
    show: code,
    parse(text) {
      const wrong = /\p{Cc}/u.test(text) ? 'has control characters; remove them' : options.check?.(text);
      return wrong === undefined ? { value: text } : { wrong: [wrong] };
    },
  });

const integer: Kind<number, Bounds> = (variable: string, options: Options<number> & Bounds) =>
  whole(variable, options, 'whole number');

const duration: Kind<number, Bounds> = (variable: string, options: Options<number> & Bounds) =>
  whole(variable, { min: 0, max: LONGEST_TIMER_MS, ...options }, 'whole number of milliseconds');

const bytes: Kind<number, Bounds> = (variable: string, options: Options<number> & Bounds) =>
  whole(variable, { min: 0, ...options }, 'whole number of bytes');

const boolean: Kind<boolean> = (variable: string, options: Options<boolean>) =>
  define<boolean>(variable, options, {
    accepts: '`true` or `false`',
    show: code,
    parse(text) {
      const word = text.toLowerCase();
      if (['true', '1', 'yes'].includes(word)) return { value: true };
      if (['false', '0', 'no'].includes(word)) return { value: false };
      return { wrong: [`must be true or false (1, yes, 0 and no do as well), not ${quote(text)}`] };
    },
  });

/** An absolute URL without user-info; `protocols` as in `URL.protocol`, http and https when omitted. */
const url: Kind<string, { readonly protocols?: readonly string[] }> = (
  variable: string,
  {
    protocols = ['https:', 'http:'],
    ...options
  }: Options<string> & { readonly protocols?: readonly string[] },
) =>
  define<string>(variable, options, {
    accepts: `URL (${protocols.map((protocol) => code(protocol)).join(', ')})`,
    show: code,
    parse(text) {
      const parsed = URL.parse(text);
      if (parsed === null || !protocols.includes(parsed.protocol)) {
        const starts = protocols.map((protocol) => `${protocol}//`).join(' or ');
        return { wrong: [`must be a URL starting with ${starts}, not ${quote(text)}`] };
      }
      if (parsed.username !== '' || parsed.password !== '') {
        return { wrong: ['must not carry a user name or a password; take them out of the URL'] };
      }
      return { value: text };
    },
  });

const oneOf: Choice = <V extends string>(variable: string, values: readonly V[], options: Options<V>) =>
  define<V>(variable, options, {
    accepts: values.map(code).join(', '),
    show: code,
    parse(text) {
      const value = values.find((each) => each === text);
      return value === undefined
        ? { wrong: [`must be one of ${either(values)}, not ${quote(text)}`] }
        : { value };
    },
  });

/** Text between commas; blank entries are dropped. */
const list: Kind<readonly string[], TextRules> = (
  variable: string,
  options: Options<readonly string[]> & TextRules,
) =>
  define(variable, options, {
    accepts: 'comma list',
    secret: options.secret,
    show: (values) => (values.length === 0 ? 'none' : code(values.join(','))),
    parse(text) {
      const values = split(text);
      if (values.length === 0) return { wrong: ['holds only commas; name a value, or unset it'] };
      const wrong = values.flatMap((value) =>
        /\p{Cc}/u.test(value) ? 'has control characters; remove them' : (options.check?.(value) ?? []),
      );
      return wrong.length > 0 ? { wrong } : { value: values };
    },
  });

/** A comma list of words out of a closed set, each at most once. */
const listOf: Choices = <V extends string>(
  variable: string,
  values: readonly V[],
  options: Options<readonly V[]>,
) =>
  define<readonly V[]>(variable, options, {
    accepts: `comma list of ${values.map(code).join(', ')}`,
    show: (chosen) => (chosen.length === 0 ? 'none' : code(chosen.join(','))),
    parse(text) {
      const words = split(text);
      if (words.length === 0) return { wrong: [`holds only commas; name one of ${either(values)}`] };
      const chosen: V[] = [];
      const wrong: string[] = [];
      for (const word of words) {
        const value = values.find((each) => each === word);
        if (value === undefined) wrong.push(`must list ${either(values)}, not ${quote(word)}`);
        else if (chosen.includes(value)) wrong.push(`lists ${quote(word)} twice; keep one`);
        else chosen.push(value);
      }
      return wrong.length > 0 ? { wrong } : { value: chosen };
    },
  });

/** A secret of 32 bytes. */
const hexKey: Kind<Uint8Array> = (variable: string, options: Options<Uint8Array>) =>
  define(variable, options, {
    accepts: '64 hex characters',
    secret: true,
    show: () => '',
    parse: parseHexKey,
  });

/** A comma list of secrets of 32 bytes. */
const hexKeys: Kind<readonly Uint8Array[]> = (variable: string, options: Options<readonly Uint8Array[]>) =>
  define<readonly Uint8Array[]>(variable, options, {
    accepts: 'comma list, each 64 hex characters',
    secret: true,
    show: () => 'set',
    parse(text) {
      const value: Uint8Array[] = [];
      const wrong: string[] = [];
      for (const [index, word] of split(text).entries()) {
        const key = parseHexKey(word);
        if ('value' in key) value.push(key.value);
        else wrong.push(...key.wrong.map((message) => `key ${index + 1} ${message}`));
      }
      return wrong.length > 0 ? { wrong } : { value };
    },
  });

/** Named keys, as a map of name to key: inline JSON, `file:PATH` or `dir:PATH`. */
const keyMap: Kind<ReadonlyMap<string, string>> = (
  variable: string,
  options: Options<ReadonlyMap<string, string>>,
) =>
  define(variable, options, {
    accepts: 'JSON object `{"name":"key"}`, `file:PATH` or `dir:PATH`',
    secret: true,
    show: () => 'set',
    parse: parseKeyMap,
  });

/**
 * The kinds of settings. Text is trimmed, and blank text counts as unset. Numbers are whole and written in
 * digits, in the unit the variable's name says. A duration usually becomes a timer, so it is at most 24.8
 * days unless `max` says otherwise.
 */
export const setting = {
  string,
  integer,
  duration,
  bytes,
  boolean,
  url,
  oneOf,
  list,
  listOf,
  hexKey,
  hexKeys,
  keyMap,
};

function define<T>(
  variable: string,
  options: Options<T>,
  kind: { accepts: string; secret?: boolean; show(value: T): string; parse(text: string): Parsed<T> },
): Setting<T> {
  const shown = options.default === undefined ? undefined : kind.secret ? 'set' : kind.show(options.default);
  return {
    variable,
    about: options.about,
    accepts: kind.accepts,
    defaultText: options.defaultText ?? shown,
    special: options.special ?? {},
    required: options.required ?? false,
    secret: kind.secret ?? false,
    example: options.example,
    fallback: options.default,
    parse: kind.parse,
  };
}

function whole(
  variable: string,
  { min = -Infinity, max = Infinity, ...options }: Options<number> & Bounds,
  what: string,
): Setting<number> {
  const special = options.special ?? {};
  const atLeast = min === -Infinity ? [] : [`at least ${min}`];
  const atMost = max === Infinity ? [] : [`at most ${max}`];
  return define<number>(variable, options, {
    // Zero and the longest timer go without saying in a table.
    accepts: [what, ...(min === 0 ? [] : atLeast), ...(max === LONGEST_TIMER_MS ? [] : atMost)].join(', '),
    show: code,
    parse(text) {
      // A Kubernetes Service called `holdfast` sets HOLDFAST_PORT=tcp://10.0.0.1:8000 in every pod beside it.
      if (/^(tcp|udp|sctp):\/\//.test(text)) {
        return { wrong: ['was set by a Kubernetes service link; set enableServiceLinks: false on the pod'] };
      }
      const value = Number(text);
      const isWhole = /^[+-]?\d+$/.test(text) && Number.isSafeInteger(value);
      const isInBounds = value >= min && value <= max;
      if (isWhole && (isInBounds || Object.hasOwn(special, text))) return { value };
      const words = Object.entries(special).map(([word, meaning]) => `, or ${word} (${meaning})`);
      const expected = [what, ...atLeast, ...atMost].join(', ') + words.join('');
      return { wrong: [`must be a ${expected}, not ${quote(text)}`] };
    },
  });
}

function parseHexKey(text: string): Parsed<Uint8Array> {
  if (/^[0-9a-f]{64}$/i.test(text)) return { value: Uint8Array.from(Buffer.from(text, 'hex')) };
  return {
    wrong: [
      `must be 64 hex characters (32 bytes), not ${text.length} characters; make one with: openssl rand -hex 32`,
    ],
  };
}

function split(text: string): string[] {
  return text.split(',').flatMap((word) => word.trim() || []);
}

function either(values: readonly string[]): string {
  return new Intl.ListFormat('en', { type: 'disjunction' }).format(values);
}

function quote(text: string): string {
  const masked = maskSecrets(text);
  return JSON.stringify(masked.length > 60 ? `${masked.slice(0, 60)}…` : masked);
}

function code(value: string | number | boolean): string {
  return `\`${value}\``;
}
