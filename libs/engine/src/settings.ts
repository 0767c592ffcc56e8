import {
  listenHost,
  opsSettings,
  rpcRules,
  rpcSettings,
  rule,
  serviceSettings,
  setting,
  sharedStore,
  type SettingsOf,
  type SettingsRule,
} from '@holdfast/ops';

/** Everything about running tools; the one process that does all has these too. */
export const workingSettings = {
  concurrency: setting.integer('HOLDFAST_WORKER_CONCURRENCY', {
    about: 'runs that a worker executes at once',
    default: 32,
    min: 1,
    max: 10_000,
  }),
  callerShare: setting.integer('HOLDFAST_WORKER_CALLER_SHARE', {
    about:
      'how many of the slots that others leave free one caller may hold at once, in percent: of HOLDFAST_WORKER_CONCURRENCY, and of what an upstream takes at once',
    default: 75,
    min: 1,
    max: 100,
    special: { '100': 'one caller may hold all; right where all calls are of one' },
  }),
  group: setting.string('HOLDFAST_WORKER_GROUP', {
    about: 'workers that carry the same tools',
    default: 'default',
  }),
  connectorWaitMs: setting.duration('HOLDFAST_CONNECTOR_WAIT_MS', {
    about:
      'how long a call of an upstream waits for a connector that takes it; longer than HOLDFAST_CONNECTOR_LEASE_MS, so that a connector that died costs no call',
    default: 30_000,
    min: 100,
  }),
  leaseMs: setting.duration('HOLDFAST_LEASE_MS', {
    about: 'how long a silent worker keeps its runs; renewed at a third of it, at the latest after 5 s',
    default: 30_000,
    min: 100,
  }),
};

export const workerSettings = {
  ...serviceSettings,
  ...opsSettings,
  ...workingSettings,
  ...rpcSettings,
  host: listenHost,
  store: sharedStore,
  connectorUrl: setting.string('HOLDFAST_CONNECTOR_URL', {
    about:
      'the connectors, HOST:PORT; calls go to the address that the owner of a server wrote to the store, and with certificates HOST is the name in them',
    default: '127.0.0.1:50051',
    special: { off: 'this worker calls no upstreams' },
  }),
  tools: setting.list('HOLDFAST_TOOLS', {
    about: 'modules whose exports are tools: paths or package names',
    required: true,
    example: './tools.js',
    special: { off: 'this worker has no tools of its own' },
  }),
};

export const workerRules: readonly SettingsRule[] = [
  ...rpcRules,
  rule(workerSettings, ['tools', 'connectorUrl'], ({ tools, connectorUrl }) =>
    toolModules(tools).length === 0 && connectorUrl === 'off'
      ? {
          variable: 'HOLDFAST_TOOLS',
          message:
            'off leaves nothing to do where HOLDFAST_CONNECTOR_URL is off too; name tools or a connector',
        }
      : undefined,
  ),
];

/**
 * The modules to load. That there are none is said by a word rather than by silence: workers of a group
 * carry the same tools, so one that forgot them would take those of its group off the list.
 */
export function toolModules(tools: readonly string[]): readonly string[] {
  return tools.length === 1 && tools[0] === 'off' ? [] : tools;
}

export type WorkingSettings = SettingsOf<typeof workingSettings & typeof serviceSettings>;
