/** Lets so many in at once, in the order in which they came. */
export class Turns {
  readonly #atOnce: number;
  readonly #waiting: { enter(): void; leave(): void }[] = [];
  #inside = 0;

  constructor(atOnce: number) {
    this.#atOnce = atOnce;
  }

  /** How many are inside. */
  get inside(): number {
    return this.#inside;
  }

  /** Sends away who waits. */
  turnAway(): void {
    for (const one of [...this.#waiting]) one.leave();
  }

  /** Resolves to how to leave, once it is one's turn; to undefined when `signal` aborts, or it is sent away, before that. */
  async enter(signal: AbortSignal): Promise<(() => void) | undefined> {
    if (signal.aborted) return undefined;
    if (this.#inside >= this.#atOnce) {
      const isIn = await new Promise<boolean>((resolve) => {
        const one = {
          enter: (): void => {
            signal.removeEventListener('abort', one.leave);
            resolve(true);
          },
          leave: (): void => {
            signal.removeEventListener('abort', one.leave);
            this.#waiting.splice(this.#waiting.indexOf(one), 1);
            resolve(false);
          },
        };
        signal.addEventListener('abort', one.leave, { once: true });
        this.#waiting.push(one);
      });
      if (!isIn) return undefined;
    } else this.#inside++;
    let isOut = false;
    return () => {
      if (isOut) return;
      isOut = true;
      const next = this.#waiting.shift();
      // Whoever is next takes the place over.
      if (next === undefined) this.#inside--;
      else next.enter();
    };
  }
}
