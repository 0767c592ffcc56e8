import { leaseName } from '@holdfast/run';
import type { Store } from '@holdfast/store';
import type { ServerCatalogue } from '@holdfast/tools';

/** Publishes as the connector does that owns the server. */
export async function publish(store: Store, catalogue: ServerCatalogue): Promise<void> {
  const owner = { id: 'connector-of-test', address: '127.0.0.1:50051' };
  const lease = leaseName(catalogue.key);
  await store.servers.own(owner, [lease], 3_600_000);
  if (!(await store.servers.publish(catalogue, { owner: owner.id, lease })))
    throw new Error(`another one owns ${catalogue.key}`);
}
