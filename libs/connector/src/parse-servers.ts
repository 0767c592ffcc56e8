import { isReservedName, type StdioSettings } from '@holdfast/mcp-client';
import type { ApprovalMode } from '@holdfast/tools';
import type { Diagnostic, DiagnosticRule } from './diagnostic.js';
import { hasPlaceholderInAuthority, placeholderProblem } from './placeholders.js';
import { problemsOf, serverEntry, type ServerEntry } from './server-entry.js';
import { serverKey } from './server-identity.js';
import type { HttpSettings, ServerSettings } from './server-settings.js';
import { readServersText } from './servers-text.js';
import { shownName } from './shown-name.js';

/** What a deployment allows, and what it takes where a server does not say. */
export interface ServerLimits {
  readonly stdioEnabled: boolean;
  readonly legacySse: boolean;
  /** Each HTTP server must say which hosts it may reach. */
  readonly isProduction: boolean;
  readonly approvalMode: ApprovalMode;
}

/** The servers of a settings file that can be used, and what is wrong with the others. */
export interface ServerSet {
  readonly servers: readonly ServerSettings[];
  readonly diagnostics: readonly Diagnostic[];
}

export type ParsedServer =
  | { readonly kind: 'server'; readonly server: ServerSettings }
  | { readonly kind: 'refused'; readonly rule: DiagnosticRule; readonly message: string };

/** Why an entry cannot be used. */
class EntryRefusal extends Error {
  readonly rule: DiagnosticRule;

  constructor(message: string, rule: DiagnosticRule = 'server-entry-invalid') {
    super(message);
    this.rule = rule;
  }
}

/**
 * Reads the text of a settings file: JSON, with comments or without, or YAML, `{servers: […]}`.
 * Each entry is judged alone: a bad one is left out with a diagnostic. A string tells why the file as a whole cannot be
 * read; it quotes nothing of it, since a file may hold secrets.
 */
export function parseServers(text: string, limits: ServerLimits): ServerSet | string {
  const entries = readEntries(text);
  if (typeof entries === 'string') return entries;
  const servers = new Map<string, ServerSettings>();
  const diagnostics: Diagnostic[] = [];
  entries.forEach((entry, position) => {
    const parsed = parseServer(entry, limits);
    const refuse = (rule: DiagnosticRule, message: string) =>
      diagnostics.push({ section: 'servers', rule, origin: originOf(entry, position), message });
    if (parsed.kind === 'refused') return refuse(parsed.rule, parsed.message);
    const key = serverKey(parsed.server.id, parsed.server.transport);
    if (servers.has(key))
      return refuse('server-entry-invalid', 'the same server is there twice; this one is not used');
    servers.set(key, parsed.server);
  });
  return { servers: [...servers.values()], diagnostics };
}

/** Checks one entry and gives it its defaults. Never throws; a message holds no value of a field that may be secret. */
export function parseServer(entry: unknown, limits: ServerLimits): ParsedServer {
  const parsed = serverEntry.safeParse(withTransport(entry));
  if (!parsed.success)
    return { kind: 'refused', rule: 'server-entry-invalid', message: problemsOf(parsed.error) };
  try {
    return { kind: 'server', server: settingsOf(parsed.data, limits) };
  } catch (error) {
    if (error instanceof EntryRefusal) return { kind: 'refused', rule: error.rule, message: error.message };
    throw error;
  }
}

/** The entries, or why there are none. */
function readEntries(text: string): readonly unknown[] | string {
  const read = readServersText(text);
  if ('problem' in read) return read.problem;
  const { value } = read;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return noList;
  // `inputs` of VS Code ask a person; an entry that uses one is refused by its placeholder.
  const { servers, mcpServers, policy = [], ...others } = value as Record<string, unknown>;
  const unknown = Object.keys(others).find((name) => name !== 'inputs');
  if (unknown !== undefined)
    return `unknown field ${shownName(unknown)} at the top; known is servers (or mcpServers)`;
  if (servers !== undefined && mcpServers !== undefined)
    return '`servers` and `mcpServers` are the same; write all servers under one of them';
  if (!Array.isArray(policy) || policy.length > 0)
    return '`policy` is not served yet: none of its rules would apply; remove it';
  const entries = servers ?? mcpServers;
  if (Array.isArray(entries)) return entries as unknown[];
  if (typeof entries !== 'object' || entries === null) return noList;
  // The map form, as hosts write it.
  return Object.entries(entries).map(([id, entry]: [string, unknown]) =>
    typeof entry === 'object' && entry !== null ? { id, ...entry } : entry,
  );
}

const noList = 'it must hold a list `servers`, or a map of them by id';

/** Where it is plain which of the two it is, an entry need not say so. `type` is what hosts call it. */
function withTransport(written: unknown): unknown {
  if (typeof written !== 'object' || written === null) return written;
  const { type, ...entry } = written as Record<string, unknown>;
  if (type !== undefined) return 'transport' in entry ? written : { ...entry, transport: type };
  if ('transport' in entry) return written;
  if ('command' in entry && !('url' in entry)) return { ...entry, transport: 'stdio' };
  if ('url' in entry && !('command' in entry)) return { ...entry, transport: 'http' };
  // Without either it is refused for what it lacks and for the fields that nobody knows, not for its transport.
  return { ...entry, transport: 'command' in entry || 'url' in entry ? undefined : 'http' };
}

function originOf(entry: unknown, position: number): string {
  const id = (entry as { id?: unknown } | null)?.id;
  return typeof id === 'string' && /^[\w.-]{1,64}$/.test(id) ? id : `servers[${position}]`;
}

/** In seconds. A process may have to install itself first, as `npx` does. */
const connectTimeouts = { stdio: 60, http: 10, sse: 10 };

const reservedIds = ['mcp', 'holdfast'];

function settingsOf(entry: ServerEntry, limits: ServerLimits): ServerSettings {
  if (reservedIds.includes(entry.id))
    throw new EntryRefusal(`the id ${entry.id} is taken by the product itself`);
  checkNames(entry);
  const transport = entry.transport === 'stdio' ? stdioOf(entry, limits) : httpOf(entry, limits);
  if (entry.placement === 'every' && (transport.kind === 'stdio' || entry.concurrency === 1))
    throw new EntryRefusal(
      'placement: a stdio server, and one with concurrency 1, has one owner: it must be single',
    );
  if (entry.credentials !== undefined && entry.session_scope === 'server')
    throw new EntryRefusal(
      'session_scope: credentials per caller need a session per caller: it must be principal',
    );
  return {
    id: entry.id,
    name: entry.name ?? entry.id,
    enabled: entry.enabled,
    required: entry.required,
    transport,
    rules: {
      timeoutMs: ms(entry.timeout),
      retry: entry.retry,
      concurrency: entry.concurrency,
      overrides: entry.overrides,
      trustHints: entry.trust_hints,
      ...(entry.allow !== undefined && { allow: entry.allow }),
      ...(entry.deny !== undefined && { deny: entry.deny }),
      requiresApproval: entry.requires_approval,
      autoApprove: entry.auto_approve,
      approvalMode: entry.approval_mode ?? limits.approvalMode,
      ...(entry.on_crash !== undefined && { onCrash: entry.on_crash }),
      resultMode: entry.result_mode,
      maxResultBytes: entry.max_result_bytes,
      descriptionPrefix: entry.description_prefix,
    },
    connectTimeoutMs: ms(entry.connect_timeout ?? connectTimeouts[transport.kind]),
    connectRetries: entry.connect_retries,
    connectBackoffMs: ms(entry.connect_backoff),
    maxToolPages: entry.max_tool_pages,
    maxTools: entry.max_tools,
    ...(entry.cache_ttl !== undefined && { cacheTtlMs: ms(entry.cache_ttl) }),
    placement: entry.placement,
    sessionScope: entry.session_scope ?? (entry.credentials === undefined ? 'server' : 'principal'),
  };
}

function ms(seconds: number): number {
  return Math.round(seconds * 1000);
}

function checkNames({ id, allow, deny, overrides, requires_approval, auto_approve }: ServerEntry): void {
  if (allow !== undefined && deny !== undefined)
    throw new EntryRefusal('allow and deny exclude each other; use one of them');
  const both = auto_approve.find((name) => requires_approval.includes(name));
  if (both !== undefined)
    throw new EntryRefusal(`${shownName(both)} is in auto_approve and in requires_approval`);
  const names = { allow, deny, requires_approval, auto_approve, overrides: Object.keys(overrides) };
  for (const [field, list] of Object.entries(names)) {
    const qualified = list?.find((name) => name.startsWith(`${id}__`));
    if (qualified !== undefined)
      throw new EntryRefusal(
        `${field}: ${shownName(qualified)} must be the bare name, as the server publishes it`,
      );
  }
}

const stdioFields = ['command', 'args', 'env', 'cwd', 'env_policy'] as const;
const httpFields = [
  'url',
  'headers',
  'auth',
  'allowed_hosts',
  'allow_http',
  'allow_private',
  'credentials',
] as const;

function refuseFields(entry: ServerEntry, fields: readonly (keyof ServerEntry)[]): void {
  const foreign = fields.find((field) => entry[field] !== undefined);
  if (foreign !== undefined)
    throw new EntryRefusal(`${foreign} does not go with transport ${entry.transport}`);
}

function stdioOf(entry: ServerEntry, { stdioEnabled }: ServerLimits): StdioSettings {
  refuseFields(entry, httpFields);
  const { command, args = [], env = {}, cwd, env_policy: envPolicy = 'allow-list' } = entry;
  if (command === undefined) throw new EntryRefusal('command: a stdio server needs one');
  const reserved = Object.keys(env).find(isReservedName);
  if (reserved !== undefined)
    throw new EntryRefusal(
      `env: ${shownName(reserved)} is a name of ours and cannot be set`,
      'env-reserved-name',
    );
  checkPlaceholders({ command, args, env, cwd });
  if (!stdioEnabled)
    throw new EntryRefusal('stdio servers are off here; set HOLDFAST_STDIO_ENABLED=true, or put a proxy that speaks HTTP in front of it', 'unsupported-transport'); // prettier-ignore
  return { kind: 'stdio', command, args, env, ...(cwd !== undefined && { cwd }), envPolicy };
}

function httpOf(entry: ServerEntry, { legacySse, isProduction }: ServerLimits): HttpSettings {
  refuseFields(entry, stdioFields);
  const { url, allowed_hosts: allowedHosts, allow_http: allowHttp = false, credentials } = entry;
  if (url === undefined) throw new EntryRefusal('url: an HTTP server needs one');
  const headers = headersOf(entry);
  checkPlaceholders({ url, headers });
  checkUrl(url, allowHttp ? allowedHosts : undefined);
  if (isProduction && allowedHosts === undefined)
    throw new EntryRefusal('allowed_hosts: in production each HTTP server must list the hosts it may reach');
  if (entry.transport === 'sse' && !legacySse)
    throw new EntryRefusal('the transport of 2024-11-05 is off here; set HOLDFAST_ALLOW_LEGACY_SSE=true, or use its Streamable HTTP url', 'unsupported-transport'); // prettier-ignore
  return {
    kind: entry.transport === 'sse' ? 'sse' : 'http',
    url,
    headers,
    ...(allowedHosts !== undefined && { allowedHosts }),
    ...(entry.allow_private === true && { allowPrivate: true }),
    ...(credentials !== undefined && { credentialsModule: credentials.module }),
  };
}

/** `auth` is a short form of headers that are read from variables. */
function headersOf({ headers = {}, auth }: ServerEntry): Record<string, string> {
  const fromVariables =
    auth === undefined
      ? []
      : 'bearer_env' in auth
        ? [['Authorization', `Bearer \${env:${auth.bearer_env}}`]]
        : Object.entries(auth.headers_env).map(([name, variable]) => [name, `\${env:${variable}}`]);
  const all = [...Object.entries(headers), ...fromVariables] as [string, string][];
  const names = all.map(([name]) => name.toLowerCase());
  const repeated = names.find((name, i) => names.indexOf(name) !== i);
  if (repeated !== undefined) throw new EntryRefusal(`headers: ${shownName(repeated)} is there twice`);
  return Object.fromEntries(all);
}

const loopback = ['127.0.0.1', 'localhost', '[::1]'];

/** BEHAVIOURS 142, 181, R18. `plainHosts` may be reached over plain http beyond loopback. */
function checkUrl(url: string, plainHosts: readonly string[] | undefined): void {
  if (hasPlaceholderInAuthority(url)) throw new EntryRefusal('url: a placeholder may not stand in its host');
  const parsed = URL.parse(url);
  if (parsed === null || /[\s\\]/.test(url) || !/^[a-z]+:\/\/[^/]/i.test(url))
    throw new EntryRefusal('url: must be absolute, as https://mcp.example.com/mcp', 'connection-failure');
  if (parsed.username !== '' || parsed.password !== '')
    throw new EntryRefusal('url: may hold no user and no password; use headers');
  if (url.includes('#')) throw new EntryRefusal('url: may hold no fragment');
  if (parsed.protocol === 'https:') return;
  if (parsed.protocol !== 'http:') throw new EntryRefusal('url: must be https, or http on loopback');
  const host = parsed.hostname;
  const isListed = plainHosts?.some((listed) => listed.toLowerCase() === host) === true;
  if (!loopback.includes(host) && !isListed)
    throw new EntryRefusal(
      'url: must be https; http is for loopback, or for a host in allowed_hosts with allow_http',
    );
}

/** `fields`: texts, and lists and records of texts. */
function checkPlaceholders(fields: Readonly<Record<string, unknown>>): void {
  for (const [field, value] of Object.entries(fields)) {
    const texts = typeof value === 'object' && value !== null ? Object.values(value) : [value];
    for (const text of texts) {
      const problem = typeof text === 'string' ? placeholderProblem(text) : undefined;
      if (problem !== undefined) throw new EntryRefusal(`${field}: ${problem}`);
    }
  }
}
