import type { IncomingHttpHeaders } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { Progress } from '@holdfast/run';
import type { Era } from '../era.js';
import { headerValue } from './header-value.js';
import { AnswerBudget, checkValues } from './answer-budget.js';
import { BodyFault, bytesUpTo, discard, readEvents, readText, type ServerEvent } from './http-body.js';
import type { HttpWire, WireAnswer, WireRequest } from './http-wire.js';
import {
  ourId,
  readError,
  readMessages,
  readProgress,
  writeReply,
  type BrokenAnswer,
  type RpcAnswer,
  type RpcMessage,
} from '../json-rpc.js';

/** One request of ours. */
export interface Question extends Pick<
  WireRequest,
  'beforeFirstByte' | 'onFirstByte' | 'onRedirect' | 'follow' | 'signal'
> {
  readonly id: number;
  readonly method: string;
  /** The whole message. */
  readonly text: string;
  /** The tool, for `Mcp-Name`. */
  readonly name?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly maxBytes: number;
}

/** What came back: facts only. */
export type Reply =
  | {
      readonly kind: 'answer';
      readonly answer: Exclude<RpcAnswer, BrokenAnswer>;
      readonly headers: IncomingHttpHeaders;
      readonly url: URL;
    }
  | {
      readonly kind: 'status';
      readonly status: number;
      readonly headers: IncomingHttpHeaders;
      /** The JSON-RPC error in its body. */
      readonly error?: { readonly code: number; readonly message: string };
      /** Whether its body speaks of the session, or of a server that was not initialized. */
      readonly isAboutSession?: boolean;
      readonly elsewhere?: string;
    }
  /** A success that holds no answer, or a body that broke off. */
  | BrokenAnswer;

/** How one speaks with the server once that is agreed. */
export interface Manner {
  readonly era: Era;
  readonly protocolVersion: string;
  readonly sessionId?: string;
}

export const maxSmallAnswerBytes = 256 * 1024;
const maxReplies = 8;
const defaultRetryMs = 1_000;
/** A server may wish to be asked again at once, and end each stream at once. */
const minRetryMs = 100;
const maxRetryMs = 30_000;

/**
 * The server as one speaks with it over Streamable HTTP: questions with their answers, and what it says
 * by itself. Knows nothing of tools.
 */
export class HttpPeer {
  readonly #wire: HttpWire;
  readonly #progress = new Map<number, (progress: Progress) => void>();
  readonly #changed = new Set<() => void>();
  readonly #closing: AbortSignal;
  #manner: Manner | undefined;
  #lastId = 0;
  #replies = 0;
  #ignored = 0;
  #isGone = false;

  constructor(wire: HttpWire, closing: AbortSignal) {
    this.#wire = wire;
    this.#closing = closing;
  }

  /** Messages that nobody waited for: unknown ids, second answers, what is no message. */
  get ignored(): number {
    return this.#ignored;
  }

  /** Whether no answer can come any more, because the session or the stream is lost. */
  get isGone(): boolean {
    return this.#isGone;
  }

  get hasSession(): boolean {
    return this.#manner?.sessionId !== undefined;
  }

  /** Notes that the server is to be connected anew; its tools may have changed unheard. */
  lose(): void {
    this.#isGone = true;
    if (!this.#closing.aborted) this.toolsChanged();
  }

  nextId(): number {
    this.#lastId += 1;
    return this.#lastId;
  }

  /** From now on requests go to `url` in this manner. */
  agree(manner: Manner, url: URL): void {
    this.#manner = manner;
    this.#wire.url = url;
  }

  onToolsChanged(listener: () => void): void {
    this.#changed.add(listener);
  }

  toolsChanged(): void {
    for (const listener of this.#changed) listener();
  }

  /** Passes on the progress of the request with this token until the given function is called. */
  onProgress(token: number, listener: (progress: Progress) => void): () => void {
    this.#progress.set(token, listener);
    return () => this.#progress.delete(token);
  }

  /**
   * Asks, and reads on until the answer is there.
   * @throws what the network, the signal or `beforeFirstByte` threw before the head of an answer came
   */
  async ask({ id, method, text, name, headers, maxBytes, ...request }: Question): Promise<Reply> {
    const answer = await this.#wire.request({
      ...request,
      method: 'POST',
      headers: { ...headers, ...this.headers(method, name), ...jsonBody },
      body: text,
    });
    const budget = new AnswerBudget(maxBytes);
    try {
      if (answer.status < 200 || answer.status >= 300) return await readRefusal(answer);
      const found = await this.#readAnswer(answer, id, budget, request.signal);
      return found.kind === 'broken'
        ? found
        : { kind: 'answer', answer: found, headers: answer.headers, url: answer.url };
    } catch (error) {
      return broken(error instanceof BodyFault ? error.message : 'the answer broke off');
    } finally {
      budget.release();
      discard(answer.body);
    }
  }

  /** Sends what has no answer; resolves to the status. */
  async tell(
    text: string,
    method: string,
    signal: AbortSignal,
  ): Promise<{ status: number; elsewhere?: string }> {
    const { status, body, elsewhere } = await this.#wire.request({
      method: 'POST',
      headers: { ...this.headers(method), ...jsonBody },
      body: text,
      follow: 'all',
      signal,
    });
    discard(body);
    return { status, ...(elsewhere !== undefined && { elsewhere }) };
  }

  /** A stream on which the server speaks by itself, or from where another stream broke off. */
  async openStream(lastEventId: string | undefined, signal: AbortSignal): Promise<WireAnswer> {
    return this.#wire.request({
      method: 'GET',
      headers: {
        ...this.headers(),
        accept: 'text/event-stream',
        ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
      },
      follow: 'all',
      signal,
    });
  }

  /** Asks for what is answered by a stream without an end. */
  async openQuestion(method: string, text: string, signal: AbortSignal): Promise<WireAnswer> {
    return this.#wire.request({
      method: 'POST',
      headers: { ...this.headers(method), ...jsonBody },
      body: text,
      follow: 'all',
      signal,
    });
  }

  /** Ends the session, where there is one. */
  async endSession(signal: AbortSignal): Promise<void> {
    if (this.#manner?.sessionId === undefined) return;
    const { body } = await this.#wire.request({
      method: 'DELETE',
      headers: this.headers(),
      follow: 'none',
      signal,
    });
    discard(body);
  }

  /** What the agreed manner wants in the head of a request. */
  headers(method?: string, name?: string): Record<string, string> {
    const { era, protocolVersion, sessionId } = this.#manner ?? {};
    return {
      ...(protocolVersion !== undefined && { 'mcp-protocol-version': protocolVersion }),
      ...(sessionId !== undefined && { 'mcp-session-id': sessionId }),
      ...(era === 'modern' && method !== undefined && { 'mcp-method': method }),
      ...(era === 'modern' && name !== undefined && { 'mcp-name': headerValue(name) }),
    };
  }

  /** Takes what is not an answer to the question at hand. */
  receive(message: RpcMessage): void {
    if (message.kind === 'request') this.#reply(message);
    else if (message.kind !== 'notification') this.#ignored += 1;
    else if (message.method === 'notifications/tools/list_changed') this.toolsChanged();
    else if (message.method === 'notifications/progress') {
      const told = readProgress(message.params);
      if (told !== undefined) this.#progress.get(told.id)?.(told.progress);
    }
  }

  /** Reads the messages of one event; what is no JSON is counted, and the next may be good again. */
  readEvent({ type, data }: ServerEvent): readonly RpcMessage[] {
    if (type !== 'message' || data === '') return [];
    try {
      return readMessages(data);
    } catch {
      return [{ kind: 'noise' }];
    }
  }

  /** Answers a request of the server by a POST of its own. In the modern era servers have none. */
  #reply(request: RpcMessage & { kind: 'request' }): void {
    // Bounded: a server may ask faster than it reads.
    if (this.#manner?.era !== 'legacy' || this.#replies >= maxReplies) {
      this.#ignored += 1;
      return;
    }
    this.#replies += 1;
    const signal = AbortSignal.any([this.#closing, AbortSignal.timeout(10_000)]);
    this.tell(writeReply(request), request.method, signal)
      .catch(() => {})
      .finally(() => {
        this.#replies -= 1;
      });
  }

  async #readAnswer(
    answer: WireAnswer,
    id: number,
    budget: AnswerBudget,
    signal: AbortSignal,
  ): Promise<RpcAnswer> {
    const encoding = answer.headers['content-encoding'];
    if (encoding !== undefined && encoding !== 'identity') return broken('the answer is compressed, unasked');
    switch (mediaType(answer)) {
      case 'application/json':
        return (
          this.#find(readJson(await readText(answer.body, budget)), id) ??
          broken('the answer is to another request')
        );
      case 'text/event-stream':
        return this.#readStream(answer, id, budget, signal);
      default:
        return broken(`the answer (status ${answer.status}) is neither JSON nor an event stream`);
    }
  }

  /** Reads a stream to our answer, taking it up again where it breaks off and has ids. */
  async #readStream(
    first: WireAnswer,
    id: number,
    budget: AnswerBudget,
    signal: AbortSignal,
  ): Promise<RpcAnswer> {
    let stream: WireAnswer | undefined = first;
    let lastId: string | undefined;
    let retryMs = defaultRetryMs;
    for (;;) {
      try {
        if (stream !== undefined) {
          for await (const event of readEvents(stream.body, budget)) {
            lastId = event.lastId ?? lastId;
            retryMs = event.retryMs ?? retryMs;
            checkValues(event.data);
            const found = this.#find(this.readEvent(event), id);
            budget.release();
            if (found !== undefined) return found;
          }
        }
      } catch (error) {
        if (error instanceof BodyFault) return broken(error.message);
      } finally {
        if (stream !== undefined && stream !== first) discard(stream.body);
      }
      if (lastId === undefined || !this.#isResumable) return streamEnded;
      await delay(Math.min(Math.max(retryMs, minRetryMs), maxRetryMs), undefined, { signal });
      stream = await this.openStream(lastId, signal).catch(() => undefined);
      if (stream === undefined || stream.status >= 500) {
        if (stream !== undefined) discard(stream.body);
        stream = undefined;
      } else if (stream.status !== 200 || mediaType(stream) !== 'text/event-stream') {
        discard(stream.body);
        return broken('the stream ended before the answer, and cannot be taken up again');
      }
    }
  }

  get #isResumable(): boolean {
    return this.#manner?.era === 'legacy' && this.#manner.protocolVersion !== '2024-11-05';
  }

  /** The answer to our request among these messages; the rest is received. */
  #find(messages: readonly RpcMessage[], id: number): RpcAnswer | undefined {
    let found: RpcAnswer | undefined;
    for (const message of messages) {
      if (found === undefined && message.kind === 'answer' && ourId(message.id) === id)
        found = message.answer;
      else this.receive(message);
    }
    return found;
  }
}

function broken(reason: string): BrokenAnswer {
  return { kind: 'broken', reason };
}

export const streamEnded = broken('the stream ended before the answer');

export const jsonBody = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };

export function mediaType({ headers }: { readonly headers: IncomingHttpHeaders }): string {
  return (headers['content-type'] ?? '').split(';')[0]!.trim().toLowerCase();
}

function readJson(text: string): readonly RpcMessage[] {
  checkValues(text);
  try {
    return readMessages(text);
  } catch (cause) {
    throw new BodyFault('the answer is no JSON', { cause });
  }
}

/** A refusal does not wait longer for the end of its body. */
const refusalMs = 2_000;

/** The refusal with the JSON-RPC error of its body, where it has one. */
export async function readRefusal({ status, headers, body, elsewhere }: WireAnswer): Promise<Reply> {
  const refusal = { kind: 'status', status, headers, ...(elsewhere !== undefined && { elsewhere }) } as const;
  const patience = setTimeout(() => body.destroy(), refusalMs);
  try {
    const text = await readText(body, bytesUpTo(maxSmallAnswerBytes));
    const error = readError(text);
    const isAboutSession = /session|not initiali[sz]ed/i.test(text);
    return { ...refusal, ...(error !== undefined && { error }), isAboutSession };
  } catch {
    return refusal;
  } finally {
    clearTimeout(patience);
  }
}
