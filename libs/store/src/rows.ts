import type {
  CallError,
  FinishedRun,
  NewRun,
  Principal,
  Run,
  RunId,
  ToolClass,
  TraceContext,
  UpstreamTarget,
} from '@holdfast/run';
import { readKeptServer, readKeptTool, type ServerCatalogue, type ToolDefinition } from '@holdfast/tools';
import type { Catalogue, Claim, UnreadableRow } from './contract.js';

/** A row of `runs` joined with its row of `queue`, as the SQL stores select it. Times are milliseconds. */
export interface RunRow {
  seq: number;
  id: string;
  workflow: string;
  tool: string;
  tool_class: string;
  realm: string | null;
  principal: string | null;
  arguments: string;
  digest: string;
  definition: string;
  /** `UpstreamTarget` as JSON. */
  upstream: string | null;
  /** `TraceContext` as JSON. */
  trace: string | null;
  submitted_at: number;
  attempt: number;
  started_at: number | null;
  finished_at: number | null;
  state: 'open' | 'succeeded' | 'failed' | 'cancelled';
  result: string | null;
  error: string | null;
  /** From the queue; null when the run has ended. */
  queue_attempt: number | null;
  claimed_at: number | null;
}

export function toRun(row: RunRow): Run {
  const submitted = {
    id: row.id as RunId,
    workflow: row.workflow,
    tool: row.tool,
    toolClass: row.tool_class as ToolClass,
    principal: toPrincipal(row),
    arguments: row.arguments,
    digest: row.digest,
    definition: row.definition,
    ...(row.upstream !== null && { upstream: JSON.parse(row.upstream) as UpstreamTarget }),
    ...(row.trace !== null && { trace: JSON.parse(row.trace) as TraceContext }),
    seq: row.seq,
    submittedAt: new Date(row.submitted_at),
    attempt: row.queue_attempt ?? row.attempt,
  };
  if (row.state === 'open') {
    return row.claimed_at === null
      ? { ...submitted, state: 'queued' }
      : { ...submitted, state: 'running', startedAt: new Date(row.claimed_at) };
  }
  const ended = {
    ...submitted,
    startedAt: row.started_at === null ? null : new Date(row.started_at),
    finishedAt: new Date(row.finished_at!),
  };
  return row.state === 'succeeded'
    ? { ...ended, state: 'succeeded', result: row.result! }
    : { ...ended, state: row.state, error: JSON.parse(row.error!) as CallError };
}

/** Of a row that was selected as one of a run that has ended. */
export const toFinished = (row: RunRow): FinishedRun => toRun(row) as FinishedRun;

/** Of a row that a claim has just taken. */
export const toRunning = (row: RunRow): Claim['run'] => toRun(row) as Claim['run'];

/**
 * What a store keeps of `NewRun.upstream`: well-formed text, whatever a host wrote into it. Written before
 * the run joins others in a batch, so that one whose nesting is too deep to be written fails alone.
 */
export const upstreamText = ({ upstream }: NewRun): string | null =>
  upstream === undefined ? null : JSON.stringify(upstream);

/** What a store keeps of `NewRun.trace`. */
export const traceText = ({ trace }: NewRun): string | null =>
  trace === undefined ? null : JSON.stringify(trace);

export function toPrincipal({
  realm,
  principal,
}: {
  realm: string | null;
  principal: string | null;
}): Principal | null {
  return realm === null || principal === null ? null : { realm, id: principal };
}

/** A definition as it is kept, with the name that its row has. */
export interface ToolRow {
  readonly name: string;
  readonly definition: string;
}

/** A catalogue as it is kept, with the key that its row has. */
export interface ServerRow {
  readonly key: string;
  readonly catalogue: string;
}

/**
 * What is kept, as a list. A row that cannot be read is left out alone: it must not take the tools of everybody away.
 *
 * @param tools  ordered by revision: of two definitions of one name the later registration counts
 */
export function toCatalogue(
  revision: number,
  tools: readonly ToolRow[],
  servers: readonly ServerRow[],
): Catalogue {
  const unreadable: UnreadableRow[] = [];
  const byName = new Map<string, ToolDefinition>();
  for (const { name, definition } of tools) {
    const kept = readKeptTool(definition);
    if ('problem' in kept) unreadable.push({ kind: 'tool', name, ...kept });
    else byName.set(kept.value.name, kept.value);
  }
  const byKey = new Map<string, ServerCatalogue>();
  for (const { key, catalogue } of servers) {
    const kept = readKeptServer(catalogue);
    if ('problem' in kept) unreadable.push({ kind: 'server', name: key, ...kept });
    else if (kept.value.key !== key)
      unreadable.push({ kind: 'server', name: key, problem: 'it is the catalogue of another server' });
    else byKey.set(key, kept.value);
  }
  return { revision, tools: [...byName.values()], servers: [...byKey.values()], unreadable };
}

/** Whether a group registers just what it has registered already. */
export function sameTools(
  kept: readonly { definition: string }[],
  offered: readonly ToolDefinition[],
): boolean {
  const digests = kept.map(({ definition }) => {
    const read = readKeptTool(definition);
    return 'value' in read ? read.value.digest : undefined;
  });
  return (
    !digests.includes(undefined) &&
    digests.sort().join() ===
      offered
        .map(({ digest }) => digest)
        .sort()
        .join()
  );
}
