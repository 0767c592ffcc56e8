import type { IncomingMessage } from 'node:http';
import {
  Controller,
  Get,
  Header,
  HttpCode,
  HttpException,
  Inject,
  Param,
  Post,
  Query,
  Req,
  UseGuards,
} from '@nestjs/common';
import {
  isFinished,
  isRunId,
  parseJson,
  runStates,
  samePrincipal,
  writeJson,
  type Run,
  type RunEvent,
} from '@holdfast/run';
import type { Store } from '@holdfast/store';
import { z } from 'zod';
import { ApiAccess, apiCallerOf } from './api-access.js';
import { Gateway } from './gateway.js';

const listQuery = z.strictObject({
  state: z.enum(runStates).optional(),
  tool: z.string().max(256).optional(),
  principal: z.string().max(1024).optional(),
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z.coerce.number({ error: 'is not a cursor of ours' }).int().positive().optional(),
});

/** What can be seen of runs: all of them with an admin key, a caller's own with its key (BEHAVIOURS 65). */
@Controller('api/runs')
@UseGuards(ApiAccess)
export class RunsController {
  readonly #gateway: Gateway;

  constructor(@Inject(Gateway) gateway: Gateway) {
    this.#gateway = gateway;
  }

  @Get()
  @Header('Content-Type', 'application/json')
  async list(@Req() request: IncomingMessage, @Query() query: unknown): Promise<string> {
    if (apiCallerOf(request).kind !== 'admin')
      throw new HttpException('an admin key is needed to list runs', 403);
    const parsed = listQuery.safeParse(query);
    if (!parsed.success) {
      throw new HttpException(
        parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'query'}: ${message}`).join('; '),
        400,
      );
    }
    const { state, tool, principal, limit, cursor } = parsed.data;
    const runs = await this.#store().runs.list({
      ...(state && { state }),
      ...(tool !== undefined && { tool }),
      ...(principal !== undefined && { principal }),
      ...(cursor !== undefined && { before: cursor }),
      limit,
    });
    const more = runs.length === limit ? { cursor: String(runs.at(-1)!.seq) } : {};
    return writeJson({ runs: runs.map(summary), ...more })!;
  }

  @Get(':id')
  @Header('Content-Type', 'application/json')
  async show(@Req() request: IncomingMessage, @Param('id') id: string): Promise<string> {
    const { runs } = this.#store();
    const run = await this.#find(request, id);
    const [events, alike] = await Promise.all([runs.events(run.seq), runs.list({ like: run, limit: 20 })]);
    return writeJson({
      ...summary(run),
      arguments: parseJson(run.arguments),
      ...(run.state === 'succeeded' && { result: parseJson(run.result) }),
      ...('error' in run && { error: run.error }),
      events: history(run, events),
      // Runs of the same tool, caller and arguments close by: a host that sent a call twice shows here.
      same_call: alike.map(({ id: other }) => other),
    })!;
  }

  /** Ends a run that has not ended, and stops the attempt that is under way (BEHAVIOURS X10). */
  @Post(':id/cancel')
  @HttpCode(200)
  @Header('Content-Type', 'application/json')
  async cancel(@Req() request: IncomingMessage, @Param('id') id: string): Promise<string> {
    const run = await this.#find(request, id);
    const ended = await this.#gateway.cancel(run);
    if (ended.state !== 'cancelled')
      throw new HttpException(`the run has ended already: it is ${ended.state}`, 409);
    return writeJson({ ...summary(ended), error: ended.error })!;
  }

  /** @throws HttpException 404 for a run that is not there, or is somebody else's */
  async #find(request: IncomingMessage, id: string): Promise<Run> {
    const run = isRunId(id) ? await this.#store().runs.get(id) : undefined;
    const caller = apiCallerOf(request);
    if (run === undefined || (caller.kind === 'caller' && !samePrincipal(caller.principal, run.principal))) {
      throw new HttpException('there is no such run', 404);
    }
    return run;
  }

  #store(): Store {
    const { store } = this.#gateway;
    if (store === undefined) throw new HttpException('the store is not there yet', 503);
    return store;
  }
}

function summary(run: Run): object {
  return {
    id: run.id,
    tool: run.tool,
    tool_class: run.toolClass,
    ...(run.upstream && { upstream: { server: run.upstream.server, tool: run.upstream.tool } }),
    principal: run.principal,
    state: run.state,
    attempt: run.attempt,
    submitted_at: run.submittedAt,
    started_at: 'startedAt' in run ? run.startedAt : null,
    finished_at: isFinished(run) ? run.finishedAt : null,
  };
}

/** What happened to a run, in order. */
function history(run: Run, events: readonly RunEvent[]): object[] {
  const started =
    'startedAt' in run && run.startedAt !== null
      ? [{ at: run.startedAt, event: 'attempt_started', attempt: run.attempt }]
      : [];
  const told = events.map(({ n, at, progress }) => ({
    at,
    event: 'progress',
    attempt: Math.floor(n / 1_000_000),
    ...progress,
  }));
  const all = [{ at: run.submittedAt, event: 'submitted' }, ...started, ...told];
  all.sort((a, b) => a.at.getTime() - b.at.getTime());
  return isFinished(run) ? [...all, { at: run.finishedAt, event: run.state }] : all;
}
