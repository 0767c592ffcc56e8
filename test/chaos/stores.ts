import { startPostgres, startTcpProxy, type TcpProxy } from '../servers/index.ts';

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

/** How each kind of store is started for a storm. */
export const chaosStores: Readonly<Record<string, () => Promise<ChaosStore>>> = {
  sqlite: () => Promise.resolve({ close: () => Promise.resolve() }),
  postgres: async () => {
    const server = await startPostgres();
    const network = await startTcpProxy(server);
    const url = Object.assign(new URL(await server.createDatabase()), { port: String(network.port) }).href;
    return {
      url,
      network,
      restart: () => server.restart(),
      close: async () => {
        await network.close();
        await server.stop();
      },
    };
  },
};
