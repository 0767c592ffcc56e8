import { expect } from '@jest/globals';
import pg from 'pg';
import { startPostgres, startTcpProxy, type PrivatePostgres, type TcpProxy } from '../servers/index.ts';
import { bothEras, breakableTools, completions, persist, refund } from './breaking.ts';
import { Fleet } from './fleet.ts';
import { textOf, type Host } from './host.ts';
import { until, type Env, type Service } from './service.ts';

/** A fleet on a Postgres of its own, and what is between them, to be broken. */
export class BreakablePostgres {
  readonly server: PrivatePostgres;
  readonly network: TcpProxy;
  /** What LISTEN goes by. */
  readonly hearing: TcpProxy;
  /** Leads past the network, for the test itself. */
  readonly url: string;
  readonly fleet: Fleet;
  readonly hosts: readonly Host[];

  static async start(change: Env): Promise<BreakablePostgres> {
    const server = await startPostgres();
    const [network, hearing] = await Promise.all([startTcpProxy(server), startTcpProxy(server)]);
    const url = await server.createDatabase();
    const by = ({ port }: TcpProxy): string => Object.assign(new URL(url), { port: String(port) }).href;
    const fleet = await Fleet.start('postgres', {
      HOLDFAST_STORE: by(network),
      HOLDFAST_STORE_LISTEN_URL: by(hearing),
      HOLDFAST_TOOLS: breakableTools,
      ...change,
    });
    return new BreakablePostgres({ server, network, hearing, url, fleet, hosts: await bothEras(fleet) });
  }

  private constructor(
    parts: Pick<BreakablePostgres, 'server' | 'network' | 'hearing' | 'url' | 'fleet' | 'hosts'>,
  ) {
    this.server = parts.server;
    this.network = parts.network;
    this.hearing = parts.hearing;
    this.url = parts.url;
    this.fleet = parts.fleet;
    this.hosts = parts.hosts;
  }

  get services(): readonly Service[] {
    return [...this.fleet.gateways.map(({ service }) => service), ...this.fleet.workers];
  }

  /** One statement, on a connection of its own that goes past the network. */
  async query<Row extends pg.QueryResultRow>(sql: string): Promise<Row[]> {
    const client = new pg.Client({ connectionString: this.url, application_name: 'test' });
    client.on('error', () => {});
    await client.connect();
    try {
      return (await client.query<Row>(sql)).rows;
    } finally {
      await client.end();
    }
  }

  /** Ends those of the product's connections of which `condition` holds. */
  async terminate(condition = 'true'): Promise<void> {
    await this.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfast' AND ${condition}`,
    );
  }

  /** Ends the connections that LISTEN; the last that they asked may have been whether they are alive. */
  terminateListeners(): Promise<void> {
    return this.terminate("query IN ('LISTEN holdfast', 'SELECT 1')");
  }

  /** How often each service has said so. */
  said(message: RegExp): number[] {
    return this.services.map(({ log }) => log.filter(({ msg }) => message.test(String(msg))).length);
  }

  /** Every service has said so again since `before`. */
  async saidAgain(message: RegExp, before: readonly number[]): Promise<void> {
    await until(() => this.said(message).every((count, i) => count > before[i]!));
  }

  /** Calls of both hosts, one after another. */
  async calls(count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      const call = refund();
      const { result } = await persist(this.fleet, this.hosts, call, { gateway: i });
      expect(textOf(result)).toBe(`refunded ${call.args.order_id} at attempt 1`);
    }
  }

  async dispose(): Promise<void> {
    await this.fleet.dispose();
    await Promise.all([this.network.close(), this.hearing.close()]);
    await this.server.stop();
  }
}

/** Calls of both hosts, eight at a time, until it is stopped. Every one must end, once. */
export class Load {
  #done = 0;
  #isOver = false;
  #failure: unknown;
  readonly #streams: Promise<unknown>;

  constructor({ fleet, hosts }: BreakablePostgres) {
    const stream = async (): Promise<void> => {
      while (!this.#isOver) {
        const { result } = await persist(fleet, hosts, refund());
        expect(completions(fleet, result)).toBe(1);
        this.#done++;
      }
    };
    this.#streams = Promise.all(Array.from({ length: 8 }, stream)).catch((error: unknown) => {
      this.#failure = error;
    });
  }

  /** So many more of its calls have ended. */
  async more(count: number): Promise<void> {
    const goal = this.#done + count;
    await until(() => {
      if (this.#failure !== undefined) throw this.#failure;
      return this.#done >= goal;
    });
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#streams;
    if (this.#failure !== undefined) throw this.#failure;
  }
}
