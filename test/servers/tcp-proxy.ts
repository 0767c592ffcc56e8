import { type AddressInfo, type Socket, connect, createServer } from 'node:net';

/** A network between a client and a server on loopback that a test can break. */
export interface TcpProxy {
  readonly port: number;
  /** Number of open connections, from the view of the client. */
  readonly connections: number;
  /** Resets every open connection in both directions. New ones pass. */
  cut(): void;
  /** While on, new connections are reset at once; open ones continue. */
  refuse(on: boolean): void;
  /**
   * While on, no byte passes in either direction and nothing is closed, including on new connections. When it is
   * turned off, the delayed bytes are delivered.
   */
  blackhole(on: boolean): void;
  /** Resets open connections and frees the port. Safe twice. */
  close(): Promise<void>;
}

/** Listens on a random loopback port and passes bytes to and from `target`. */
export async function startTcpProxy(target: { host?: string; port: number }): Promise<TcpProxy> {
  const pairs = new Set<[client: Socket, upstream: Socket]>();
  let refusing = false;
  let holding = false;

  const server = createServer({ allowHalfOpen: true }, (client) => {
    if (refusing) {
      reset(client);
      return;
    }
    const upstream = connect({ host: target.host ?? '127.0.0.1', port: target.port, allowHalfOpen: true });
    const pair: [Socket, Socket] = [client, upstream];
    pairs.add(pair);
    for (const [from, to] of [pair, [upstream, client]] as const) {
      from.setNoDelay();
      from.on('data', (bytes) => {
        if (!to.write(bytes)) from.pause();
      });
      to.on('drain', () => {
        if (!holding) from.resume();
      });
      from.on('end', () => to.end());
      from.on('error', () => reset(to));
      from.on('close', () => {
        pairs.delete(pair);
        to.destroySoon();
      });
      if (holding) from.pause();
    }
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });

  const cut = () => {
    for (const socket of [...pairs].flat()) reset(socket);
  };
  return {
    port: (server.address() as AddressInfo).port,
    get connections() {
      return pairs.size;
    },
    cut,
    refuse(on) {
      refusing = on;
    },
    blackhole(on) {
      holding = on;
      for (const socket of [...pairs].flat()) socket[on ? 'pause' : 'resume']();
    },
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      cut();
      await closed;
    },
  };
}

/**
 * Closes with RST. A socket that is sending its FIN cannot be reset: libuv refuses, Node then loses the handle
 * without closing it, and the process spins for ever at its exit (Node 24.21).
 */
export function reset(socket: Socket): void {
  if (socket.writableEnded && !socket.writableFinished) socket.destroy();
  else socket.resetAndDestroy();
}
