import { newStoreUrl, startPostgres, startTcpProxy, startValkey, type TcpProxy } from '../servers/index.ts';

/** A store of one's own, to be broken. */
export interface ChaosStore {
  /** Where services find it, by way of `network`; undefined: a file in the folder of the fleet. */
  readonly url?: string;
  /** What is between the services and the store. */
  readonly network?: TcpProxy;
  /** Stops the server as an operator would and starts it on the data that it kept. */
  restart?(): Promise<void>;
  close(): Promise<void>;
}

interface Server {
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** A store at `url`, reached by way of a network that can be broken. */
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

/** How each kind of store is started for a storm. */
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
