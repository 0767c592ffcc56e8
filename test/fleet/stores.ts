import { newStoreUrl, startPostgresPair, startValkey } from '../servers/index.ts';

/** A store of one's own, to be broken. */
export interface FleetStore {
  readonly url: string;
  /** Stops the server as an operator would and starts it on the data that it kept. */
  restart(): Promise<void>;
  /** Kills the primary and makes the standby the primary in its place, where there is one. */
  failOver?(): Promise<void>;
  close(): Promise<void>;
}

/** Postgres with a synchronous standby, both in the URL; one Valkey or Redis. */
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
