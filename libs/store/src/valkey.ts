import { randomUUID } from 'node:crypto';
import { RunError, type NewRun, type Principal, type Progress, type Run, type RunEvent } from '@holdfast/run';
import type {
  Catalogue,
  Claim,
  ClaimKey,
  ClaimRequest,
  LiveWorker,
  News,
  RunFilter,
  RunStore,
  ServerOwner,
  ServerStore,
  Session,
  SessionStore,
  Signal,
  Store,
  Submission,
  ToolStore,
  WorkerStore,
} from './contract.js';
import { callerKey, shareOf } from './fair-share.js';
import type { ListenerLog, Listening } from './listening.js';
import { toCatalogue, toFinished, toRun, toRunning, traceText, type RunRow, type ToolRow } from './rows.js';
import { readHint, sayUnread, Signals } from './signals.js';
import { Connection, fromText, readAddress, toText, type Address } from './valkey-connection.js';
import { listenToValkey } from './valkey-listen.js';
import { aboutFields, runFields, type ScriptName } from './valkey-scripts.js';
import { prepareServer } from './valkey-server.js';
import { WriteBatches, type Dispatched, type Finish, type Report, type Submit } from './write-batches.js';

export interface ValkeyOptions {
  /** `valkey://user:password@host:port/number`; `valkeys:` for TLS, `redis:` and `rediss:` as well. */
  readonly url: string;
  readonly log?: ListenerLog;
  /** How often listeners are told to look at everything while signals are not heard, in milliseconds. */
  readonly pollMs?: number;
  /** How long a command may take before its connection is given up, in milliseconds. */
  readonly commandMs?: number;
}

/**
 * Opens the run store in a Valkey server, or in a Redis one.
 *
 * Submits, ends, reports and dispatch marks of this process gather into one script each while an
 * earlier one is under way, and send one signal together.
 *
 * @throws RunError `store-unfit` with the remedy when trying again does not help,
 *   `store-unavailable` when the server cannot be reached now
 */
export async function openValkey({
  url,
  log = silent,
  pollMs = 500,
  commandMs = 10_000,
}: ValkeyOptions): Promise<Store> {
  const address = readAddress(url);
  await prepareServer(address, commandMs, (message) => log.warn({ store: address.name }, message));
  const store = new ValkeyStore(address, { log, pollMs, commandMs });
  try {
    await store.start();
  } catch (error) {
    await store.close();
    throw error;
  }
  return store;
}

const silent: ListenerLog = { info: () => {}, warn: () => {} };

type Argument = string | number;

class ValkeyStore implements Store {
  readonly kind = 'valkey';
  readonly #address: Address;
  readonly #commandMs: number;
  readonly #main: Connection;
  /** Where writes wait for the disk, so that nothing else waits with them; otherwise the same as the main one. */
  readonly #durable: Connection;
  readonly #signals = new Signals();
  /** Marks our own signals, which are given when their script is done. */
  readonly #origin = randomUUID().slice(0, 8);
  readonly #subscriber: Listening;
  readonly #sayUnread: () => void;
  readonly #poll: NodeJS.Timeout;
  readonly #batches: WriteBatches;
  #closed: Promise<void> | undefined;

  constructor(
    address: Address,
    { log, pollMs, commandMs }: { log: ListenerLog; pollMs: number; commandMs: number },
  ) {
    this.#address = address;
    this.#sayUnread = sayUnread(log);
    this.#commandMs = commandMs;
    this.#main = new Connection(address, commandMs);
    this.#durable = address.waitAof ? new Connection(address, commandMs) : this.#main;
    this.#subscriber = listenToValkey({
      address,
      commandMs,
      log,
      publish: (payload) => this.#publish(payload),
      onPayload: (payload) => this.#hear(payload),
      onHearing: () => this.#signals.emit({ kind: 'everything' }),
    });
    this.#batches = new WriteBatches({
      submit: (items) => this.#submitAll(items),
      finish: (items) => this.#finishAll(items),
      report: (items) => this.#reportAll(items),
      dispatch: (items) => this.#dispatchAll(items),
      // Scripts tell of a bad item by itself; a failed batch is the fault of none.
      isItemsFault: () => false,
    });
    this.#poll = setInterval(() => {
      if (!this.hearing) this.#signals.emit({ kind: 'everything' });
    }, pollMs).unref();
  }

  async start(): Promise<void> {
    await this.#main.connect();
    if (this.#durable !== this.#main) await this.#durable.connect();
    await this.#subscriber.start();
  }

  get hearing(): boolean {
    return this.#subscriber.hearing;
  }

  subscribe(listener: (signal: Signal) => void): () => void {
    return this.#signals.subscribe(listener);
  }

  #hear(payload: string): void {
    const hint = readHint(payload);
    if (hint === undefined) return this.#sayUnread();
    if (hint.origin === this.#origin) return;
    if (hint.signal.kind === 'cancelled') this.#emitCancelled(hint.signal.seqs);
    else this.#signals.emit(hint.signal);
  }

  async #publish(payload: string): Promise<void> {
    await this.#main.do((redis) => redis.publish(this.#address.channel, payload));
  }

  #emitCancelled(seqs: readonly number[]): void {
    this.#signals.emit({ kind: 'cancelled', seqs });
    this.#signals.emit({ kind: 'runs', seqs });
  }

  #emitQueued(count: number): number {
    if (count > 0) this.#signals.emit({ kind: 'queued' });
    return count;
  }

  #run<Answer>(name: ScriptName, args: readonly Argument[], now?: Date): Promise<Answer> {
    return this.#main.run<Answer>(name, this.#withContext(args, now));
  }

  /** What must outlive a crash of the server, as far as it is set to. */
  #runDurably<Answer>(name: ScriptName, args: readonly Argument[], now?: Date): Promise<Answer> {
    if (!this.#address.waitAof) return this.#run(name, args, now);
    return this.#durable.runDurably<Answer>(name, this.#withContext(args, now), this.#commandMs / 2);
  }

  #withContext(args: readonly Argument[], now: Date | undefined): Argument[] {
    return [timeOf(now), this.#origin, this.#address.channel, ...args];
  }

  async ping(): Promise<void> {
    await this.#main.do((redis) => redis.ping());
  }

  close(): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  async #close(): Promise<void> {
    clearInterval(this.#poll);
    await this.#batches.close();
    await this.#subscriber.close();
    await Promise.all([this.#main.close(), this.#durable.close()]);
  }

  async secret(name: string, make: () => string): Promise<string> {
    return fromText(await this.#runDurably('secret', [toText(name), toText(make())]));
  }

  readonly runs: RunStore = {
    submit: (run, { repeat } = {}, now) => this.#batches.submit(run, repeat, now),
    get: async (id) => {
      const values = await this.#main.do((redis) =>
        redis.hmget(`${this.#address.prefix}run:${id}`, ...runFields),
      );
      return values[0] === null ? undefined : runOf(values);
    },
    news: async (watched) => {
      if (watched.length === 0) return [];
      const told = await this.#run<[seq: string, said: string[], ended?: Values][]>('news', [
        watched.length,
        ...watched.flatMap(({ seq, after }) => [seq, after]),
      ]);
      return told.map(([seq, said, ended]): News => ({
        seq: Number(seq),
        events: said.map(eventOf),
        ...(ended !== undefined && { ended: toFinished(rowOf(ended)) }),
      }));
    },
    claim: (request, now) => this.#claim(request, now),
    report: (claim, events, now) => this.#batches.report(claim, events, now),
    finish: (claim, end, now) => this.#batches.finish(claim, end, now),
    cancel: async (id, ends, now) => {
      const [changed, kept] = await this.#runDurably<[number, Values?]>(
        'cancel',
        [id, ...[ends.queued, ends.running, ends.dispatched].map((end) => JSON.stringify(end))],
        now,
      );
      if (kept === undefined) return undefined;
      const run = runOf(kept);
      if (changed === 1) this.#emitCancelled([run.seq]);
      return run;
    },
    dispatch: (claim) => this.#batches.dispatch(claim),
    revoke: async ({ seq, token }) => {
      const fresh = randomUUID();
      const answer = await this.#runDurably<'revoked' | 'dispatched' | 'stale'>('revoke', [
        seq,
        token,
        fresh,
      ]);
      return answer === 'revoked' ? { token: fresh } : answer;
    },
    release: async (claims) => {
      this.#emitQueued(
        await this.#run<number>('release', [
          claims.length,
          ...claims.flatMap(({ seq, token }) => [seq, token]),
        ]),
      );
    },
    events: async (seq) => {
      const said = await this.#main.do((redis) =>
        redis.zrange(`${this.#address.prefix}events:${seq}`, '0', '-1'),
      );
      return said.map(eventOf);
    },
    list: (filter) => this.#list(filter),
    queue: async () => {
      const [queued, oldest] = await this.#run<[number, string | null]>('queue', []);
      return { queued, oldest: oldest === null ? undefined : new Date(Number(oldest)) };
    },
    removeFinished: async (before, limit, { rememberUntil } = {}, now) => {
      let removed = 0;
      while (removed < limit) {
        // Each in its own script: one server process serves everybody, and long scripts hold it up.
        const step = Math.min(removeStep, limit - removed);
        const count = await this.#run<number>('remove', [before.getTime(), step, timeOf(rememberUntil)], now);
        removed += count;
        if (count < step) break;
      }
      return removed;
    },
  };

  async #submitAll(items: readonly Submit[]): Promise<(Submission | RunError)[]> {
    const answers = await this.#runDurably<SubmitAnswer[]>('submit', [
      items.length,
      ...items.flatMap(({ run, upstream, repeat, now }) => [
        run.id,
        toText(run.workflow),
        lineOf(run),
        aboutOf(run),
        toText(run.arguments),
        upstream ?? '',
        traceText(run) ?? '',
        toText(repeat?.key ?? ''),
        repeat?.windowMs ?? '',
        timeOf(now),
      ]),
    ]);
    this.#emitQueued(answers.filter(([kind]) => kind === 'fresh').length);
    return answers.map((answer, i): Submission | RunError => {
      switch (answer[0]) {
        case 'fresh': {
          const [, seq, at] = answer;
          const run: Run = {
            ...items[i]!.run,
            state: 'queued',
            attempt: 0,
            seq: Number(seq),
            submittedAt: new Date(Number(at)),
          };
          return { kind: 'fresh', run };
        }
        case 'attached':
          return { kind: 'attached', run: runOf(answer[1]) };
        case 'expired':
          return { kind: 'expired' };
        case 'fault':
          return this.#fault(answer[1]);
      }
    });
  }

  async #claim(request: ClaimRequest, now: Date | undefined): Promise<Claim[]> {
    const { worker, definitions, definitionGraceMs, limit, isDurable } = request;
    const { workflows, pools, free, held, share } = shareOf(request, keyOf);
    const token = randomUUID();
    const args = [
      toText(worker),
      token,
      definitionGraceMs,
      limit,
      share,
      workflows.length,
      ...workflows.flatMap((workflow, i) => [toText(workflow), pools[i]!, free[i]!]),
      definitions.length,
      ...definitions.map(toText),
      held.length,
      ...held.flatMap(({ pool, caller, count }) => [pool, caller, count]),
    ];
    const taken = await (isDurable
      ? this.#runDurably<Values[]>('claim', args, now)
      : this.#run<Values[]>('claim', args, now));
    return taken.map((values) => {
      const run = toRunning(rowOf(values));
      return { seq: run.seq, token, run, isDispatched: byName(runFields, values).dispatched !== null };
    });
  }

  async #reportAll(items: readonly Report[]): Promise<(boolean | RunError)[]> {
    const answers = await this.#run<ItemAnswer[]>('report', [
      items.length,
      ...items.flatMap(({ claim, events, now }) => [
        claim.seq,
        claim.token,
        timeOf(now),
        events.length,
        ...events.flatMap(({ n, ...progress }) => [n, JSON.stringify(progress)]),
      ]),
    ]);
    return this.#told(items, answers);
  }

  async #finishAll(items: readonly Finish[]): Promise<(boolean | RunError)[]> {
    const answers = await this.#runDurably<ItemAnswer[]>('finish', [
      items.length,
      ...items.flatMap(({ claim, end, now }) => [
        claim.seq,
        claim.token,
        end.state,
        end.state === 'succeeded' ? toText(end.result) : '',
        end.state === 'succeeded' ? '' : JSON.stringify(end.error),
        timeOf(now),
      ]),
    ]);
    return this.#told(items, answers);
  }

  async #dispatchAll(claims: readonly ClaimKey[]): Promise<(Dispatched | RunError)[]> {
    const answers = await this.#runDurably<(Dispatched | Fault)[]>('dispatch', [
      claims.length,
      ...claims.flatMap(({ seq, token }) => [seq, token]),
    ]);
    return answers.map((answer) => (typeof answer === 'string' ? answer : this.#fault(answer[1])));
  }

  /** Tells listeners of the items that were done, and the callers which those are. */
  #told(items: readonly { claim: ClaimKey }[], answers: readonly ItemAnswer[]): (boolean | RunError)[] {
    const seqs = items.filter((_, i) => answers[i] === 1).map(({ claim }) => claim.seq);
    if (seqs.length > 0) this.#signals.emit({ kind: 'runs', seqs: [...new Set(seqs)] });
    return answers.map((answer) => (Array.isArray(answer) ? this.#fault(answer[1]) : answer === 1));
  }

  /** What the server says of it may quote what was sent; its code does not. */
  #fault(text: string): RunError {
    const code = /^[A-Z]+/.exec(text)?.[0] ?? 'ERR';
    return new RunError('internal', `the Valkey store ${this.#address.name} refused a command (${code})`);
  }

  async #list({ state, tool, principal, like, before, limit }: RunFilter): Promise<Run[]> {
    if (like !== undefined) {
      const alike = await this.#run<Values[]>('like', [
        like.seq,
        likeReach,
        // Rarely asked with more than `like`; what the rest leaves out is not many.
        likeReach * 2,
        aboutOf(like),
      ]);
      return alike
        .map(runOf)
        .filter(
          (run) =>
            (state === undefined || run.state === state) &&
            (tool === undefined || run.tool === tool) &&
            (principal === undefined || run.principal?.id === principal) &&
            (before === undefined || run.seq < before),
        )
        .slice(0, limit);
    }
    // Open runs are found by sets of their own, or few of them among many ended ones would be a long search.
    const source = state === 'queued' ? 'waiting' : state === 'running' ? 'running' : 'runs';
    const found: Run[] = [];
    for (let from: Argument | null = before ?? '+inf'; from !== null && found.length < limit;) {
      const [page, next]: [Values[], string | null] = await this.#run('list', [
        source,
        // An exclusive bound is written with a parenthesis before it, which infinity takes as well.
        from,
        listStep,
        limit - found.length,
        state ?? '',
        filterOf(tool),
        filterOf(principal),
      ]);
      found.push(...page.map(runOf));
      from = next;
    }
    return found;
  }

  readonly workers: WorkerStore = {
    join: async ({ id, group, workflows }, leaseMs, now) => {
      await this.#run('join', [toText(id), JSON.stringify({ group, workflows }), leaseMs], now);
    },
    renew: async (id, leaseMs, now) => (await this.#run('renew', [toText(id), leaseMs], now)) === 1,
    releaseUnknown: async (id, known) =>
      this.#emitQueued(await this.#run('releaseUnknown', [toText(id), known.length, ...known])),
    leave: async (id) => {
      this.#emitQueued(await this.#run('leave', [toText(id)]));
    },
    recover: async (now) => this.#emitQueued(await this.#run('recover', [], now)),
    live: async (now) => {
      const serving = await this.#run<(string | null)[]>('live', [], now);
      return serving.filter((one) => one !== null).map((one) => JSON.parse(one) as LiveWorker);
    },
  };

  readonly sessions: SessionStore = {
    open: (session, { max, idleMs, maxPerPrincipal }, now) =>
      this.#run(
        'openSession',
        [
          session.id,
          JSON.stringify(session.principal && [session.principal.realm, session.principal.id]),
          JSON.stringify(session),
          max,
          idleMs,
          maxPerPrincipal ?? '',
        ],
        now,
      ),
    get: async (id, idleMs, now) => {
      const kept = await this.#run<string | null>('getSession', [id, idleMs], now);
      return kept === null ? undefined : (JSON.parse(kept) as Session);
    },
    touch: async (ids, now) => {
      await this.#run('touchSessions', [ids.length, ...ids], now);
    },
    close: async (id) => {
      if ((await this.#run('closeSession', [id])) === 1) this.#signals.emit({ kind: 'session', id });
    },
    tell: async (id, message) => {
      this.#signals.emit({ kind: 'told', id, message });
      await this.#publish(`${this.#origin} told ${JSON.stringify({ id, message })}`);
    },
    count: (idleMs, now) => this.#run('countSessions', [idleMs], now),
  };

  readonly tools: ToolStore = {
    register: async (group, definitions) => {
      const digests = definitions
        .map(({ digest }) => digest)
        .sort()
        .join();
      const changed = await this.#runDurably('register', [
        toText(group),
        toText(digests),
        JSON.stringify(definitions),
      ]);
      if (changed === 1) this.#signals.emit({ kind: 'tools' });
    },
    list: async (known): Promise<Catalogue | undefined> => {
      const answer = await this.#run<[string, string[], string[]] | null>('listTools', [known ?? '']);
      if (answer === null) return undefined;
      const [revision, groups, servers] = answer;
      const tools = pairs(groups)
        .map(([group, text]) => ({ revision: Number.parseInt(text), rows: toolRows(group, text) }))
        .sort((a, b) => a.revision - b.revision);
      return toCatalogue(
        Number(revision),
        tools.flatMap(({ rows }) => rows),
        pairs(servers)
          .map(([key, catalogue]) => ({ key, catalogue }))
          .sort((a, b) => (a.key < b.key ? -1 : 1)),
      );
    },
  };

  readonly servers: ServerStore = {
    publish: async (catalogue, { owner, lease }, now) => {
      const done = await this.#runDurably<'stale' | 'same' | 'changed'>(
        'publish',
        [lease, owner, catalogue.key, JSON.stringify(catalogue)],
        now,
      );
      if (done === 'changed') this.#signals.emit({ kind: 'tools' });
      return done !== 'stale';
    },
    own: ({ id, address }, servers, leaseMs, now) => {
      const distinct = [...new Set(servers)];
      return this.#run(
        'own',
        [id, JSON.stringify({ id, address }), leaseMs, distinct.length, ...distinct],
        now,
      );
    },
    disown: async (owner, servers) => {
      await this.#run('disown', [owner, servers.length, ...servers]);
    },
    owners: async (now) => {
      const owners = await this.#run<[server: string, owner: string][]>('owners', [], now);
      return new Map(owners.map(([server, owner]) => [server, JSON.parse(owner) as ServerOwner]));
    },
  };
}

/** The fields of a run in the order of `runFields`; null for what it has not. */
type Values = readonly (string | null)[];

type SubmitAnswer =
  | readonly ['fresh', seq: string, at: string]
  | readonly ['attached', run: Values]
  | readonly ['expired']
  | Fault;

type ItemAnswer = 0 | 1 | Fault;

type Fault = readonly ['fault', text: string];

/** How far `like` looks to either side, in submissions. */
const likeReach = 1_000;
/** How many runs one script looks at or removes; about a millisecond. */
const listStep = 500;
const removeStep = 100;

/** The fields and values of a hash, in the order in which the server gives them. */
function pairs(hash: readonly string[]): [field: string, value: string][] {
  return Array.from({ length: hash.length / 2 }, (_, i) => [hash[2 * i]!, hash[2 * i + 1]!]);
}

/** @param text  the revision, a space, and the definitions as a JSON array; one that is none is a row that cannot be read */
function toolRows(group: string, text: string): ToolRow[] {
  const list = text.slice(text.indexOf(' ') + 1);
  try {
    const definitions = JSON.parse(list) as { name?: unknown }[];
    return definitions.map((definition) => ({
      name: String(definition?.name),
      definition: JSON.stringify(definition),
    }));
  } catch {
    return [{ name: group, definition: list }];
  }
}

const timeOf = (time: Date | undefined): Argument => time?.getTime() ?? '';

const filterOf = (text: string | undefined): string =>
  text === undefined ? '' : JSON.stringify([toText(text)]);

/** `callerKey` of the names as they are kept, which scripts make it of too. */
const keyOf = (principal: Principal | null): string =>
  callerKey(principal && { realm: toText(principal.realm), id: toText(principal.id) });

/** In which of the queues of its workflow a run waits: those of one definition and caller are in one. */
const lineOf = ({ definition, principal }: NewRun): string =>
  principal === null ? toText(definition) : `${toText(definition)}\n${keyOf(principal)}`;

/** What never changes of a run, but for its arguments. Scripts compare parts of it. */
function aboutOf(run: NewRun): string {
  const about: Record<(typeof aboutFields)[number], string | null> = {
    workflow: toText(run.workflow),
    tool: toText(run.tool),
    tool_class: run.toolClass,
    realm: run.principal && toText(run.principal.realm),
    principal: run.principal && toText(run.principal.id),
    digest: toText(run.digest),
    definition: toText(run.definition),
  };
  return JSON.stringify(aboutFields.map((name) => about[name]));
}

function eventOf(said: string): RunEvent {
  const [n, at] = said.split(' ', 2) as [string, string];
  return {
    n: Number(n),
    at: new Date(Number(at)),
    progress: JSON.parse(said.slice(n.length + at.length + 2)) as Progress,
  };
}

const runOf = (values: Values): Run => toRun(rowOf(values));

function rowOf(values: Values): RunRow {
  const text = byName(runFields, values);
  const about = byName(aboutFields, JSON.parse(text.about!) as Values);
  const number = (value: string | null): number | null => (value === null ? null : Number(value));
  const decoded = (value: string | null): string | null => (value === null ? null : fromText(value));
  const isOpen = text.state === 'queued' || text.state === 'running';
  return {
    seq: Number(text.seq),
    id: text.id!,
    workflow: fromText(about.workflow!),
    tool: fromText(about.tool!),
    tool_class: about.tool_class!,
    realm: decoded(about.realm),
    principal: decoded(about.principal),
    arguments: fromText(text.arguments!),
    digest: fromText(about.digest!),
    definition: fromText(about.definition!),
    upstream: text.upstream,
    trace: text.trace,
    submitted_at: Number(text.submitted_at),
    attempt: Number(text.attempt),
    started_at: number(text.started_at),
    finished_at: number(text.finished_at),
    state: isOpen ? 'open' : (text.state as RunRow['state']),
    result: decoded(text.result),
    error: text.error,
    queue_attempt: null,
    claimed_at: isOpen ? number(text.started_at) : null,
  };
}

function byName<Name extends string>(names: readonly Name[], values: Values): Record<Name, string | null> {
  return Object.fromEntries(names.map((name, i) => [name, values[i] ?? null])) as Record<Name, string | null>;
}
