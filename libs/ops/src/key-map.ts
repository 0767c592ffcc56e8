import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Parsed } from './parsed.js';

/** A key is compared with what whoever listens beyond loopback sends; 16 random characters cannot be guessed. */
export const shortestKey = 16;

/** What is wrong with a secret that no `Authorization` header and no gRPC metadata can carry. */
export const unsendable = 'has characters that no header can carry; use printable ASCII, no spaces';

export function isSendable(secret: string): boolean {
  return /^[\x21-\x7e]+$/.test(secret);
}

type Entry = readonly [name: string, key: unknown];

const FORMS = 'a JSON object {"name":"key"}, file:PATH or dir:PATH';

/**
 * Reads named keys in one of three forms: a JSON object of name to key, `file:PATH` (the same object in a
 * file) or `dir:PATH` (one file a key, its name the key's name). Hidden entries and folders of a `dir:` are
 * not keys: a mounted Kubernetes Secret has `..data` and `..2026_07_28…` beside its links.
 *
 * No message holds a key, so none holds any text of the value: JSON.parse quotes its input in its errors.
 */
export function parseKeyMap(text: string): Parsed<ReadonlyMap<string, string>> {
  const entries = readEntries(text);
  return 'wrong' in entries ? entries : checkEntries(entries.value);
}

function readEntries(text: string): Parsed<readonly Entry[]> {
  if (text.startsWith('dir:')) return readFolder(text.slice('dir:'.length));
  if (!text.startsWith('file:')) return readObject(text, `must be ${FORMS}`);
  const path = text.slice('file:'.length);
  try {
    return readObject(
      readFileSync(path, 'utf8').replace(/^\uFEFF/, ''),
      `file ${JSON.stringify(path)} must hold a JSON object {"name":"key"}`,
    );
  } catch (error) {
    return { wrong: [`cannot read file ${JSON.stringify(path)} (${reason(error)})`] };
  }
}

function readFolder(path: string): Parsed<readonly Entry[]> {
  let names: string[];
  try {
    names = readdirSync(path).filter((name) => !name.startsWith('.'));
  } catch (error) {
    return { wrong: [`cannot read folder ${JSON.stringify(path)} (${reason(error)})`] };
  }
  const entries: Entry[] = [];
  const wrong: string[] = [];
  for (const name of names.sort()) {
    const file = join(path, name);
    try {
      if (statSync(file).isFile()) entries.push([name, readFileSync(file, 'utf8').replace(/\r?\n$/, '')]);
    } catch (error) {
      wrong.push(`cannot read the key of ${JSON.stringify(name)} (${reason(error)})`);
    }
  }
  return wrong.length > 0 ? { wrong } : { value: entries };
}

function readObject(text: string, expected: string): Parsed<readonly Entry[]> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return { wrong: [`${expected}; it is not valid JSON`] };
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return { wrong: [expected] };
  const entries = Object.entries(parsed);
  // JSON.parse keeps the last of two equal names without a word. Where every value is a string the literals
  // alternate between name and value, so the names can be read off the text.
  if (entries.every(([, key]) => typeof key === 'string')) {
    const literals = text.match(/"(?:[^"\\]|\\.)*"/g) ?? [];
    const names = literals
      .filter((_, index) => index % 2 === 0)
      .map((literal) => String(JSON.parse(literal)));
    const repeated = new Set(names.filter((name, index) => names.indexOf(name) !== index));
    if (repeated.size > 0) {
      return { wrong: [...repeated].map((name) => `names ${JSON.stringify(name)} twice; keep one`) };
    }
  }
  return { value: entries };
}

function checkEntries(entries: readonly Entry[]): Parsed<ReadonlyMap<string, string>> {
  if (entries.length === 0) return { wrong: ['holds no key; add one, or unset the variable'] };
  const wrong: string[] = [];
  const keys = new Map<string, string>();
  const nameOfKey = new Map<string, string>();
  for (const [name, key] of entries) {
    const quoted = JSON.stringify(name);
    if (name.trim() === '') wrong.push(`has a blank name (${quoted}); give its key a name`);
    // A lone surrogate becomes U+FFFD when it is hashed, which would make two names one principal.
    else if (/\p{Cc}/u.test(name) || !name.isWellFormed()) {
      wrong.push(`the name ${quoted} has control or broken characters; use printable ones`);
    }
    if (typeof key !== 'string') wrong.push(`the key of ${quoted} must be a string`);
    else if (key.trim() === '') wrong.push(`the key of ${quoted} is empty`);
    else if (!isSendable(key)) wrong.push(`the key of ${quoted} ${unsendable}`);
    else {
      const other = nameOfKey.get(key);
      if (other !== undefined) {
        wrong.push(`${JSON.stringify(other)} and ${quoted} have the same key; give each its own`);
      }
      nameOfKey.set(key, name);
      keys.set(name, key);
    }
  }
  return wrong.length > 0 ? { wrong } : { value: keys };
}

function reason(error: unknown): string {
  return typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : 'unreadable';
}
