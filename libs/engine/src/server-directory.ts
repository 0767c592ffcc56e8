import { ensureError, type Log } from '@holdfast/run';
import type { Store } from '@holdfast/store';
import type { ServerCatalogue } from '@holdfast/tools';

/** The upstream servers of the deployment, as this process last read them from the store. */
export class ServerDirectory {
  readonly #store: Store;
  readonly #log: Log;
  readonly #onChange: () => void;
  #servers: ReadonlyMap<string, ServerCatalogue> = new Map();
  #revision: number | undefined;
  #unsubscribe: (() => void) | undefined;
  #reading: Promise<void> | undefined;
  #isStale = false;

  constructor(store: Store, log: Log, onChange: () => void) {
    this.#store = store;
    this.#log = log;
    this.#onChange = onChange;
  }

  /** Reads them once and follows their changes from then on. */
  async start(): Promise<void> {
    this.#unsubscribe ??= this.#store.subscribe(({ kind }) => {
      if (kind === 'tools' || kind === 'everything') this.refresh();
    });
    await this.#read();
  }

  stop(): void {
    this.#unsubscribe?.();
  }

  /** Looks for changes; the net under a lost signal. */
  refresh(): void {
    this.#isStale = true;
    this.#reading ??= this.#readWhileStale().finally(() => (this.#reading = undefined));
  }

  async #readWhileStale(): Promise<void> {
    while (this.#isStale) {
      this.#isStale = false;
      try {
        await this.#read();
      } catch (error) {
        this.#log.warn({ err: ensureError(error) }, 'servers not read; looking again at the next beat');
        return;
      }
    }
  }

  async #read(): Promise<void> {
    const catalogue = await this.#store.tools.list(this.#revision);
    if (catalogue === undefined) return;
    this.#revision = catalogue.revision;
    this.#servers = new Map(catalogue.servers.map((server) => [server.key, server]));
    const rows = catalogue.unreadable.filter(({ kind }) => kind === 'server');
    if (rows.length > 0)
      this.#log.warn(
        { rows: rows.slice(0, 20), count: rows.length },
        'servers left out: their rows cannot be read',
      );
    this.#onChange();
  }

  get(key: string): ServerCatalogue | undefined {
    return this.#servers.get(key);
  }

  all(): Iterable<ServerCatalogue> {
    return this.#servers.values();
  }
}
