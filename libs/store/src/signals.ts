import { onceEvery, systemClock } from '@holdfast/run';
import type { Signal } from './contract.js';
import type { ListenerLog } from './listening.js';

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

/** What another process sent over the channel of the store. */
export interface Hint {
  /** Marks the store object that sent it. */
  readonly origin: string;
  readonly signal: Signal;
  /** With `queued`: the lowest `seq` that became due; 0 where the sender does not say. */
  readonly lowest: number;
}

/** In characters. Postgres carries 8,000 bytes. */
const longestPayload = 16_384;
/** A batch ends at most 256 runs. */
const mostSeqs = 1_024;
const longestId = 256;
const longestTold = 4_096;

/**
 * Reads a payload `<origin> <kind> <data>`. Anybody who reaches the database can send one, whatever
 * rights he has, so it is a hint that something may have changed and never a fact.
 *
 * @returns undefined for what no version of ours sends
 */
export function readHint(payload: string): Hint | undefined {
  if (payload.length > longestPayload) return undefined;
  const [, origin, kind, data = ''] = /^(\S{1,64}) ([a-z]{1,16})(?: (.*))?$/s.exec(payload) ?? [];
  if (origin === undefined) return undefined;
  const hint = (signal: Signal | undefined, lowest = 0): Hint | undefined =>
    signal && { origin, signal, lowest };
  switch (kind) {
    case 'queued': {
      const lowest = data === '' ? 0 : readSeq(data);
      return lowest === undefined ? undefined : hint({ kind }, lowest);
    }
    case 'tools':
      return hint({ kind });
    case 'runs':
    case 'cancelled': {
      const seqs = data.split(',', mostSeqs + 1).map(readSeq);
      return seqs.length > mostSeqs || seqs.includes(undefined)
        ? undefined
        : hint({ kind, seqs: seqs as number[] });
    }
    case 'session':
      return data === '' || data.length > longestId ? undefined : hint({ kind, id: data });
    case 'told':
      return hint(readTold(data));
    default:
      return undefined;
  }
}

/** Says that a payload could not be read, at most once a minute: whoever sends one can send thousands. */
export function sayUnread(log: ListenerLog): () => void {
  const fault = onceEvery(log, 60_000, systemClock);
  return () => fault.report({}, 'a message on the channel of the store cannot be read; it is left out');
}

function readSeq(text: string): number | undefined {
  const seq = /^\d{1,16}$/.test(text) ? Number(text) : undefined;
  return Number.isSafeInteger(seq) ? seq : undefined;
}

/** @param data `{id, message}` as JSON */
function readTold(data: string): Signal | undefined {
  let told: unknown;
  try {
    told = JSON.parse(data);
  } catch {
    return undefined;
  }
  const { id, message } = (typeof told === 'object' && told !== null ? told : {}) as Record<string, unknown>;
  if (typeof id !== 'string' || id === '' || id.length > longestId) return undefined;
  if (typeof message !== 'string' || message.length > longestTold) return undefined;
  return { kind: 'told', id, message };
}
