import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { reset } from '../servers/index.ts';

/** One URL in front of several gateways, for as long as they keep their ports. It knows connections only. */
export interface Balancer {
  /** `http://127.0.0.1:<port>` */
  readonly base: string;
  /** Connections that found no gateway, or one that refused. */
  readonly refused: number;
  /** Whether it gives connections to the gateway at `base`: that was ready when it was last asked. */
  knows(base: string): boolean;
  /** Connections of hosts that are open now. */
  readonly connections: number;
  /** Resets every open connection in both directions. */
  cut(): void;
  /** Safe twice. */
  close(): Promise<void>;
}

export interface Balancing {
  /**
   * What becomes of a connection that a gateway refuses: `next` brings it to another, as an ingress does;
   * `reset` gives up, as a Service of Kubernetes does.
   */
  readonly onRefusal: 'next' | 'reset';
  /** How long it takes to learn from `/readyz` that a gateway wants no more. */
  readonly probeEveryMs?: number;
}

/** Gives each new connection to the next of the gateways at `bases` that was ready when it was last asked. */
export async function startBalancer(
  bases: readonly string[],
  { onRefusal, probeEveryMs = 100 }: Balancing,
): Promise<Balancer> {
  const ready = new Set(bases);
  const sockets = new Set<Socket>();
  let turn = 0;
  let refused = 0;
  let clients = 0;

  let isClosed = false;
  const probe = async (base: string): Promise<void> => {
    while (!isClosed) {
      const answer = await fetch(`${base}/readyz`, {
        headers: { connection: 'close' },
        signal: AbortSignal.timeout(1_000),
      }).catch(() => undefined);
      await answer?.arrayBuffer().catch(() => {});
      if (answer?.ok === true) ready.add(base);
      else ready.delete(base);
      await sleep(probeEveryMs, undefined, { ref: false });
    }
  };
  for (const base of bases) void probe(base);

  const keep = (socket: Socket): void => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  };
  /** The gateways to try, the one whose turn it is first. */
  const order = (): string[] => {
    const rotated = bases.map((_, i) => bases[(turn + i) % bases.length]!);
    turn++;
    const live = rotated.filter((base) => ready.has(base));
    // Where none is known to be ready an ingress tries what there is.
    return live.length > 0 || onRefusal === 'reset' ? live : rotated;
  };
  const pass = (client: Socket, [base, ...others]: readonly string[]): void => {
    if (base === undefined) {
      refused++;
      reset(client);
      return;
    }
    const upstream = connect({ host: '127.0.0.1', port: Number(new URL(base).port), allowHalfOpen: true });
    keep(upstream);
    const refuse = (): void => pass(client, onRefusal === 'next' ? others : []);
    upstream.once('error', refuse);
    upstream.once('connect', () => {
      upstream.off('error', refuse);
      if (client.destroyed) return void upstream.destroy();
      for (const [from, to] of [
        [client, upstream],
        [upstream, client],
      ] as const) {
        from.setNoDelay();
        from.on('error', () => reset(to));
        from.once('close', () => to.destroySoon());
        from.pipe(to);
      }
    });
  };
  const server = createServer({ allowHalfOpen: true }, (client) => {
    keep(client);
    clients++;
    client.once('close', () => clients--);
    client.on('error', () => {});
    pass(client, order());
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const cut = (): void => {
    for (const socket of [...sockets]) reset(socket);
  };
  return {
    base: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get refused() {
      return refused;
    },
    knows: (base) => ready.has(base),
    get connections() {
      return clients;
    },
    cut,
    async close() {
      isClosed = true;
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      cut();
      await closed;
    },
  };
}
