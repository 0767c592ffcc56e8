import { McpUnavailable } from '@holdfast/mcp-server';
import type { Store } from '@holdfast/store';

/** A store that is not there yet: each verb is refused with 503, and nothing is signalled. */
export const absentStore: Store = new Proxy({} as Store, {
  get: (_target, name) => {
    if (name === 'subscribe') return () => () => {};
    return new Proxy({}, { get: () => () => Promise.reject(new McpUnavailable()) });
  },
});
