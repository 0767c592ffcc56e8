import { setTimeout as sleep } from 'node:timers/promises';
import { type Connection, ConnectionFault } from '@holdfast/mcp-client';
import canonicalize from 'canonicalize';
import { ensureError, type Log, type UpstreamOutcome, type UpstreamRequest } from '@holdfast/run';
import {
  heldToHints,
  hintsAmong,
  type HintedTool,
  type ServerCatalogue,
  type UpstreamTool,
} from '@holdfast/tools';
import { listTools, type ReadDefinitions } from './listing.js';
import type { Diagnostic } from './diagnostic.js';
import { Pool, type Open } from './pool.js';
import { Sender, type CallOptions } from './sender.js';
import type { ServerSettings } from './server-settings.js';

export interface ServerParts {
  readonly settings: ServerSettings;
  /** The catalogue as it is in the store; undefined before the server was ever connected. */
  readonly known: ServerCatalogue | undefined;
  /** What the catalogue is built on: everything but the tools. */
  readonly entry: Omit<ServerCatalogue, 'tools'>;
  readonly open: Open;
  /** Resolves to false when the server is not this connector's now, and nothing was kept. */
  readonly publish: (catalogue: ServerCatalogue) => Promise<boolean>;
  readonly log: Log;
  readonly diagnose: (diagnostic: Diagnostic) => void;
  readonly onConnected: (isConnected: boolean) => void;
}

/** Between two tries to connect in the background, doubling (BEHAVIOURS 157). */
const firstPauseMs = 5_000;
const longestPauseMs = 300_000;
/** Between two listings that a server asked for; doubling while they bring nothing new (BEHAVIOURS 89, F77). */
const firstListPauseMs = 1_000;
const longestListPauseMs = 60_000;
/** Between two listings because the list has grown old, whatever the server says of it. */
const leastStatedTtlMs = 5_000;
/** Names of withdrawn tools that the catalogue of one server keeps. */
const maxWithdrawn = 1_000;
const longestTimerMs = 2 ** 31 - 1;
const idleCallerMs = 15 * 60_000;

/**
 * One upstream server while this connector owns it: connected and listed in the background, listed
 * again when it says so, and called. Nothing that it does wrong reaches another server.
 */
export class UpstreamServer {
  readonly #parts: ServerParts;
  readonly #pool: Pool;
  readonly #sender: Sender;
  readonly #closing = new AbortController();
  #tools: ReadonlyMap<string, UpstreamTool>;
  #published: ServerCatalogue | undefined;
  #wasListed = false;
  #listing: Promise<void> | undefined;
  #listAgain = false;
  /** Whether the server asked for the next listing, and not the age of the last. */
  #isAsked = false;
  #listPauseMs = firstListPauseMs;
  #aging: NodeJS.Timeout | undefined;
  #fault: string | undefined;
  #read: ReadDefinitions = new Map();
  /** What was reported of its tools at the last listing: nothing is reported twice in a row. */
  #reported: ReadonlySet<string> = new Set();

  constructor(parts: ServerParts) {
    const { settings, entry, known } = parts;
    this.#parts = parts;
    this.#pool = new Pool(
      parts.open,
      {
        server: entry.name,
        perPrincipal: settings.sessionScope === 'principal',
        connectRetries: settings.connectRetries,
        connectBackoffMs: settings.connectBackoffMs,
        idleMs: idleCallerMs,
      },
      (connection, isShared) => this.#onOpened(connection, isShared),
    );
    this.#published = known;
    this.#tools = byName(known?.tools ?? []);
    this.#sender = new Sender({
      pool: this.#pool,
      id: entry.id,
      name: entry.name,
      rules: entry.rules,
      toolOf: (name) => this.#tools.get(name),
      log: parts.log,
    });
  }

  get id(): string {
    return this.#parts.entry.id;
  }

  get settings(): ServerSettings {
    return this.#parts.settings;
  }

  get key(): string {
    return this.#parts.entry.key;
  }

  get sharesId(): boolean | undefined {
    return this.#parts.entry.sharesId;
  }

  /** Whether its tools were read from the server itself, since it is ours. */
  get isListed(): boolean {
    return this.#wasListed;
  }

  /** Why it is not connected, for people; undefined while nothing is known to be wrong. */
  get fault(): string | undefined {
    return this.#fault;
  }

  get isConnected(): boolean {
    return this.#pool.isConnected;
  }

  get underWay(): number {
    return this.#sender.underWay;
  }

  /** Connects in the background, for ever, until closed. */
  start(): void {
    void this.#connectUntilListed();
  }

  call(request: UpstreamRequest, options: CallOptions): Promise<UpstreamOutcome> {
    return this.#sender.call(request, options);
  }

  /** Sends away the calls that wait for their turn; those under way go on. */
  turnAway(): void {
    this.#sender.turnAway();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    clearInterval(this.#aging);
    await this.#pool.close();
    await this.#listing;
  }

  async #connectUntilListed(): Promise<void> {
    // The operator's rules count at once, also for a server that cannot be reached.
    if (this.#published !== undefined) await this.#publish([...this.#tools.values()]);
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, longestPauseMs)) {
      try {
        await this.#pool.get(null);
        await this.#list();
        if (this.#listAgain) this.#listSoon();
        if (this.#wasListed) return;
      } catch (error) {
        this.#fail(error);
      }
      await sleep(pauseMs * (0.75 + Math.random() / 2), undefined, {
        signal: this.#closing.signal,
        ref: false,
      }).catch(() => {});
      // A call may have connected it meanwhile.
      if (this.#closing.signal.aborted || this.#wasListed) return;
    }
  }

  #onOpened(connection: Connection, isShared: boolean): void {
    this.#parts.onConnected(true);
    if (!isShared && this.#wasListed) return;
    connection.onToolsChanged(() => {
      this.#isAsked = true;
      this.#listSoon();
    });
    // A server that comes back may be another version of itself.
    if (this.#wasListed) this.#listSoon();
  }

  /** Lists again from time to time: as often as the operator says, or the server where that is oftener (BEHAVIOURS R11). */
  #listWhenOld(statedTtlMs: number): void {
    clearInterval(this.#aging);
    const { cacheTtlMs = Infinity } = this.#parts.settings;
    const ttlMs = Math.min(cacheTtlMs, Math.max(statedTtlMs, leastStatedTtlMs));
    if (ttlMs === Infinity) return;
    const list = (): void => {
      // One that cannot be reached is connected again by its calls, not by the clock.
      if (this.#pool.isConnected) this.#listSoon();
    };
    this.#aging = setInterval(list, Math.min(ttlMs, longestTimerMs)).unref();
  }

  /** Lists again: at once, and once more later for whatever was said meanwhile. */
  #listSoon(): void {
    this.#listAgain = true;
    this.#listing ??= this.#listWhileAsked().finally(() => (this.#listing = undefined));
  }

  async #listWhileAsked(): Promise<void> {
    while (this.#listAgain && !this.#closing.signal.aborted) {
      this.#listAgain = false;
      const isAsked = this.#isAsked;
      this.#isAsked = false;
      const before = this.#published;
      try {
        await this.#list();
      } catch (error) {
        this.#fail(error);
        // A server that is away for a while is listed when it is back, without a call that would connect it.
        if (error instanceof ConnectionFault && error.code === 'unreachable')
          this.#isAsked = this.#listAgain = true;
      }
      // What it asks for in vain it gets later and later.
      if (this.#published !== before) this.#listPauseMs = firstListPauseMs;
      else if (isAsked) this.#listPauseMs = Math.min(this.#listPauseMs * 2, longestListPauseMs);
      const pauseMs = isAsked ? this.#listPauseMs : firstListPauseMs;
      await sleep(pauseMs, undefined, { signal: this.#closing.signal, ref: false }).catch(() => {});
    }
  }

  /** @throws ConnectionFault; the tools of before stay then */
  async #list(): Promise<void> {
    const { settings, entry, log } = this.#parts;
    const connection = await this.#pool.get(null);
    const release = this.#pool.hold(connection);
    let listing;
    try {
      const { maxToolPages: maxPages, maxTools, connectTimeoutMs: timeoutMs } = settings;
      listing = await listTools(connection, entry.name, { maxPages, maxTools, timeoutMs }, this.#read);
    } catch (error) {
      // Its session may be what is wrong: the next try begins with a new one.
      this.#pool.drop(connection);
      throw error;
    } finally {
      release();
    }
    this.#read = listing.read;
    this.#report([
      ...listing.leftOut.map(({ name, problem }) => `${JSON.stringify(name)}, which is left out: ${problem}`),
      ...listing.flawed.map(
        ({ name, flaws }) =>
          `${JSON.stringify(name)}, which is served without its flaws: ${flaws.join('; ')}`,
      ),
    ]);
    this.#checkNamed(listing.tools);
    const tools = this.#held(listing.tools);
    this.#tools = byName(tools);
    await this.#publish(tools);
    if (this.#closing.signal.aborted) return;
    if (!this.#wasListed) {
      const { protocolVersion, serverInfo } = connection;
      log.info(
        { server: entry.id, tools: listing.tools.length, protocolVersion, serverInfo },
        'server connected',
      );
    }
    this.#wasListed = true;
    this.#fault = undefined;
    this.#listWhenOld(listing.ttlMs);
  }

  #report(problems: readonly string[]): void {
    const { entry, diagnose } = this.#parts;
    for (const problem of problems.filter((one) => !this.#reported.has(one))) {
      const message = `${entry.name} lists ${problem}`;
      diagnose({ section: 'servers', rule: 'server-entry-invalid', origin: entry.id, message });
    }
    this.#reported = new Set(problems);
  }

  /**
   * Looks for the tools that the operator's rules name.
   * @throws ConnectionFault for one that would be called without its approval under another name
   */
  #checkNamed(tools: readonly UpstreamTool[]): void {
    const { entry, log } = this.#parts;
    const { requiresApproval, allow = [], deny = [], overrides } = entry.rules;
    const names = new Set(tools.map(({ name }) => name));
    const unguarded = requiresApproval.find((name) => !names.has(name));
    if (unguarded !== undefined) {
      throw new ConnectionFault(
        'listing',
        `${entry.name} has no tool ${JSON.stringify(unguarded)}, which requires_approval names; correct the name`,
      );
    }
    for (const name of [...allow, ...deny, ...Object.keys(overrides)]) {
      if (!names.has(name))
        log.warn({ server: entry.id, tool: name }, 'the settings name a tool that the server does not have');
    }
  }

  /** The tools with the stricter of their hints and those that they were known by. */
  #held(tools: readonly UpstreamTool[]): readonly UpstreamTool[] {
    const { tools: known = [], withdrawn = [] } = this.#published ?? {};
    const byName = new Map([...withdrawn, ...known].map((tool) => [tool.name, tool]));
    return tools.map((tool) => heldToHints(tool, byName.get(tool.name)));
  }

  /** What is known of the tools that it does not publish now, the latest first. */
  #withdrawn(tools: readonly UpstreamTool[]): readonly HintedTool[] {
    const { tools: known = [], withdrawn = [] } = this.#published ?? {};
    const names = new Set(tools.map(({ name }) => name));
    return [...known, ...withdrawn]
      .filter(({ name }) => !names.has(name))
      .slice(0, maxWithdrawn)
      .map(({ name, annotations }) => ({ name, annotations: hintsAmong(annotations) }));
  }

  async #publish(tools: readonly UpstreamTool[]): Promise<void> {
    const withdrawn = this.#withdrawn(tools);
    const catalogue = { ...this.#parts.entry, tools, ...(withdrawn.length > 0 && { withdrawn }) };
    if (this.#closing.signal.aborted) return;
    // Another order of keys is no change.
    if (canonicalize(catalogue) === canonicalize(this.#published)) return;
    try {
      if (await this.#parts.publish(catalogue)) {
        this.#published = catalogue;
        return;
      }
      this.#parts.log.warn(
        { server: this.key },
        'catalogue not kept: the lease of the server is not ours now',
      );
    } catch (error) {
      this.#parts.log.warn(
        { server: this.key, err: ensureError(error) },
        'catalogue not kept; listing again',
      );
    }
    this.#listAgain = true;
  }

  #fail(error: unknown): void {
    if (this.#closing.signal.aborted) return;
    const { entry, diagnose, log, onConnected } = this.#parts;
    if (!this.#pool.isConnected) onConnected(false);
    if (!(error instanceof ConnectionFault))
      log.error({ server: entry.id, err: ensureError(error) }, 'server not connected');
    const message = error instanceof ConnectionFault ? error.message : `${entry.name} could not be connected`;
    if (message === this.#fault) return;
    this.#fault = message;
    diagnose({ section: 'servers', rule: 'connection-failure', origin: entry.id, message });
  }
}

function byName(tools: readonly UpstreamTool[]): ReadonlyMap<string, UpstreamTool> {
  return new Map(tools.map((tool) => [tool.name, tool]));
}
