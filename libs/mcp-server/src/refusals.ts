import { onceEvery, type Clock, type Log, type RepeatedFault } from '@holdfast/run';
import type { AuthRefusal } from './auth.js';
import type { CallObserver } from './observer.js';

/** Why a request is not served: its caller, or the `Host` or `Origin` that it names. */
export type RefusalReason = AuthRefusal | 'host' | 'origin';

const lineEveryMs = 10_000;
/** A `Host` or `Origin` is text of a stranger. */
const longestValue = 256;

/** Counts the requests that are refused at the door, and writes at most one line per reason and interval. */
export class Refusals {
  readonly #log: Log;
  readonly #observer: Pick<CallObserver, 'refused'>;
  readonly #clock: Clock;
  readonly #lines = new Map<RefusalReason, RepeatedFault>();

  constructor(log: Log, observer: Pick<CallObserver, 'refused'>, clock: Clock) {
    this.#log = log;
    this.#observer = observer;
    this.#clock = clock;
  }

  /** A caller. One that presents nothing is only counted: hosts ask that way how to sign in. */
  caller(reason: AuthRefusal): void {
    this.#observer.refused(reason);
    if (reason !== 'no_credential') this.#line(reason).report({ reason }, 'caller refused');
  }

  /** A `Host` or `Origin` that is not allowed. */
  name(reason: 'host' | 'origin', value: string | undefined): void {
    this.#observer.refused(reason);
    const variable = reason === 'host' ? 'HOLDFAST_ALLOWED_HOSTS' : 'HOLDFAST_ALLOWED_ORIGINS';
    this.#line(reason).report({ reason, value: value?.slice(0, longestValue), variable }, 'request refused');
  }

  #line(reason: RefusalReason): RepeatedFault {
    const line = this.#lines.get(reason) ?? onceEvery(this.#log, lineEveryMs, this.#clock);
    this.#lines.set(reason, line);
    return line;
  }
}
