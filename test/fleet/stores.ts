import { newStoreUrl, startPostgres, startValkey } from '../servers/index.ts';

/** A store of one's own, to be broken. */
export interface FleetStore {
  readonly url: string;
  /** Stops the server as an operator would and starts it on the data that it kept. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

export const fleetStores = {
  postgres: async (): Promise<FleetStore> => {
    const server = await startPostgres();
    return {
      url: await server.createDatabase(),
      restart: () => server.restart(),
      close: () => server.stop(),
    };
  },
  valkey: async (): Promise<FleetStore> => {
    const server = await startValkey();
    return { url: newStoreUrl(server.url), restart: () => server.restart(), close: () => server.stop() };
  },
} satisfies Readonly<Record<string, () => Promise<FleetStore>>>;

export type StoreKind = keyof typeof fleetStores;
