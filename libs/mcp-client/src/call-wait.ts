/** Why nothing more is waited for, where nobody waits. */
export const gaveUp = 'the caller gave up';

/** How long an answer is waited for, and why no longer. */
export class CallWait {
  readonly signal: AbortSignal;
  readonly #ending = new AbortController();
  readonly #outer: readonly AbortSignal[];
  #timer: NodeJS.Timeout | undefined;
  #why: 'timeout' | 'aborted' | undefined;
  #timeoutMs = 0;

  constructor(...outer: readonly AbortSignal[]) {
    this.signal = this.#ending.signal;
    this.#outer = outer;
    for (const signal of outer) {
      if (signal.aborted) this.#onAbort();
      else signal.addEventListener('abort', this.#onAbort, { once: true });
    }
  }

  /** Undefined while the answer is waited for. */
  get why(): 'timeout' | 'aborted' | undefined {
    return this.#why;
  }

  get reason(): string {
    return this.#why === 'timeout' ? `no answer within ${this.#timeoutMs} ms` : gaveUp;
  }

  /** The time runs from the first byte; a redirect does not start it anew. */
  start(timeoutMs: number): void {
    if (this.#timer !== undefined) return;
    this.#timeoutMs = timeoutMs;
    this.#timer = setTimeout(() => this.#end('timeout'), timeoutMs);
  }

  end(): void {
    clearTimeout(this.#timer);
    for (const signal of this.#outer) signal.removeEventListener('abort', this.#onAbort);
  }

  readonly #onAbort = (): void => this.#end('aborted');

  #end(why: 'timeout' | 'aborted'): void {
    this.#why ??= why;
    this.#ending.abort(new Error('nobody waits any more'));
  }
}
