import {
  listenHost,
  opsSettings,
  rpcSettings,
  serviceSettings,
  setting,
  sharedStore,
  type SettingsOf,
} from '@holdfast/ops';

/** Everything about running tools; the one process that does all has these too. */
export const workingSettings = {
  concurrency: setting.integer('HOLDFAST_WORKER_CONCURRENCY', {
    about: 'runs that a worker executes at once',
    default: 32,
    min: 1,
    max: 10_000,
  }),
  group: setting.string('HOLDFAST_WORKER_GROUP', {
    about: 'workers that carry the same tools',
    default: 'default',
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
  }),
};

export type WorkingSettings = SettingsOf<typeof workingSettings & typeof serviceSettings>;
