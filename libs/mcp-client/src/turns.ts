/** Lets so many in at once, in the order in which they came. */
export class Turns {
  readonly #atOnce: number;
  readonly #waiting: (() => void)[] = [];
  #inside = 0;

  constructor(atOnce: number) {
    this.#atOnce = atOnce;
  }

  /** How many are inside. */
  get inside(): number {
    return this.#inside;
  }

  /** Resolves to how to leave, once it is one's turn; to undefined when `signal` aborts before that. */
  async enter(signal: AbortSignal): Promise<(() => void) | undefined> {
    if (signal.aborted) return undefined;
    if (this.#inside >= this.#atOnce) {
      const isIn = await new Promise<boolean>((resolve) => {
        const enter = (): void => {
          signal.removeEventListener('abort', leave);
          resolve(true);
        };
        const leave = (): void => {
          this.#waiting.splice(this.#waiting.indexOf(enter), 1);
          resolve(false);
        };
        signal.addEventListener('abort', leave, { once: true });
        this.#waiting.push(enter);
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
      else next();
    };
  }
}
