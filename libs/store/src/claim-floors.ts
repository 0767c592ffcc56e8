const maxSets = 64;

/**
 * Up to which `seq` nothing is left to claim, as far as this process knows, for each set of
 * workflows. Wrong only towards looking again: what comes up below a floor is told by `lower`.
 */
export class ClaimFloors {
  readonly #floors = new Map<string, number>();
  readonly #looks = new Set<{ lowest: number }>();

  /** A claim begins. Exactly one of `done` and `failed` ends it. */
  look(set: string): Look {
    const look = { lowest: Infinity };
    this.#looks.add(look);
    return {
      from: this.#floors.get(set) ?? 0,
      done: (floor) => {
        this.#looks.delete(look);
        // What came up during the claim may have been too late for it.
        const safe = Math.min(floor, look.lowest - 1);
        const known = this.#floors.get(set) ?? 0;
        // Sets come and go as servers are busy or not. One that is forgotten is looked through anew.
        this.#floors.delete(set);
        this.#floors.set(set, Math.max(known, safe));
        if (this.#floors.size > maxSets) this.#floors.delete(this.#floors.keys().next().value!);
      },
      failed: () => {
        this.#looks.delete(look);
        // Others have passed over the rows that this claim held.
        this.lower(0);
      },
    };
  }

  /** Runs from `seq` on may have become due. */
  lower(seq: number): void {
    for (const look of this.#looks) look.lowest = Math.min(look.lowest, seq);
    for (const [set, floor] of this.#floors) {
      if (floor >= seq) this.#floors.set(set, Math.max(0, seq - 1));
    }
  }
}

export interface Look {
  /** Look behind this `seq`. */
  readonly from: number;
  /** Nothing is left up to `floor`. */
  done(floor: number): void;
  failed(): void;
}
