import { newStoreUrl, startPostgresPair, startValkey } from '../servers/index.ts';

/** A private store that the test breaks. */
export interface FleetStore {
  readonly url: string;
  /** Stops the server as an operator does and starts it with the same data. */
  restart(): Promise<void>;
  /** Kills the primary and promotes the standby, if there is one. */
  failOver?(): Promise<void>;
  close(): Promise<void>;
}

/** Postgres with a synchronous standby, both in the URL; or one Valkey or Redis. */
export const fleetStores = {
  postgres: async () => {
    const pair = await startPostgresPair();
    return {
      url: await pair.createDatabase(),
      restart: () => pair.restartPrimary(),
      async failOver() {
        await pair.killPrimary();
        await pair.promote();
      },
      close: () => pair.stop(),
    };
  },
  valkey: async () => {
    const server = await startValkey();
    return { url: newStoreUrl(server.url), restart: () => server.restart(), close: () => server.stop() };
  },
} satisfies Readonly<Record<string, () => Promise<FleetStore>>>;

export type StoreKind = keyof typeof fleetStores;
