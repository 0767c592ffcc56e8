import { isUtf8 } from 'node:buffer';
import type { Readable, Writable } from 'node:stream';
import { ByteLines, codes } from '@holdfast/protocol';
import { writeJson } from '@holdfast/run';
import { callOf, type Sender } from './call.js';
import { legacyResult } from './call-result.js';
import { answerLegacy, toolsChanged } from './legacy.js';
import { parseMessage, progressTokenOf, readMessage, type HostRequest, type Params } from './message.js';
import { answerModern, checkEnvelope, hasEnvelope, Subscription, type ModernParts } from './modern.js';
import { progressMessage } from './progress.js';
import { errorMessage, ProtocolRefusal, resultMessage } from './wire-errors.js';
import { refusalOf } from './fault.js';

/**
 * Serves one host over a pair of streams, both eras, nobody authenticated (BEHAVIOURS 64, 68). Each
 * request says by its envelope which era it is of. Resolves when the host has closed its end and what
 * it asked is answered: it may be a pipe that still reads. Answers are waited for no longer than
 * `graceMs` from there.
 */
export async function serveHostOverStdio(
  parts: ModernParts,
  input: Readable,
  output: Writable,
  graceMs = 0,
): Promise<void> {
  const host = new StdioHost(parts, output);
  // A host that is gone cannot be written to; its end of input tells us.
  output.on('error', () => {});
  await new Promise<void>((resolve) => {
    const lines = new ByteLines(parts.maxBodyBytes, {
      line: (line) => host.take(line),
      tooLong: () => host.take(undefined),
    });
    input.on('data', (chunk: Buffer) => lines.push(chunk));
    input.once('end', () => {
      lines.end();
      resolve();
    });
  });
  await host.close(graceMs);
}

class StdioHost {
  readonly #parts: ModernParts;
  readonly #output: Writable;
  readonly #unsubscribe: () => void;
  /** Requests that have no answer yet, by id. */
  readonly #waiting = new Map<string, AbortController>();
  readonly #listening = new Map<string, Subscription>();
  /** An older host is told of changes without asking. */
  #isInitialized = false;
  #onIdle: (() => void) | undefined;

  constructor(parts: ModernParts, output: Writable) {
    this.#parts = parts;
    this.#output = output;
    this.#unsubscribe = parts.catalogue.onChange(() => {
      if (this.#isInitialized) this.#write(toolsChanged);
      for (const subscription of this.#listening.values()) this.#write(subscription.toolsChanged());
    });
  }

  /** Waits for the answers that are under way, for `graceMs` at most. The runs go on. */
  async close(graceMs: number): Promise<void> {
    if (this.#waiting.size > 0) {
      await new Promise<void>((resolve) => {
        const grace = setTimeout(resolve, graceMs);
        this.#onIdle = () => {
          clearTimeout(grace);
          resolve();
        };
      });
    }
    for (const gone of this.#waiting.values()) gone.abort();
    for (const subscription of this.#listening.values()) this.#write(subscription.over());
    this.#listening.clear();
    this.#unsubscribe();
  }

  /** @param line undefined for one that is too long */
  take(line: Buffer | undefined): void {
    try {
      if (line === undefined) {
        const limit = `${this.#parts.maxBodyBytes} bytes (HOLDFAST_MAX_BODY_BYTES)`;
        throw new ProtocolRefusal(codes.invalidRequest, `the line is longer than ${limit}`);
      }
      if (!isUtf8(line)) throw new ProtocolRefusal(codes.parseError, 'the line is not valid UTF-8');
      const text = line.toString();
      if (text.trim() === '') return;
      const message = readMessage(parseMessage(text, this.#parts.limits));
      if (message.kind === 'request') void this.#serve(message);
      else if (message.kind === 'notification') this.#note(message.method, message.params);
    } catch (error) {
      this.#write(errorMessage(null, refusalOf(error, this.#parts.log)));
    }
  }

  #note(method: string, params: Params): void {
    if (method === 'notifications/initialized') this.#isInitialized = true;
    if (method !== 'notifications/cancelled') return;
    const key = writeJson(params['requestId']) ?? '';
    // Nothing more is sent for a request that its host took back (BEHAVIOURS 54).
    this.#waiting.get(key)?.abort();
    this.#settle(key);
    this.#listening.delete(key);
  }

  async #serve(request: HostRequest): Promise<void> {
    const { id } = request;
    const key = writeJson(id)!;
    const gone = new AbortController();
    this.#waiting.set(key, gone);
    const write = (message: string): void => {
      if (!gone.signal.aborted) this.#write(message);
    };
    try {
      if (hasEnvelope(request.params)) checkEnvelope(request);
      if (hasEnvelope(request.params) && request.method === 'subscriptions/listen')
        return this.#listen(key, new Subscription(request, this.#parts.serverInfo, this.#listening.size));
      const json = await this.#answer(request, write, gone.signal);
      write(resultMessage(id, json));
    } catch (error) {
      if (!gone.signal.aborted) write(errorMessage(id, refusalOf(error, this.#parts.log, { request })));
    } finally {
      if (this.#waiting.get(key) === gone) this.#settle(key);
    }
  }

  async #answer(
    request: HostRequest,
    write: (message: string) => void,
    signal: AbortSignal,
  ): Promise<string> {
    const token = progressTokenOf(request.params);
    const sender: Sender = {
      principal: null,
      signal,
      canComeBack: false,
      ...(token !== undefined && { onProgress: (progress) => write(progressMessage(token, progress)) }),
    };
    if (hasEnvelope(request.params)) return answerModern(this.#parts, request, sender);
    return request.method === 'tools/call'
      ? legacyResult(await this.#parts.calls.call(callOf(request, sender)))
      : answerLegacy(this.#parts, request);
  }

  #listen(key: string, subscription: Subscription): void {
    this.#write(subscription.acknowledged());
    if (subscription.isOpen) this.#listening.set(key, subscription);
    else this.#write(subscription.over());
  }

  #settle(key: string): void {
    this.#waiting.delete(key);
    if (this.#waiting.size === 0) this.#onIdle?.();
  }

  #write(message: string): void {
    this.#output.write(`${message}\n`);
  }
}
