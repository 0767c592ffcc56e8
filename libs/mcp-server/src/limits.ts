import { codes } from '@holdfast/protocol';
import type { Principal } from '@holdfast/run';
import { ProtocolRefusal } from './wire-errors.js';

/** Reasons of `holdfast_refused_total` that are limits. */
export type LimitReason =
  | 'body_bytes'
  | 'body_values'
  | 'body_depth'
  | 'bytes_in_flight'
  | 'calls_per_second'
  | 'runs_waiting'
  | 'runs_under_way'
  | 'sessions'
  | 'streams'
  | 'unread_bytes';

/** `HOLDFAST_LIMITS_…`: what one process and one caller may take (docs/limits.md). */
export interface LimitSettings {
  /** JSON values in one message. */
  readonly messageValues: number;
  /** Bytes of all requests that have no answer yet. */
  readonly requestBytes: number;
  /** Of these, those of one caller. */
  readonly callerRequestBytes: number;
  /** Bytes of all answers that their hosts have not taken. */
  readonly unreadBytes: number;
  /** Of these, those of one caller. */
  readonly callerUnreadBytes: number;
  /** How long a host may take nothing of an answer. */
  readonly unreadMs: number;
  /** Streams on which one caller listens for changes, at one gateway. */
  readonly callerStreams: number;
  /** Calls of one caller that wait for their answer, at one gateway. */
  readonly callerCalls: number;
  /** Calls of one caller a second, at one gateway. */
  readonly callerCallsPerSecond: number;
}

/** Memory of one holder. */
export interface Holding {
  /** @throws ProtocolRefusal where there is none */
  reserve(bytes: number): void;
  /** Gives all of it back. */
  release(): void;
}

interface Refusing {
  readonly status?: number;
  /** The variable that moves the limit. */
  readonly setting?: string;
  readonly retryAfterSeconds?: number;
}

interface Rate {
  readonly left: number;
  readonly at: number;
}

const rememberedCallers = 10_000;

/** The limits of one process, and what counts against them. */
export class Limits {
  readonly settings: LimitSettings;
  readonly #requestBytes: Budget;
  readonly #unreadBytes: Budget;
  readonly #streams: Budget;
  readonly #calls: Budget;
  readonly #rates = new Map<string, Rate>();
  readonly #observer: { refused(reason: LimitReason): void };

  constructor(settings: LimitSettings, observer: { refused(reason: LimitReason): void }) {
    this.settings = settings;
    this.#requestBytes = new Budget(settings.requestBytes, settings.callerRequestBytes);
    this.#unreadBytes = new Budget(settings.unreadBytes, settings.callerUnreadBytes);
    this.#streams = new Budget(Infinity, settings.callerStreams);
    this.#calls = new Budget(Infinity, settings.callerCalls);
    this.#observer = observer;
  }

  /** Counts a refusal and says the limit: 429, and when to come back, unless `status` says otherwise. */
  refusal(
    reason: LimitReason,
    message: string,
    { status = 429, setting, retryAfterSeconds = status === 429 ? 1 : undefined }: Refusing = {},
  ): ProtocolRefusal {
    this.#observer.refused(reason);
    return new ProtocolRefusal(
      status === 400 ? codes.invalidRequest : codes.badRequest,
      setting === undefined ? message : `${message} (${setting})`,
      { status, ...(retryAfterSeconds !== undefined && { retryAfterSeconds }) },
    );
  }

  /** Memory for a request of `caller` until it is answered. */
  holdRequest(caller: Principal | null): Holding {
    return this.#hold(this.#requestBytes, caller, 'bytes_in_flight', 'REQUEST_BYTES', 'unanswered requests');
  }

  /** Memory for an answer to `caller` until it is taken. */
  holdAnswer(caller: Principal | null): Holding {
    return this.#hold(this.#unreadBytes, caller, 'unread_bytes', 'UNREAD_BYTES', 'unread answers');
  }

  /** A stream on which `caller` listens, until the returned function is called. @throws ProtocolRefusal */
  holdStream(caller: Principal | null): () => void {
    const share = this.#streams.open(callerKey(caller));
    if (share.take(1) === undefined) return () => share.end();
    throw this.refusal('streams', `this caller has ${this.settings.callerStreams} streams open`, {
      setting: 'HOLDFAST_LIMITS_CALLER_STREAMS',
      retryAfterSeconds: 5,
    });
  }

  /** A call of `caller`, until the returned function is called. @throws ProtocolRefusal */
  holdCall(caller: Principal | null): () => void {
    const { callerCalls, callerCallsPerSecond } = this.settings;
    const key = callerKey(caller);
    if (key !== undefined && !this.#isInRate(key)) {
      throw this.refusal(
        'calls_per_second',
        `this caller calls more than ${callerCallsPerSecond} times a second`,
        {
          setting: 'HOLDFAST_LIMITS_CALLER_CALLS_PER_SECOND',
        },
      );
    }
    const share = this.#calls.open(key);
    if (share.take(1) === undefined) return () => share.end();
    throw this.refusal('runs_under_way', `${callerCalls} calls of this caller wait for their answer`, {
      setting: 'HOLDFAST_LIMITS_CALLER_CALLS',
    });
  }

  /** Counts a call: those of one second may come at once. */
  #isInRate(caller: string): boolean {
    const perSecond = this.settings.callerCallsPerSecond;
    const now = performance.now();
    const { left, at } = this.#rates.get(caller) ?? { left: perSecond, at: now };
    const room = Math.min(perSecond, left + ((now - at) / 1_000) * perSecond);
    // Who has not called for a second has all of it again.
    if (this.#rates.size >= rememberedCallers)
      for (const [key, rate] of this.#rates) if (now - rate.at > 1_000) this.#rates.delete(key);
    this.#rates.set(caller, { left: room < 1 ? room : room - 1, at: now });
    return room >= 1;
  }

  #hold(
    budget: Budget,
    caller: Principal | null,
    reason: LimitReason,
    variable: string,
    what: string,
  ): Holding {
    const share = budget.open(callerKey(caller));
    return {
      reserve: (bytes) => {
        const full = share.take(bytes);
        if (full === undefined) return;
        throw full === 'holder'
          ? this.refusal(reason, `the ${what} of this caller are too large together`, {
              setting: `HOLDFAST_LIMITS_CALLER_${variable}`,
            })
          : this.refusal(reason, `the ${what} of all callers are too large together`, {
              setting: `HOLDFAST_LIMITS_${variable}`,
            });
      },
      release: () => share.end(),
    };
  }
}

/** The caller that a limit counts for; undefined for nobody, who is bounded by the limits of the process alone. */
export function callerKey(caller: Principal | null): string | undefined {
  return caller === null ? undefined : JSON.stringify([caller.realm, caller.id]);
}

/**
 * An amount that holders share. What is taken first is always granted, so that one large thing is never refused
 * for ever: its size has a bound of its own.
 */
export class Budget {
  readonly #total: number;
  readonly #perHolder: number;
  readonly #held = new Map<string | undefined, number>();
  #taken = 0;

  constructor(total: number, perHolder = Infinity) {
    this.#total = total;
    this.#perHolder = perHolder;
  }

  /** @param holder undefined: counts towards the total alone */
  open(holder?: string): { take(amount: number): 'holder' | 'total' | undefined; end(): void } {
    let own = 0;
    return {
      take: (amount) => {
        const held = this.#held.get(holder) ?? 0;
        const isFirstOfHolder = holder === undefined || held === own;
        if (!isFirstOfHolder && held + amount > this.#perHolder) return 'holder';
        if (this.#taken !== own && this.#taken + amount > this.#total) return 'total';
        own += amount;
        this.#add(holder, amount);
        return undefined;
      },
      end: () => {
        this.#add(holder, -own);
        own = 0;
      },
    };
  }

  #add(holder: string | undefined, amount: number): void {
    this.#taken += amount;
    const held = (this.#held.get(holder) ?? 0) + amount;
    if (held === 0) this.#held.delete(holder);
    else this.#held.set(holder, held);
  }
}
