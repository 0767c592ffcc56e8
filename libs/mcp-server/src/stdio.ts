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
 * Resolves when the host closes its end.
 */
export function serveHostOverStdio(parts: ModernParts, input: Readable, output: Writable): Promise<void> {
  return new Promise((resolve) => {
    const transport = new LineTransport(input, output, () => {
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
  readonly #onEnd: () => void;
  readonly #decoder = new StringDecoder('utf8');
  #rest: string[] = [];

  constructor(input: Readable, output: Writable, onEnd: () => void) {
    this.#input = input;
    this.#output = output;
    this.#onEnd = onEnd;
  }

  async start(): Promise<void> {
    this.#input.on('data', (chunk: Buffer) => this.#take(this.#decoder.write(chunk)));
    this.#input.once('end', () => {
      this.#take(`${this.#decoder.end()}\n`);
      this.#onEnd();
    });
    // A host that is gone cannot be written to; its end of input tells us.
    this.#output.on('error', () => {});
  }

  async send(message: JSONRPCMessage): Promise<void> {
    this.#output.write(`${restoreNumbers(writeJson(message)!)}\n`);
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
      this.onmessage?.(withPlainNumbers(message) as JSONRPCMessage);
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
