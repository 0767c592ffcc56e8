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
import type { ServerCatalogue, ToolDefinition } from '@holdfast/tools';
import type { Claim } from './contract.js';

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

/** Of two definitions of one name the later registration counts. `rows` are ordered by revision. */
export function toTools(rows: readonly { definition: string }[]): ToolDefinition[] {
  const byName = new Map<string, ToolDefinition>();
  for (const row of rows) {
    const definition = JSON.parse(row.definition) as ToolDefinition;
    byName.set(definition.name, definition);
  }
  return [...byName.values()];
}

/** @param catalogues  as published */
export const toServers = (catalogues: readonly string[]): ServerCatalogue[] =>
  catalogues.map((catalogue) => JSON.parse(catalogue) as ServerCatalogue);

/** Whether a group registers just what it has registered already. */
export function sameTools(
  kept: readonly { definition: string }[],
  offered: readonly ToolDefinition[],
): boolean {
  const digests = (list: readonly ToolDefinition[]): string =>
    list
      .map(({ digest }) => digest)
      .sort()
      .join();
  return digests(kept.map(({ definition }) => JSON.parse(definition) as ToolDefinition)) === digests(offered);
}
