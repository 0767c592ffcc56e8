import { randomUUID } from 'node:crypto';
import { ensureError, type Log } from '@holdfast/run';
import type { LeaseHolder, ServerStore } from '@holdfast/store';

/** The leases that one connector holds in the store, and what it may rely on by its own clock meanwhile. */
export class Ownership {
  /** Of the owner, new with each process. */
  readonly id = randomUUID();
  readonly #servers: Pick<ServerStore, 'own' | 'disown'>;
  readonly #address: string;
  readonly #leaseMs: number;
  readonly #log: Log;
  /** Until when by `performance.now()` a lease is certainly ours, by its name. */
  readonly #until = new Map<string, number>();
  #othersHave: ReadonlySet<string> = new Set();

  constructor(
    servers: Pick<ServerStore, 'own' | 'disown'>,
    { address, leaseMs, log }: { readonly address: string; readonly leaseMs: number; readonly log: Log },
  ) {
    this.#servers = servers;
    this.#address = address;
    // Less than the setting: what the others take to notice is part of how long a server is without an owner.
    this.#leaseMs = Math.floor(leaseMs * 0.8);
    this.#log = log;
  }

  /** Whether a lease is certainly ours now. */
  owns(lease: string): boolean {
    return performance.now() < (this.#until.get(lease) ?? -Infinity);
  }

  /** Whether a lease was ours when the store was last asked. */
  holds(lease: string): boolean {
    return this.#until.has(lease);
  }

  /** Whether another owned a wanted lease when the store was last asked. */
  isOthers(lease: string): boolean {
    return this.#othersHave.has(lease);
  }

  /**
   * Renews what is ours of `wanted`, and takes what is free. What it gave up it still has in the store, until it
   * is told to `disown` it.
   */
  async renew(
    wanted: readonly string[],
  ): Promise<{ owned: ReadonlySet<string>; givenUp: readonly string[] }> {
    const askedAt = performance.now();
    const owner = { id: this.id, address: this.#address };
    const owned = new Set(await this.#servers.own(owner, wanted, this.#leaseMs));
    const givenUp = [...this.#until.keys()].filter((lease) => !owned.has(lease));
    for (const lease of givenUp) this.#until.delete(lease);
    // A margin, so that the store never gives it to another while it is ours by our own clock.
    for (const lease of owned) this.#until.set(lease, askedAt + this.#leaseMs * 0.9);
    this.#othersHave = new Set(wanted.filter((lease) => !owned.has(lease)));
    return { owned, givenUp };
  }

  async disown(leases: readonly string[]): Promise<void> {
    for (const lease of leases) this.#until.delete(lease);
    if (leases.length === 0) return;
    await this.#servers.disown(this.id, leases).catch((error: unknown) => {
      this.#log.warn({ err: ensureError(error) }, 'servers not given up; their leases will run out');
    });
  }

  /** Does `work` under a lease that nobody has, and gives it up; nothing where somebody has it. */
  async borrow(lease: string, work: (holder: LeaseHolder) => Promise<void>): Promise<void> {
    const owner = { id: this.id, address: this.#address };
    const [owned] = await this.#servers.own(owner, [lease], this.#leaseMs);
    if (owned === undefined) return;
    try {
      await work({ owner: this.id, lease });
    } finally {
      await this.disown([lease]);
    }
  }

  async disownAll(): Promise<void> {
    await this.disown([...this.#until.keys()]);
  }
}
