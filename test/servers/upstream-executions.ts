import { appendFileSync, existsSync, readFileSync } from 'node:fs';

/** One executed call: the effect that must not happen twice. */
export interface Execution {
  readonly tool: string;
  /** `_meta.idempotency_key` of the call; empty without one. */
  readonly key: string;
}

/** An execution as stored in the file, with its time on the clock of `Date.now`. */
export interface KeptExecution extends Execution {
  readonly at: number;
}

/** The executions of an upstream, kept in a file that survives a kill of the process at any moment. */
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

/** The executions in a file, in order. */
export function readExecutions(file: string): KeptExecution[] {
  if (!existsSync(file)) return [];
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as KeptExecution);
}
