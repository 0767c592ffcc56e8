import { logLevels } from './log.js';
import { setting } from './setting.js';

const storeForms = /^(memory:$|sqlite:.|postgres(ql)?:\/\/.|(valkey|redis)s?:\/\/.)/;

/** What is wrong with a store URL; undefined when nothing is. The URL may hold a password and is not echoed. */
function storeProblem(url: string): string | undefined {
  return storeForms.test(url)
    ? undefined
    : 'names no store; use sqlite:PATH, postgres://user:password@host/database or valkey://user:password@host';
}

/** A separate service cannot see what another process keeps in its memory. */
function sharedStoreProblem(url: string): string | undefined {
  if (url === 'memory:')
    return 'memory: is for one process only; separate services need sqlite:PATH (one machine), postgres://… or valkey://…';
  return storeProblem(url);
}

/** The setting of the store, for a service that shares it and for the one process that may keep it to itself. */
export const sharedStore = setting.string('HOLDFAST_STORE', {
  about: 'where runs, sessions and tools are kept',
  example: 'postgres://host/holdfast',
  required: true,
  secret: true,
  check: sharedStoreProblem,
});
export const ownStore = setting.string('HOLDFAST_STORE', {
  about: 'where runs, sessions and tools are kept',
  default: 'sqlite:./data/holdfast.db',
  defaultText: '`sqlite:./data/holdfast.db`',
  secret: true,
  check: (url) => {
    const problem = storeProblem(url);
    return problem && `${problem}, or memory: with its colon`;
  },
});

/** Settings that every service has. */
export const serviceSettings = {
  storeListenUrl: setting.string('HOLDFAST_STORE_LISTEN_URL', {
    about: 'direct Postgres URL for LISTEN, where HOLDFAST_STORE goes through a pooler',
    defaultText: 'as HOLDFAST_STORE',
    special: { off: 'poll only' },
    secret: true,
    check: (url) =>
      url === 'off' || /^postgres(ql)?:\/\/./.test(url) ? undefined : 'must be a postgres:// URL or off',
  }),
  pollIntervalMs: setting.duration('HOLDFAST_POLL_INTERVAL_MS', {
    about:
      'fallback poll of the store while its signals are not heard; while they are, ten times slower, and a signal wakes earlier',
    default: 500,
    min: 10,
  }),
  workflowPrefix: setting.string('HOLDFAST_WORKFLOW_PREFIX', {
    about: 'what comes before the name of a tool in the name of its workflow; the same for all services',
    default: 'mcp:tool:',
  }),
  drainMs: setting.duration('HOLDFAST_DRAIN_MS', {
    about: 'how long a stopping service finishes what it has',
    default: 25_000,
    min: 0,
  }),
  logLevel: setting.oneOf('HOLDFAST_LOG_LEVEL', logLevels, {
    about: 'least important level that is logged',
    default: 'info',
  }),
};

/** The address of whatever a service listens on. */
export const listenHost = setting.string('HOLDFAST_HOST', {
  about: 'address to listen on',
  default: '127.0.0.1',
});

/** Where a separate service answers `/healthz`, `/readyz` and `/metrics`. */
export const opsSettings = {
  opsHost: setting.string('HOLDFAST_OPS_HOST', {
    about: 'address of /healthz, /readyz and /metrics',
    defaultText: 'as HOLDFAST_HOST',
  }),
  opsPort: setting.integer('HOLDFAST_OPS_PORT', {
    about: 'port of /healthz, /readyz and /metrics',
    default: 9464,
    min: 0,
    max: 65_535,
    special: { 0: 'a free one, printed' },
  }),
};
