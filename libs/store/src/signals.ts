import type { Signal } from './contract.js';

/** The listeners of one store object. */
export class Signals {
  readonly #listeners = new Set<(signal: Signal) => void>();

  subscribe(listener: (signal: Signal) => void): () => void {
    // Wrapped, so that one function subscribed twice is two subscriptions.
    const own = (signal: Signal): void => listener(signal);
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  emit(signal: Signal): void {
    for (const listener of [...this.#listeners]) listener(signal);
  }
}
