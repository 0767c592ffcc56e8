import { expect } from '@jest/globals';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Fleet } from './fleet.ts';
import { errorNameOf, eras, resultOf, runOf, type Host, type ToolResult } from './host.ts';
import { root, startConnector, startWorker, until, type Service } from './service.ts';

export const breakableTools = join(root, 'test/system/tools/breakable.ts');

/** One call, to be sent as often as it takes. */
export interface Call {
  readonly tool: string;
  readonly args: Record<string, unknown> & { readonly order_id: string };
  readonly token: string;
}

let orders = 0;

/** A call of `tools/breakable.ts` with an order and a token of its own. */
export function refund(args: Record<string, unknown> = {}, tool = 'refund_again'): Call {
  const order_id = `o-${++orders}`;
  return { tool, args: { order_id, ...args }, token: `token-${order_id}` };
}

/** Hosts of both eras with one key: a call that both send with one token is one run. */
export function bothEras(fleet: Fleet): Promise<Host[]> {
  return Promise.all(eras.map((era) => fleet.host(era)));
}

/**
 * All hosts send a call and do not give up: where a connection breaks, or the server says that
 * it failed, they send it again with its token to the next gateway, until they have an answer.
 * All of them must get the one result; `sent` tells how often each had to send.
 */
export async function persist(
  fleet: Fleet,
  hosts: readonly Host[],
  call: Call,
  { gateway = 0 } = {},
): Promise<{ readonly result: ToolResult; readonly sent: readonly number[] }> {
  const answers = await Promise.all(hosts.map((host) => persistOne(fleet, host, call, gateway)));
  const [{ result }] = answers as [(typeof answers)[0]];
  for (const other of answers) {
    expect(saidIn(other.result)).toEqual(saidIn(result));
    expect(runOf(other.result)).toMatchObject({ id: runOf(result).id, attempt: runOf(result).attempt });
  }
  return { result, sent: answers.map(({ sent }) => sent) };
}

/** What a result says, without what each era adds. */
const saidIn = ({ content, structuredContent, isError }: ToolResult): object => ({
  content,
  structuredContent,
  isError,
});

async function persistOne(
  fleet: Fleet,
  host: Host,
  { tool, args, token }: Call,
  gateway: number,
): Promise<{ result: ToolResult; sent: number }> {
  let sent = 0;
  const result = await until(async () => {
    try {
      const answer = await host.begin(tool, args, { token, via: fleet.url(gateway + sent++) }).answer;
      if (answer.status >= 500) return undefined;
      const answered = resultOf(answer);
      return errorNameOf(answered) === 'InternalError' ? undefined : answered;
    } catch (error) {
      if ((error as { status?: number }).status !== undefined) throw error;
      return undefined;
    }
  });
  return { result, sent };
}

/** The processes that execute runs. */
export function executors(fleet: Fleet): readonly Service[] {
  return fleet.kind === 'standalone' ? fleet.gateways.map(({ service }) => service) : fleet.workers;
}

export async function oneDied(fleet: Fleet): Promise<void> {
  await until(() => executors(fleet).some(({ isRunning }) => !isRunning));
}

/** Starts what has ended anew, as a supervisor does: gateways on the port that they had. */
export async function revive(fleet: Fleet): Promise<void> {
  await Promise.all([
    ...fleet.gateways.map(async ({ service }, i) => {
      if (!service.isRunning) await fleet.restartGateway(i);
    }),
    ...fleet.workers.map(async ({ isRunning }, i) => {
      if (!isRunning) fleet.workers[i] = await startWorker(fleet.env);
    }),
    ...fleet.connectors.map(async ({ isRunning }, i) => {
      if (!isRunning) fleet.connectors[i] = await startConnector(fleet.env);
    }),
  ]);
}

/** The body, or the check of its arguments, waits for `release`. */
export async function waiting(fleet: Fleet, { args }: Call): Promise<void> {
  await until(() => existsSync(join(fleet.folder, `waits-${args.order_id}`)));
}

export function release(fleet: Fleet, { args }: Call): void {
  writeFileSync(join(fleet.folder, `release-${args.order_id}`), '');
}

/** The id of the only run of a call, as soon as there is one. */
export async function runIdOf(fleet: Fleet, state: string, gateway = 0): Promise<string> {
  const { id } = await until(async () => {
    const { body } = await fleet.api(`/runs?state=${state}&limit=1`, undefined, gateway);
    return (body['runs'] as { id: string }[])[0];
  });
  return id;
}

/** Every gateway gives every host the same result again, and nothing is left undone. */
export async function expectSettled(
  fleet: Fleet,
  hosts: readonly Host[],
  { tool, args, token }: Call,
  result: ToolResult,
): Promise<void> {
  for (const host of hosts) {
    for (const gateway of fleet.gateways.keys()) {
      const repeat = await host.call(tool, args, { token, via: fleet.url(gateway) });
      expect(repeat).toMatchObject({
        ...result,
        _meta: { 'holdfast/run': { ...runOf(result), reattached: true } },
      });
    }
  }
  for (const state of ['queued', 'running'])
    expect((await fleet.api(`/runs?state=${state}`)).body['runs']).toEqual([]);
}

/** How often the body of a run came to its end. */
export function completions(fleet: Fleet, result: ToolResult): number {
  return fleet.journal(runOf(result).id).filter(({ what }) => what === 'end').length;
}
