import { freshRunId, type NewRun, type Run } from '@holdfast/run';
import type { ClaimRequest, Store } from './contract.js';

/** A call of a write, as a gateway submits it. */
export function newRun(change: Partial<NewRun> = {}): NewRun {
  return {
    id: freshRunId(Date.now()),
    workflow: 'mcp:tool:refund_order',
    tool: 'refund_order',
    toolClass: 'write',
    principal: { realm: 'apikey', id: 'desk' },
    arguments: '{"order_id":"o-17"}',
    digest: 'a1_x',
    definition: 'd1_x',
    ...change,
  };
}

let workers = 0;

/** A worker that lives for an hour, and what it claims. */
export async function join(store: Store, change: Partial<ClaimRequest> = {}): Promise<ClaimRequest> {
  const request = {
    worker: `worker-${++workers}`,
    workflows: ['mcp:tool:refund_order'],
    definitions: ['d1_x'],
    definitionGraceMs: 1_000,
    limit: 100,
    isDurable: true,
    sweep: false,
    ...change,
  };
  await store.workers.join({ id: request.worker, group: 'default', workflows: request.workflows }, 3_600_000);
  return request;
}

export async function submit(store: Store, change: Partial<NewRun> = {}): Promise<Run> {
  const submission = await store.runs.submit(newRun(change));
  if (submission.kind !== 'fresh') throw new Error(`expected a fresh run, got ${submission.kind}`);
  return submission.run;
}
