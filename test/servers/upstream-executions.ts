import { appendFileSync, existsSync, readFileSync } from 'node:fs';

/** One call that was executed: the effect that must not happen twice. */
export interface Execution {
  readonly tool: string;
  /** `_meta.idempotency_key` of the call; empty without one. */
  readonly key: string;
}

/** What an upstream executed, kept in a file so that it outlives the process by a kill at any moment. */
export class Executions {
  readonly #file: string | undefined;
  readonly #all: Execution[];

  constructor(file?: string) {
    this.#file = file;
    const text = file !== undefined && existsSync(file) ? readFileSync(file, 'utf8') : '';
    this.#all = text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Execution);
  }

  get all(): readonly Execution[] {
    return this.#all;
  }

  add(execution: Execution): void {
    this.#all.push(execution);
    if (this.#file !== undefined) appendFileSync(this.#file, `${JSON.stringify(execution)}\n`);
  }

  /** How often each key was executed. */
  byKey(): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const { key } of this.#all) counts[key] = (counts[key] ?? 0) + 1;
    return counts;
  }
}
