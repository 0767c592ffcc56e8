import { appendFileSync, existsSync, readFileSync } from 'node:fs';

/** One call that was executed: the effect that must not happen twice. */
export interface Execution {
  readonly tool: string;
  /** `_meta.idempotency_key` of the call; empty without one. */
  readonly key: string;
}

/** An execution as the file has it: with when it was, on the clock of `Date.now`. */
export interface KeptExecution extends Execution {
  readonly at: number;
}

/** What an upstream executed, kept in a file so that it outlives the process by a kill at any moment. */
export class Executions {
  readonly #file: string | undefined;
  readonly #all: Execution[];

  constructor(file?: string) {
    this.#file = file;
    this.#all = file === undefined ? [] : readExecutions(file).map(({ tool, key }) => ({ tool, key }));
  }

  get all(): readonly Execution[] {
    return this.#all;
  }

  add(execution: Execution): void {
    this.#all.push(execution);
    if (this.#file !== undefined) {
      const kept: KeptExecution = { ...execution, at: Date.now() };
      appendFileSync(this.#file, `${JSON.stringify(kept)}\n`);
    }
  }

  /** How often each key was executed. */
  byKey(): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const { key } of this.#all) counts[key] = (counts[key] ?? 0) + 1;
    return counts;
  }
}

/** What a file has of executions, in order. */
export function readExecutions(file: string): KeptExecution[] {
  if (!existsSync(file)) return [];
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as KeptExecution);
}
