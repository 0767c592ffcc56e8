import { setTimeout as sleep } from 'node:timers/promises';
import { StubbornHost } from '../chaos/stubborn-host.ts';
import { openSdkHost } from '../system/sdk-host.ts';
import type { Host, ToolResult } from '../system/host.ts';
import { until } from '../system/service.ts';
import { keys } from './release.ts';

/** `body` is a tool of the workers; `write` and `read` go to the upstream. */
export type Kind = 'body' | 'write' | 'read';

/** A call that has ended for its host. */
export interface Made {
  readonly phase: string;
  readonly kind: Kind;
  readonly era: Host['era'];
  /** Its order, which no other call uses. */
  readonly order: string;
  /** Number of sends, as far as the user of the host can know. */
  readonly sent: number;
  readonly sentAt: number;
  readonly gotAt: number;
  /** Undefined: the host gave up, with the reason. */
  readonly result?: ToolResult;
  readonly reason?: string;
}

type Call = Pick<Made, 'kind' | 'order'> & { readonly tool: string; readonly args: Record<string, unknown> };

interface Caller {
  readonly era: Host['era'];
  call(call: Call): Promise<Pick<Made, 'sent' | 'result' | 'reason'>>;
  /** Number of sessions lost so far. */
  readonly sessionsLost: number;
  close(): Promise<void>;
}

/**
 * `plain`: third-party hosts, which give up when the SDK does. `stubborn`: hosts that repeat calls, with their
 * token, until they have an answer.
 */
export type Temper = 'plain' | 'stubborn';

export interface PhaseTimes {
  readonly tookMs: number;
  /** Time after which hosts started no more calls, on the clock of `Date.now`. */
  readonly overAt: number;
}

/** Hosts that call continuously through one URL, half of them on 2025-11-25 and half on 2026-07-28. */
export class Crowd {
  readonly made: Made[] = [];
  readonly #callers: readonly Caller[];
  readonly #random: () => number;
  #count = 0;
  #name: string;

  static async open(
    name: string,
    temper: Temper,
    { hosts, url, random }: { hosts: number; url: string; random: () => number },
  ): Promise<Crowd> {
    const open = temper === 'plain' ? plain : stubborn;
    const callers = await Promise.all(
      Array.from({ length: hosts }, (_, i) => open(i % 2 === 0 ? 'legacy' : 'modern', url)),
    );
    return new Crowd(name, callers, random);
  }

  private constructor(name: string, callers: readonly Caller[], random: () => number) {
    this.#name = name;
    this.#callers = callers;
    this.#random = random;
  }

  get sessionsLost(): number {
    return this.#callers.reduce((sum, { sessionsLost }) => sum + sessionsLost, 0);
  }

  /** Calls from all hosts, from before `act` until after it. */
  async during(phase: string, act: () => Promise<void>): Promise<PhaseTimes> {
    let isOver = false;
    const calling = this.#callers.map(async (caller) => {
      while (!isOver) {
        await this.#one(phase, caller);
        // Hosts pause between calls; without the pause, fifty of them use the whole machine.
        await sleep(this.#random() * 1_000);
      }
    });
    try {
      await this.#goneOn();
      const begunAt = performance.now();
      await act();
      const tookMs = performance.now() - begunAt;
      await this.#goneOn();
      return { tookMs, overAt: Date.now() };
    } finally {
      isOver = true;
      await Promise.all(calling);
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#callers.map((caller) => caller.close()));
  }

  async #goneOn(): Promise<void> {
    const goal = this.made.length + 2 * this.#callers.length;
    await until(() => this.made.length >= goal, 50);
  }

  async #one(phase: string, caller: Caller): Promise<void> {
    const call = this.#next();
    const sentAt = Date.now();
    const ended = await caller.call(call);
    const { kind, order } = call;
    this.made.push({ phase, kind, order, era: caller.era, sentAt, gotAt: Date.now(), ...ended });
  }

  /** Every second call runs a body, most of them short and some for seconds; the others go to the upstream. */
  #next(): Call {
    const order = `${this.#name}-${++this.#count}`;
    const chance = this.#random();
    if (chance < 0.5) {
      const delay_ms = Math.round(this.#random() * (this.#random() < 0.1 ? 5_000 : 500));
      return { kind: 'body', order, tool: 'refund_order', args: { order_id: order, delay_ms } };
    }
    const kind = chance < 0.8 ? 'write' : 'read';
    return { kind, order, tool: kind === 'write' ? 'shop__pay' : 'shop__look', args: { order } };
  }
}

async function plain(era: Host['era'], url: string): Promise<Caller> {
  const host = await openSdkHost(era, url, keys.desk);
  return {
    era,
    sessionsLost: 0,
    call: ({ tool, args }) =>
      host.call(tool, args).then(
        (result) => ({ sent: 1, result }),
        (error: unknown) => ({ sent: 1, reason: `${String(error)} ${String((error as Error).cause ?? '')}` }),
      ),
    close: () => host.close(),
  };
}

/** Time for which a host waits for an answer before it sends again. */
const patienceMs = 15_000;
/** Time after which a call counts as lost. */
const hopelessMs = 120_000;

async function stubborn(era: Host['era'], url: string): Promise<Caller> {
  const host = new StubbornHost(era, url, keys.desk, patienceMs);
  await host.open();
  return {
    era,
    get sessionsLost() {
      return host.sessionsLost;
    },
    call: ({ order, tool, args }) => host.call({ tool, args, token: order }, Date.now() + hopelessMs),
    close: () => Promise.resolve(),
  };
}
