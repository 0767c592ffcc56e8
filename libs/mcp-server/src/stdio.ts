import { serveStdio } from '@modelcontextprotocol/server/stdio';
import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/server';
import { StringDecoder } from 'node:string_decoder';
import type { Readable, Writable } from 'node:stream';
import { parseJson, writeJson } from '@holdfast/run';
import { readMessage } from './message.js';
import { makeServer, type ModernParts } from './modern.js';
import { restoreNumbers, withPlainNumbers } from './plain-numbers.js';
import { codes, errorMessage, ProtocolRefusal } from './wire-errors.js';

/**
 * Serves one host over a pair of streams, both eras, nobody authenticated (BEHAVIOURS 64, 68).
 * Resolves when the host has closed its end and what it asked is answered: it may be a pipe that
 * still reads. Answers are waited for no longer than `graceMs` from there.
 */
export function serveHostOverStdio(
  parts: ModernParts,
  input: Readable,
  output: Writable,
  graceMs = 0,
): Promise<void> {
  return new Promise((resolve) => {
    const transport = new LineTransport(input, output, graceMs, () => {
      void handle.close();
      resolve();
    });
    const handle = serveStdio(() => makeServer(parts, { principalOf: () => null, canComeBack: false }), {
      transport,
      onerror: (error) => parts.log.warn({ err: error }, 'message not served'),
    });
  });
}

/** One JSON message a line. Ours, because the SDK's reads numbers that a double cannot hold as others. */
class LineTransport implements Transport {
  onmessage?: (message: JSONRPCMessage) => void;
  onclose?: () => void;
  readonly #input: Readable;
  readonly #output: Writable;
  readonly #graceMs: number;
  readonly #onEnd: () => void;
  /** Requests that have no answer yet. */
  readonly #unanswered = new Set<unknown>();
  #grace: NodeJS.Timeout | undefined;
  readonly #decoder = new StringDecoder('utf8');
  #rest: string[] = [];

  constructor(input: Readable, output: Writable, graceMs: number, onEnd: () => void) {
    this.#input = input;
    this.#output = output;
    this.#graceMs = graceMs;
    this.#onEnd = onEnd;
  }

  async start(): Promise<void> {
    this.#input.on('data', (chunk: Buffer) => this.#take(this.#decoder.write(chunk)));
    this.#input.once('end', () => {
      this.#take(`${this.#decoder.end()}\n`);
      this.#grace = setTimeout(() => this.#onEnd(), this.#graceMs);
      this.#endOnceAnswered();
    });
    // A host that is gone cannot be written to; its end of input tells us.
    this.#output.on('error', () => {});
  }

  async send(message: JSONRPCMessage): Promise<void> {
    this.#output.write(`${restoreNumbers(writeJson(message)!)}\n`);
    if (!('method' in message)) this.#settle(message.id);
  }

  #settle(id: unknown): void {
    this.#unanswered.delete(id);
    this.#endOnceAnswered();
  }

  #endOnceAnswered(): void {
    if (this.#grace === undefined || this.#unanswered.size > 0) return;
    clearTimeout(this.#grace);
    this.#onEnd();
  }

  async close(): Promise<void> {
    this.#input.removeAllListeners('data');
    this.onclose?.();
  }

  /** Only a line feed ends a line: U+2028 and its like are text. */
  #take(text: string): void {
    const [first = '', ...more] = text.split('\n');
    this.#rest.push(first);
    for (const next of more) {
      this.#read(this.#rest.join(''));
      this.#rest = [next];
    }
  }

  #read(line: string): void {
    if (line.trim() === '') return;
    try {
      const message = readLine(line);
      readMessage(message);
      const plain = withPlainNumbers(message) as JSONRPCMessage;
      if ('method' in plain && 'id' in plain) this.#unanswered.add(plain.id);
      this.onmessage?.(plain);
      // Nothing more is sent for a request that its host took back (BEHAVIOURS 54).
      if ('method' in plain && plain.method === 'notifications/cancelled')
        this.#settle(plain.params?.['requestId']);
    } catch (error) {
      if (!(error instanceof ProtocolRefusal)) throw error;
      this.#output.write(`${errorMessage(null, error)}\n`);
    }
  }
}

function readLine(line: string): unknown {
  try {
    return parseJson(line);
  } catch {
    throw new ProtocolRefusal(codes.parseError, 'the line is not valid JSON');
  }
}
