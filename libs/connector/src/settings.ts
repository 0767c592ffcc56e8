import {
  isLoopback,
  listenHost,
  opsSettings,
  rpcRules,
  rpcSettings,
  rule,
  serviceSettings,
  setting,
  sharedStore,
  shortestKey,
  type SettingsOf,
  type SettingsRule,
} from '@holdfast/ops';

/** Everything about upstream servers; the one process that does all has these too. */
export const connectingSettings = {
  serversFile: setting.string('HOLDFAST_SERVERS_FILE', {
    about: 'JSON or YAML file of upstream servers, watched; docs/connecting-servers.md',
  }),
  allowLegacySse: setting.boolean('HOLDFAST_ALLOW_LEGACY_SSE', {
    about: 'upstreams on the HTTP+SSE transport of 2024-11-05',
    default: false,
  }),
  profile: setting.oneOf('HOLDFAST_PROFILE', ['development', 'production'], {
    about: 'production: each HTTP upstream needs allowed_hosts, and upstreams on loopback are refused',
    default: 'development',
  }),
  allowLoopback: setting.boolean('HOLDFAST_ALLOW_LOOPBACK', {
    about: 'upstreams whose URL names loopback itself',
    defaultText: '`true`, in production `false`',
  }),
  outboundNetwork: setting.oneOf('HOLDFAST_OUTBOUND_NETWORK', ['on', 'off'], {
    about: 'off: every HTTP upstream is unavailable',
    default: 'on',
  }),
  envAllow: setting.list('HOLDFAST_ENV_ALLOW', {
    about: 'prefixes of the variables that ${env:NAME} in the settings of a server may read',
    defaultText: 'any but ours and those of databases',
  }),
  envDir: setting.string('HOLDFAST_ENV_DIR', {
    about: 'folder with one file a variable for ${env:NAME}, read at each connect',
  }),
  approvalMode: setting.oneOf('HOLDFAST_APPROVAL_MODE', ['guarded', 'ask', 'allow-reads', 'allow-all'], {
    about: 'which calls of upstream tools need an approval; a server may set its own',
    default: 'guarded',
  }),
  stdioUid: setting.integer('HOLDFAST_STDIO_UID', {
    about:
      'as root: user and group id of the first upstream over stdio, the next ones counting up; each has a user of its own',
    defaultText: 'that of the process',
    min: 1,
    max: 4_000_000_000,
  }),
  ownerLeaseMs: setting.duration('HOLDFAST_CONNECTOR_LEASE_MS', {
    about: 'within this time the servers of a silent connector go to another; renewed at a third of it',
    default: 15_000,
    min: 300,
  }),
};

const stdioSetting = (fallback: boolean) =>
  setting.boolean('HOLDFAST_STDIO_ENABLED', {
    about: 'upstreams over stdio: commands of the settings run beside the connector',
    default: fallback,
  });

export const stdioOn = stdioSetting(true);

export const connectorSettings = {
  ...serviceSettings,
  ...opsSettings,
  ...rpcSettings,
  ...connectingSettings,
  host: listenHost,
  store: sharedStore,
  stdioEnabled: stdioSetting(false),
  bind: setting.string('HOLDFAST_CONNECTOR_BIND', {
    about: 'where the connector listens for workers',
    default: '127.0.0.1:50051',
    check: addressProblem,
  }),
  advertise: setting.string('HOLDFAST_CONNECTOR_ADVERTISE', {
    about: 'where workers reach this connector, HOST:PORT',
    defaultText: 'as HOLDFAST_CONNECTOR_BIND',
    check: addressProblem,
  }),
};

function addressProblem(text: string): string | undefined {
  return /^(\[[0-9a-fA-F:.]+\]|[^:\s]+):\d{1,5}$/.test(text)
    ? undefined
    : 'must be HOST:PORT, with an IPv6 address in brackets';
}

export type ConnectingSettings = SettingsOf<typeof connectingSettings> & { readonly stdioEnabled: boolean };

export const connectorRules: readonly SettingsRule[] = [
  ...rpcRules,
  rule(
    connectorSettings,
    ['bind', 'connectorToken', 'connectorTlsCert'],
    ({ bind, connectorToken, connectorTlsCert }) => {
      if (isLoopback(hostOf(bind))) return undefined;
      const variable = 'HOLDFAST_CONNECTOR_TOKEN';
      if (connectorToken !== undefined && connectorToken.length < shortestKey)
        return {
          variable,
          message: `has fewer than ${shortestKey} characters and could be guessed where a connector listens on ${hostOf(bind)}; make one with: openssl rand -hex 32`,
        };
      return connectorToken !== undefined || connectorTlsCert !== undefined
        ? undefined
        : {
            variable,
            message: `is required where a connector listens on ${hostOf(bind)}: set one that workers have too, or certificates`,
          };
    },
  ),
  rule(connectorSettings, ['bind', 'advertise'], ({ bind, advertise }) =>
    advertise !== undefined || !['0.0.0.0', '[::]', '::'].includes(hostOf(bind))
      ? undefined
      : {
          variable: 'HOLDFAST_CONNECTOR_ADVERTISE',
          message: `is required where a connector listens on every address: name the one that workers reach`,
        },
  ),
];

function hostOf(address: string): string {
  return address.slice(0, address.lastIndexOf(':'));
}
