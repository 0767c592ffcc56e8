import { newStoreUrl, startPostgres, startTcpProxy, startValkey, type TcpProxy } from '../servers/index.ts';

/** A private store that the test breaks. */
export interface ChaosStore {
  /** URL of the store through `network`; undefined: a file in the folder of the fleet. */
  readonly url?: string;
  /** The network between the services and the store. */
  readonly network?: TcpProxy;
  /** Stops the server as an operator does and starts it with the same data. */
  restart?(): Promise<void>;
  close(): Promise<void>;
}

interface Server {
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** A store at `url`, reached through a network that a test can break. */
async function behindNetwork(server: Server, url: string): Promise<ChaosStore> {
  const network = await startTcpProxy({ port: Number(new URL(url).port) });
  return {
    url: Object.assign(new URL(url), { port: String(network.port) }).href,
    network,
    restart: () => server.restart(),
    close: async () => {
      await network.close();
      await server.stop();
    },
  };
}

/** Starts each kind of store for a storm. */
export const chaosStores: Readonly<Record<string, () => Promise<ChaosStore>>> = {
  sqlite: () => Promise.resolve({ close: () => Promise.resolve() }),
  postgres: async () => {
    const server = await startPostgres();
    return behindNetwork(server, await server.createDatabase());
  },
  valkey: async () => {
    const server = await startValkey();
    return behindNetwork(server, newStoreUrl(server.url));
  },
};
