import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import {
  ConnectionFault,
  isPrivateName,
  isReservedName,
  type Environment,
  type StdioSettings,
} from '@holdfast/mcp-client';
import type { HttpSettings } from './server-settings.js';

/** What placeholders stand for in this deployment. */
export interface PlaceholderValues {
  /** `${node}` and `${python}`: commands. */
  readonly node: string;
  readonly python: string;
  /** `${repo}`: the folder of the application. */
  readonly repo: string;
  /** `${home}`: the folder of our data. */
  readonly home: string;
  /** `${env:NAME}` and `${env:NAME:-default}`: the process environment. */
  readonly environment: Environment;
  /** A folder with one file a variable, which is asked first. */
  readonly environmentFolder?: string;
  /** Prefixes of the names that may be read; unset: all but ours and those of databases (BEHAVIOURS R18). */
  readonly allowedPrefixes?: readonly string[];
}

/** Settings without placeholders, and what was put in from variables: it may not be shown. */
export interface Filled<T> {
  readonly settings: T;
  readonly secrets: readonly string[];
}

const words = ['node', 'python', 'repo', 'home'] as const;
/** `$${` is a literal `${`. */
const pattern = /\$\$\{|\$\{([^}]*)(\}?)/g;
const variableName = /^[A-Za-z_][A-Za-z0-9_]*$/;
const maxVariableBytes = 1024 * 1024;

/** What is wrong with the placeholders of `text`, whatever their values; undefined when nothing is. */
export function placeholderProblem(text: string): string | undefined {
  for (const [, name, end] of text.matchAll(pattern)) {
    if (name === undefined) continue;
    if (end === '') return 'a placeholder is not closed: ${ without }; write $${ for a literal ${';
    if (isWord(name)) continue;
    if (!name.startsWith('env:')) return `unknown placeholder ${hintFor(name)}`;
    if (!variableName.test(variableOf(name).name)) return 'a placeholder ${env:…} names no variable';
  }
  return undefined;
}

/** Whether a placeholder stands in the scheme or the host of a url: then its value would say where secrets go. */
export function hasPlaceholderInAuthority(url: string): boolean {
  return /^[^/\\?#]*(?:[/\\]+[^/\\?#]*)?\$\{/.test(url);
}

/**
 * Fills the placeholders of a server's settings (BEHAVIOURS 148): in command, args, cwd and env, or in
 * url and headers. Values are read now, so that a rotated secret works with the next connection. Text
 * that was put in is not looked at again (149).
 * @throws ConnectionFault `variable`, naming what is missing or not allowed, never a value
 */
export async function fillPlaceholders<T extends HttpSettings | StdioSettings>(
  server: string,
  settings: T,
  values: PlaceholderValues,
): Promise<Filled<T>> {
  const secrets = new Set<string>();
  const fill = (text: string) => fillText(server, text, values, secrets);
  const filled =
    settings.kind === 'stdio' ? await fillStdio(settings, fill) : await fillHttp(server, settings, fill);
  return { settings: filled as T, secrets: [...secrets] };
}

type Fill = (text: string) => Promise<string>;

async function fillStdio(settings: StdioSettings, fill: Fill): Promise<StdioSettings> {
  return {
    ...settings,
    command: await fill(settings.command),
    args: await Promise.all(settings.args.map(fill)),
    env: await fillMembers(settings.env, fill),
    ...(settings.cwd !== undefined && { cwd: await fill(settings.cwd) }),
  };
}

async function fillHttp(server: string, settings: HttpSettings, fill: Fill): Promise<HttpSettings> {
  const url = await fill(settings.url);
  // The host is fixed when settings are read; this is the second lock on that door.
  if (originOf(url) !== originOf(settings.url))
    throw new ConnectionFault('variable', `${server}: a placeholder changes where its url leads`);
  const headers = await fillMembers(settings.headers, fill);
  const unfit = Object.keys(headers).find((name) => !/^[\t\x20-\x7e\x80-\xff]*$/.test(headers[name]!));
  if (unfit !== undefined)
    throw new ConnectionFault('variable', `${server}: the value of the header ${unfit} holds what no header may: a line break, or letters beyond Latin-1`); // prettier-ignore
  return { ...settings, url, headers };
}

function originOf(url: string): string | undefined {
  return URL.parse(url)?.origin;
}

async function fillMembers(members: Readonly<Record<string, string>>, fill: Fill) {
  const filled = Object.entries(members).map(async ([name, text]) => [name, await fill(text)] as const);
  return Object.fromEntries(await Promise.all(filled));
}

async function fillText(
  server: string,
  text: string,
  values: PlaceholderValues,
  secrets: Set<string>,
): Promise<string> {
  const problem = placeholderProblem(text);
  if (problem !== undefined) throw new ConnectionFault('variable', `${server}: ${problem}`);
  const parts: string[] = [];
  let end = 0;
  for (const { 0: whole, 1: name, index } of text.matchAll(pattern)) {
    parts.push(text.slice(end, index));
    end = index + whole.length;
    if (name === undefined) parts.push('${');
    else if (isWord(name)) parts.push(values[name]);
    else {
      const value = await readVariable(server, name, values);
      secrets.add(value);
      parts.push(value);
    }
  }
  return parts.join('') + text.slice(end);
}

/** What a placeholder holds may be a part of a secret, in which a `${` stands: only a name is quoted. */
function hintFor(text: string): string {
  const [, name, fallback] = /^([A-Za-z_][A-Za-z0-9_]*)(:-.*)?$/s.exec(text) ?? [];
  if (name !== undefined) {
    const shown = fallback === undefined ? name : `${name}:-…`;
    return `\${${shown}}; did you mean \${env:${shown}}? ${knownPlaceholders}`;
  }
  if (text.startsWith('input:'))
    return `\${input:…}; nobody can be asked here: write \${env:NAME} and set that variable`;
  return `\${…}; ${knownPlaceholders}`;
}

const knownPlaceholders =
  'Known are ${node}, ${python}, ${repo}, ${home}, ${env:NAME} and ${env:NAME:-default}; $${ is a literal ${';

/** `env:NAME`, or `env:NAME:-default`: the default is taken where the variable is not set, or empty. */
function variableOf(placeholder: string): { readonly name: string; readonly fallback: string | undefined } {
  const text = placeholder.slice('env:'.length);
  const end = text.indexOf(':-');
  return end === -1
    ? { name: text, fallback: undefined }
    : { name: text.slice(0, end), fallback: text.slice(end + 2) };
}

function isWord(name: string): name is (typeof words)[number] {
  return (words as readonly string[]).includes(name);
}

async function readVariable(server: string, placeholder: string, values: PlaceholderValues): Promise<string> {
  const { name, fallback } = variableOf(placeholder);
  if (!isAllowed(name, values.allowedPrefixes))
    throw new ConnectionFault('variable', `${server}: the variable ${name} may not be read here; HOLDFAST_ENV_ALLOW says which may`); // prettier-ignore
  const value =
    (await readVariableFile(server, name, values.environmentFolder)) ??
    // A name such as `constructor` is no variable, though each object has it.
    (Object.hasOwn(values.environment, name) ? values.environment[name] : undefined);
  if (fallback !== undefined && (value === undefined || value === '')) return fallback;
  if (value === undefined)
    throw new ConnectionFault('variable', `${server}: the variable ${name} is not set`);
  return value;
}

function isAllowed(name: string, prefixes: readonly string[] | undefined): boolean {
  if (isReservedName(name)) return false;
  return prefixes === undefined ? !isPrivateName(name) : prefixes.some((prefix) => name.startsWith(prefix));
}

/** `name` has neither a dot nor a slash, so the file is in the folder. One line break at its end is not part of the value. */
async function readVariableFile(server: string, name: string, folder: string | undefined) {
  if (folder === undefined) return undefined;
  const path = join(folder, name);
  try {
    const file = await stat(path);
    if (!file.isFile() || file.size > maxVariableBytes)
      throw new ConnectionFault(
        'variable',
        `${server}: the file of the variable ${name} is no file of up to 1 MiB`,
      );
    return (await readFile(path, 'utf8')).replace(/\r?\n$/, '');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    if (error instanceof ConnectionFault) throw error;
    throw new ConnectionFault(
      'variable',
      `${server}: the file of the variable ${name} cannot be read (${code})`,
    );
  }
}
