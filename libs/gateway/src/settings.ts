import {
  hostProblem,
  jwtAlgorithms,
  loopbackHosts,
  originProblem,
  type OriginRules,
} from '@holdfast/mcp-server';
import {
  isLoopback,
  listenHost,
  opsSettings,
  rule,
  serviceSettings,
  setting,
  sharedStore,
  shortestKey,
  type SettingsOf,
} from '@holdfast/ops';
import { leastLongestName, longestName, namingStyles } from '@holdfast/tools';
import { limitSettings } from './limit-settings.js';

/** Everything about serving hosts; the one process that does all has these too. */
export const servingSettings = {
  ...serviceSettings,
  host: listenHost,
  port: setting.integer('HOLDFAST_PORT', {
    about: 'port to listen on',
    default: 8000,
    min: 0,
    max: 65_535,
    special: { 0: 'a free one, printed' },
  }),
  mcpPath: setting.string('HOLDFAST_MCP_PATH', {
    about: 'path of the MCP endpoint',
    default: '/mcp',
    check: (path) => {
      if (/^\/(api|healthz|readyz|metrics)(\/|$)/.test(path))
        return 'is taken by another path of ours; use another, as /mcp';
      return /^\/[\w./~-]*[\w~-]$/.test(path) ? undefined : 'must begin with / and not end with it, as /mcp';
    },
  }),
  publicUrl: setting.url('HOLDFAST_PUBLIC_URL', {
    about: 'where hosts reach the gateway; printed at start',
    defaultText: 'from host and port',
    protocols: ['http:', 'https:'],
  }),
  auth: setting.listOf('HOLDFAST_AUTH', ['none', 'keys', 'jwt', 'module'], {
    about:
      'who may call: named keys, tokens of an issuer, a module of yours, or everybody; of several the first that accepts decides',
    required: true,
    example: 'keys',
  }),
  apiKeys: setting.keyMap('HOLDFAST_API_KEYS', { about: 'keys of callers, by name' }),
  adminKeys: setting.keyMap('HOLDFAST_ADMIN_KEYS', { about: 'keys that open /api, by name' }),
  jwtIssuer: setting.string('HOLDFAST_JWT_ISSUER', {
    about: 'the only issuer of tokens that is believed, as in their iss',
    example: 'https://idp.example',
  }),
  jwtAudience: setting.string('HOLDFAST_JWT_AUDIENCE', { about: 'what must be among the aud of a token' }),
  jwtJwksUrl: setting.url('HOLDFAST_JWT_JWKS_URL', {
    about: 'where the issuer publishes its keys',
    protocols: ['http:', 'https:'],
  }),
  jwtAlgorithms: setting.listOf('HOLDFAST_JWT_ALGORITHMS', jwtAlgorithms, {
    about: 'signatures that are accepted',
    default: ['RS256', 'PS256', 'ES256', 'EdDSA'],
  }),
  jwtAdminScope: setting.string('HOLDFAST_JWT_ADMIN_SCOPE', { about: 'a token with this scope opens /api' }),
  authModule: setting.string('HOLDFAST_AUTH_MODULE', {
    about: 'module whose default export tells who presents a credential: ({scheme, token}) => string | null',
  }),
  allowUnauthenticated: setting.boolean('HOLDFAST_ALLOW_UNAUTHENTICATED', {
    about: 'lets HOLDFAST_AUTH=none listen beyond loopback',
    default: false,
  }),
  allowedOrigins: setting.list('HOLDFAST_ALLOWED_ORIGINS', {
    about: 'origins of browser pages that may call, exactly',
    defaultText: 'those of loopback',
    check: originProblem,
  }),
  allowedHosts: setting.list('HOLDFAST_ALLOWED_HOSTS', {
    about: 'host names that requests may name, whatever the port',
    defaultText:
      'when bound to loopback, its names and those of HOLDFAST_HOST and HOLDFAST_PUBLIC_URL; else any',
    check: hostProblem,
  }),
  maxBodyBytes: setting.bytes('HOLDFAST_MAX_BODY_BYTES', {
    about: 'largest request body',
    default: 4 * 1024 * 1024,
    min: 1024,
  }),
  ...limitSettings,
  listTtlMs: setting.duration('HOLDFAST_LIST_TTL_MS', {
    about: 'how long hosts on 2026-07-28 may keep a list',
    default: 0,
    min: 0,
  }),
  waitTimeoutMs: setting.duration('HOLDFAST_WAIT_TIMEOUT_MS', {
    about: 'how long a call waits for its result; the run goes on',
    default: 0,
    min: 1,
    special: { 0: 'no limit' },
  }),
  keepAliveMs: setting.duration('HOLDFAST_KEEP_ALIVE_MS', {
    about: 'longest silence on an open stream, and between progress to a host',
    default: 15_000,
    min: 50,
  }),
  maxSessions: setting.integer('HOLDFAST_MAX_SESSIONS', {
    about: 'open sessions of hosts before 2026-07-28, over all replicas',
    default: 10_000,
    min: 1,
  }),
  sessionIdleMs: setting.duration('HOLDFAST_SESSION_IDLE_MS', {
    about: 'a session unused for this long is closed',
    default: 3_600_000,
    min: 1_000,
  }),
  maxSessionsPerPrincipal: setting.integer('HOLDFAST_MAX_SESSIONS_PER_PRINCIPAL', {
    about: 'open sessions of one caller',
    defaultText: 'off',
    min: 1,
  }),
  legacy: setting.oneOf('HOLDFAST_LEGACY', ['sessions', 'stateless', 'reject'], {
    about: 'how hosts from before 2026-07-28 are served',
    default: 'sessions',
  }),
  naming: setting.oneOf('HOLDFAST_NAMING', namingStyles, {
    about:
      'how hosts call the tools of upstreams: server__tool, mcp_server_tool or server.tool; the last is not taken by every provider of models',
    default: 'double-underscore',
  }),
  nameLength: setting.integer('HOLDFAST_NAME_LENGTH', {
    about: 'longest name of an upstream tool; for hosts that put a prefix of their own before it',
    default: longestName,
    min: leastLongestName,
    max: longestName,
  }),
  hostCancel: setting.oneOf('HOLDFAST_HOST_CANCEL', ['detach', 'cancel'], {
    about: 'what a cancellation by a host does: end its wait, or its run too',
    default: 'detach',
  }),
  retentionMs: setting.duration('HOLDFAST_RUN_RETENTION_MS', {
    about: 'how long a finished run, and so its token, is kept',
    default: 7 * 86_400_000,
    min: 1_000,
    max: Number.MAX_SAFE_INTEGER,
  }),
  tombstoneMs: setting.duration('HOLDFAST_TOKEN_TOMBSTONE_MS', {
    about: 'how long a used token is remembered beyond its run',
    default: 0,
    min: 1,
    max: Number.MAX_SAFE_INTEGER,
    special: { 0: 'off' },
  }),
  runIdKey: setting.hexKey('HOLDFAST_RUN_ID_KEY', {
    about: 'key of the run ids that are derived from tokens; the same on every replica',
    defaultText: 'made once, kept in the store',
  }),
  runIdKeysPrevious: setting.hexKeys('HOLDFAST_RUN_ID_KEYS_PREVIOUS', {
    about: 'earlier keys, under which runs are still found',
    defaultText: 'none',
    default: [],
  }),
  identityModule: setting.string('HOLDFAST_IDENTITY_MODULE', {
    about: 'module that exports identityFromRequest and/or idempotencyFromRequest',
  }),
  dedupeWindowMs: setting.duration('HOLDFAST_DEDUPE_WINDOW_MS', {
    about: 'calls without a token that repeat within this attach to the first',
    default: 0,
    min: 1,
    special: { 0: 'off' },
  }),
};

export const gatewaySettings = { ...servingSettings, ...opsSettings, store: sharedStore };

export type ServingSettings = SettingsOf<typeof servingSettings>;
export type GatewaySettings = SettingsOf<typeof gatewaySettings>;

export const servingRules = [
  ...(
    [
      ['apiKeys', 'HOLDFAST_API_KEYS'],
      ['adminKeys', 'HOLDFAST_ADMIN_KEYS'],
    ] as const
  ).map(([name, variable]) =>
    rule(servingSettings, [name, 'host'], ({ host, ...values }) => {
      const short = [...(values[name] ?? [])].filter(([, key]) => key.length < shortestKey);
      return isLoopback(host) || short.length === 0
        ? undefined
        : {
            variable,
            message: `the key of ${short.map(([of]) => JSON.stringify(of)).join(', ')} is shorter than ${shortestKey} characters and could be guessed by whoever reaches ${host}; make one with: openssl rand -hex 32`,
          };
    }),
  ),
  rule(servingSettings, ['apiKeys', 'adminKeys'], ({ apiKeys, adminKeys }) => {
    const callers = new Map([...(apiKeys ?? [])].map(([name, key]) => [key, name]));
    const [admin, key = ''] = [...(adminKeys ?? [])].find(([, each]) => callers.has(each)) ?? [];
    return admin === undefined
      ? undefined
      : {
          variable: 'HOLDFAST_ADMIN_KEYS',
          message: `the key of ${JSON.stringify(admin)} is also that of the caller ${JSON.stringify(callers.get(key))}, which would open /api to it; give each its own`,
        };
  }),
  rule(servingSettings, ['jwtJwksUrl'], ({ jwtJwksUrl }) => {
    const { protocol, hostname } = new URL(jwtJwksUrl ?? 'https://none');
    return protocol === 'https:' || isLoopback(hostname)
      ? undefined
      : {
          variable: 'HOLDFAST_JWT_JWKS_URL',
          message: `must be https beyond loopback: whoever stands between could replace the keys; for a CA of your own set NODE_EXTRA_CA_CERTS`,
        };
  }),
  rule(servingSettings, ['auth', 'apiKeys'], ({ auth, apiKeys }) =>
    auth.includes('keys') && apiKeys === undefined
      ? {
          variable: 'HOLDFAST_API_KEYS',
          message:
            'is missing, and HOLDFAST_AUTH has keys; set it to {"name":"secret"}, file:PATH or dir:PATH',
        }
      : undefined,
  ),
  ...(
    [
      ['jwtIssuer', 'HOLDFAST_JWT_ISSUER'],
      ['jwtAudience', 'HOLDFAST_JWT_AUDIENCE'],
      ['jwtJwksUrl', 'HOLDFAST_JWT_JWKS_URL'],
    ] as const
  ).map(([name, variable]) =>
    rule(servingSettings, ['auth', name], (values) =>
      values.auth.includes('jwt') && values[name] === undefined
        ? {
            variable,
            message: 'is missing, and HOLDFAST_AUTH has jwt; without it a token of anybody could pass',
          }
        : undefined,
    ),
  ),
  rule(servingSettings, ['auth', 'authModule'], ({ auth, authModule }) =>
    auth.includes('module') && authModule === undefined
      ? {
          variable: 'HOLDFAST_AUTH_MODULE',
          message: 'is missing, and HOLDFAST_AUTH has module; set it to the path of the module',
        }
      : undefined,
  ),
  rule(servingSettings, ['auth', 'host', 'allowUnauthenticated'], ({ auth, host, allowUnauthenticated }) =>
    auth.includes('none') && !isLoopback(host) && !allowUnauthenticated
      ? {
          variable: 'HOLDFAST_AUTH',
          message: `none would serve everybody who reaches ${host}; use keys, listen on 127.0.0.1, or say HOLDFAST_ALLOW_UNAUTHENTICATED=true`,
        }
      : undefined,
  ),
];

/** Which origins and host names are answered, on the MCP path and under `/api`. */
export function originRules({ host, publicUrl, allowedHosts, allowedOrigins }: ServingSettings): OriginRules {
  // Where a proxy on this machine keeps the Host, requests name the public URL, which is printed at start.
  const published = publicUrl === undefined ? [] : [new URL(publicUrl).hostname];
  if (!isLoopback(host)) return { origins: allowedOrigins, hosts: allowedHosts };
  const hosts = allowedHosts ?? [...loopbackHosts, host, ...published];
  return { origins: allowedOrigins, ownHost: host, hosts };
}

/** Whether `/api` is open without a key: open mode on loopback, unless admin keys are set. */
export function isApiOpen({ auth, host, adminKeys }: ServingSettings): boolean {
  return adminKeys === undefined && auth.includes('none') && isLoopback(host);
}
