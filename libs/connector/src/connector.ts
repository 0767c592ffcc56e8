import { setTimeout as sleep } from 'node:timers/promises';
import {
  ensureError,
  leaseName,
  readTraceContext,
  serverOfLease,
  traceIdOf,
  type Log,
  type UpstreamOutcome,
  type UpstreamRequest,
  type UpstreamWaiter,
} from '@holdfast/run';
import type { Store } from '@holdfast/store';
import type { ServerCatalogue } from '@holdfast/tools';
import type { Diagnostic } from './diagnostic.js';
import type { ConnectorObserver } from './observer.js';
import type { OpenConnection } from './open-connection.js';
import { Ownership } from './ownership.js';
import { serverIdentity, serverKey } from './server-identity.js';
import type { ServerSettings } from './server-settings.js';
import { UpstreamServer } from './server.js';

/** This connector does not own the server that was asked for; whoever does is to be asked. */
export class NotOwner extends Error {
  constructor(server: string) {
    super(`this connector does not own ${server}`);
    this.name = 'NotOwner';
  }
}

export interface ConnectorParts {
  readonly store: Store;
  /** Where workers reach this connector. */
  readonly address: string;
  /** How long a silent connector keeps its servers. */
  readonly leaseMs: number;
  readonly open: OpenConnection;
  readonly log: Log;
  readonly observer: ConnectorObserver;
  readonly diagnose: (diagnostic: Diagnostic) => void;
}

/** The least time between two looks for servers whose owner is silent. */
const leastPauseMs = 100;

export interface MissingServer {
  readonly id: string;
  readonly reason: string;
  /** Its first tries to connect have failed; it is tried again in the background. */
  readonly isGivenUp: boolean;
}

interface Wanted {
  readonly settings: ServerSettings;
  readonly entry: Omit<ServerCatalogue, 'tools'>;
  /** What of it is owned in the store (`leaseName`). */
  readonly lease: string;
}

/**
 * Owns upstream servers, each by a lease in the store, and sends their calls. A server has one owner
 * at a time, or with `placement: every` one in each connector; another takes over when the lease of a
 * silent one runs out (BEHAVIOURS X5).
 */
export class Connector {
  readonly #parts: ConnectorParts;
  readonly #ownership: Ownership;
  /** Undefined until it was told: who knows of no servers retires none. */
  #told: ReadonlyMap<string, Wanted> | undefined;
  readonly #servers = new Map<string, UpstreamServer>();
  /** The servers that have tools in the store, and the revision of its catalogue that says so. */
  #offering: readonly ServerCatalogue[] = [];
  #revision: number | undefined;
  readonly #stopping = new AbortController();
  #beating: Promise<void> | undefined;
  #isDraining = false;
  #looking: Promise<void> | undefined;
  #lookAgain = false;

  constructor(parts: ConnectorParts) {
    this.#parts = parts;
    this.#ownership = new Ownership(parts.store.servers, parts);
  }

  /** The servers that are wanted, in place of those before. One whose settings changed is opened anew. */
  setServers(servers: readonly ServerSettings[]): void {
    const enabled = servers.filter((server) => server.enabled);
    const byId = Map.groupBy(enabled, ({ id }) => id);
    this.#told = new Map(
      enabled.map((settings) => {
        const key = serverKey(settings.id, settings.transport);
        const { id, name, rules } = settings;
        const identity = serverIdentity(settings.transport);
        const sharesId = byId.get(id)!.length > 1;
        const entry = { key, id, name, identity, rules, ...(sharesId && { sharesId }) };
        const lease = settings.placement === 'every' ? leaseName(key, this.#ownership.id) : leaseName(key);
        return [key, { settings, entry, lease }];
      }),
    );
    this.#tellCollisions();
    if (this.#beating !== undefined) this.#look();
  }

  get #wanted(): ReadonlyMap<string, Wanted> {
    return this.#told ?? new Map();
  }

  /** Begins to take servers. */
  start(): void {
    this.#beating ??= this.#beat();
  }

  /** The required servers that nobody has connected yet, each with what is wrong so far (BEHAVIOURS X7). */
  missing(): readonly MissingServer[] {
    return [...this.#wanted.values()].flatMap(({ settings, entry, lease }) => {
      if (!settings.required || this.#ownership.isOthers(lease)) return [];
      const server = this.#servers.get(entry.key);
      if (server?.isListed === true) return [];
      return [
        {
          id: entry.id,
          reason: server?.fault ?? 'not connected yet',
          isGivenUp: server?.fault !== undefined,
        },
      ];
    });
  }

  /** Whether this connector owns a server now. */
  canCall(server: string): boolean {
    const wanted = this.#wanted.get(server);
    return (
      !this.#isDraining &&
      wanted !== undefined &&
      this.#ownership.owns(wanted.lease) &&
      this.#servers.has(server)
    );
  }

  /** @throws NotOwner, and whatever the store threw: then nobody knows what became of the call, and the dispatch mark tells */
  async call(request: UpstreamRequest, waiter: UpstreamWaiter): Promise<UpstreamOutcome> {
    const lease = this.#wanted.get(request.server)?.lease;
    const server = this.#servers.get(request.server);
    const isOwned = (): boolean => lease !== undefined && this.#ownership.owns(lease);
    const isStillOwned = async (): Promise<boolean> => {
      if (!isOwned()) {
        // This process may have stood still for a moment, and nobody taken the server: the store knows.
        this.#look();
        await this.#looking;
      }
      return isOwned() && this.#servers.get(request.server) === server;
    };
    const assertOwned = (): void => {
      // One whose settings changed meanwhile is another one.
      if (!this.canCall(request.server) || this.#servers.get(request.server) !== server)
        throw new NotOwner(request.server);
    };
    assertOwned();
    const startedAt = performance.now();
    const outcome = await server!.call(request, {
      ...waiter,
      assertOwned,
      isStillOwned,
      mark: () => this.#mark(request, isOwned, waiter.signal),
    });
    const seconds = (performance.now() - startedAt) / 1000;
    this.#parts.observer.called({ server: server!.id, outcome: outcome.kind, seconds });
    return outcome;
  }

  /**
   * Makes the dispatch mark, again where the store's answer was lost: nothing was sent meanwhile. Only this
   * call has this claim token, and a call whose mark was there before is not brought here, so a mark that is
   * there then is ours. Where it throws nothing is sent, and the worker finds out whether the mark is there.
   */
  async #mark(
    { server, runId, claim, meta }: UpstreamRequest,
    isOwned: () => boolean,
    signal: AbortSignal,
  ): ReturnType<Store['runs']['dispatch']> {
    let isRepeated = false;
    for (let pauseMs = 50; ; pauseMs = Math.min(pauseMs * 2, 1_000)) {
      try {
        const made = await this.#parts.store.runs.dispatch(claim);
        const mark = made === 'lost' && isRepeated ? 'won' : made;
        // Before the first byte: a call that was told as unknown shows here how far it got.
        const traceId = traceIdOf(readTraceContext(meta));
        if (mark === 'won') this.#parts.log.debug({ server, runId, traceId }, 'call dispatched');
        return mark;
      } catch (error) {
        if (!isOwned() || signal.aborted) throw error;
        const fields = { server, runId, err: ensureError(error) };
        if (!isRepeated) this.#parts.log.warn(fields, 'mark not made; trying again');
        isRepeated = true;
        await sleep(pauseMs, undefined, { signal }).catch(() => {});
      }
    }
  }

  async #beat(): Promise<void> {
    const { leaseMs } = this.#parts;
    while (!this.#stopping.signal.aborted) {
      this.#look();
      await this.#looking;
      const ownsAll = [...this.#wanted.values()].every(({ lease }) => this.#ownership.holds(lease));
      const pauseMs = ownsAll ? leaseMs / 3 : Math.max(leaseMs / 15, leastPauseMs);
      await sleep(pauseMs, undefined, { signal: this.#stopping.signal }).catch(() => {});
    }
  }

  #look(): void {
    this.#lookAgain = true;
    this.#looking ??= this.#lookWhileAsked().finally(() => (this.#looking = undefined));
  }

  async #lookWhileAsked(): Promise<void> {
    while (this.#lookAgain) {
      this.#lookAgain = false;
      try {
        await this.#renew();
        this.#tellConnected();
        await this.#retire();
      } catch (error) {
        this.#parts.log.warn({ err: ensureError(error) }, 'servers not renewed; trying again');
      }
    }
  }

  /** Renews what is ours, takes what is free, and lets go of what is no longer wanted or was taken by another. */
  async #renew(): Promise<void> {
    // While this one drains it takes nothing, and keeps only what still has calls.
    const wanted = [...this.#wanted.values()].filter(
      ({ entry }) => !this.#isDraining || (this.#servers.get(entry.key)?.underWay ?? 0) > 0,
    );
    const { owned, givenUp } = await this.#ownership.renew(wanted.map(({ lease }) => lease));
    const ours = new Map(wanted.filter(({ lease }) => owned.has(lease)).map((one) => [one.entry.key, one]));
    const isSame = ({ key, settings, sharesId }: UpstreamServer): boolean =>
      sharesId === ours.get(key)?.entry.sharesId &&
      JSON.stringify(settings) === JSON.stringify(ours.get(key)?.settings);
    // An answer that is on its way is worth waiting for, though the server is another's by now; its process
    // over stdio is not, since the other has one of its own.
    const isAnswering = ({ key, settings, underWay }: UpstreamServer): boolean =>
      underWay > 0 &&
      settings.transport.kind !== 'stdio' &&
      JSON.stringify(settings) === JSON.stringify(this.#wanted.get(key)?.settings);
    const changed = [...this.#servers.values()].filter((server) => !isSame(server));
    for (const server of changed) server.turnAway();
    const leaving = changed.filter((server) => !isAnswering(server));
    await Promise.all(leaving.map(({ key }) => this.#letGo(key)));
    // What is not wanted any more is free for others at once; what another has is not ours to give up.
    await this.#ownership.disown(givenUp);
    const opening = [...ours.values()].filter(({ entry }) => !this.#servers.has(entry.key));
    if (opening.length === 0 || this.#isDraining) return;
    const known = new Map(
      (await this.#parts.store.tools.list())!.servers.map((server) => [server.key, server]),
    );
    for (const one of opening) this.#openServer(one, known.get(one.entry.key));
  }

  #openServer({ settings, entry, lease }: Wanted, known: ServerCatalogue | undefined): void {
    const { store, open, log, diagnose, observer } = this.#parts;
    const server = new UpstreamServer({
      settings,
      entry,
      known,
      open: (principal, signal) => open(settings, principal, signal),
      publish: (catalogue) => store.servers.publish(catalogue, { owner: this.#ownership.id, lease }),
      log,
      diagnose,
      onConnected: (isConnected) => observer.connected(entry.id, isConnected),
    });
    this.#servers.set(entry.key, server);
    server.start();
  }

  async #letGo(key: string): Promise<void> {
    const server = this.#servers.get(key)!;
    this.#servers.delete(key);
    await server.close();
    this.#parts.observer.connected(server.id, undefined);
  }

  /** Servers of one id are all served, and none of them under its plain name (BEHAVIOURS 172). */
  #tellCollisions(): void {
    const byId = Map.groupBy(this.#wanted.values(), ({ entry }) => entry.id);
    for (const [id, servers] of byId) {
      if (servers.length === 1) continue;
      const message = `${servers.length} servers have the id ${id}: the names of their tools carry a suffix each; give them ids of their own`;
      this.#parts.diagnose({ section: 'servers', rule: 'server-name-collision', origin: id, message });
    }
  }

  #tellConnected(): void {
    for (const { id, isConnected } of this.#servers.values()) this.#parts.observer.connected(id, isConnected);
  }

  /** Takes the tools of servers that nobody wants and nobody owns off the list (BEHAVIOURS 159). */
  async #retire(): Promise<void> {
    if (this.#told === undefined) return;
    const { store, log } = this.#parts;
    const kept = (await store.tools.list(this.#revision)) ?? undefined;
    if (kept !== undefined) {
      this.#revision = kept.revision;
      this.#offering = kept.servers.filter(({ tools }) => tools.length > 0);
    }
    const unwanted = this.#offering.filter(({ key }) => !this.#wanted.has(key));
    if (unwanted.length === 0) return;
    const isOwned = async (key: string, except?: string): Promise<boolean> =>
      [...(await store.servers.owners()).keys()].some(
        (lease) => serverOfLease(lease) === key && lease !== except,
      );
    for (const server of unwanted) {
      if (await isOwned(server.key)) continue;
      const lease = leaseName(server.key);
      await this.#ownership.borrow(lease, async (holder) => {
        // Somebody may have taken it since, under a lease of another name.
        if (await isOwned(server.key, lease)) return;
        if (await store.servers.publish({ ...server, tools: [], withdrawn: [] }, holder))
          log.info({ server: server.id }, 'server retired');
      });
    }
  }

  /**
   * Takes no more calls, ends those that it has, for `patienceMs` at most, and gives its servers up, each
   * as soon as it has none.
   */
  async stop(patienceMs: number): Promise<void> {
    this.#isDraining = true;
    const until = performance.now() + patienceMs;
    while (performance.now() < until && [...this.#servers.values()].some(({ underWay }) => underWay > 0)) {
      await this.#giveUpIdle();
      await sleep(50);
    }
    this.#stopping.abort();
    await this.#beating;
    await Promise.all([...this.#servers.keys()].map((key) => this.#letGo(key)));
    await this.#ownership.disownAll();
  }

  async #giveUpIdle(): Promise<void> {
    const idle = [...this.#servers.values()].filter(({ underWay }) => underWay === 0).map(({ key }) => key);
    if (idle.length === 0) return;
    const leases = idle.map((key) => this.#wanted.get(key)?.lease).filter((lease) => lease !== undefined);
    await Promise.all(idle.map((key) => this.#letGo(key)));
    await this.#ownership.disown(leases);
  }
}
