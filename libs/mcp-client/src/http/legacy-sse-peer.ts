import type { AddressGuard } from './address-guard.js';
import { ConnectionFault } from '../connection.js';
import { bytesUpTo, discard, readEvents } from './http-body.js';
import { refusedFault, thrownFault } from './http-fault.js';
import {
  HttpPeer,
  jsonBody,
  mediaType,
  readRefusal,
  streamEnded,
  type Question,
  type Reply,
} from './http-peer.js';
import { shownUrl, type HttpWire, type WireAnswer } from './http-wire.js';
import { ourId, type RpcAnswer } from '../json-rpc.js';

interface StreamOptions {
  readonly host: string;
  readonly guard: AddressGuard;
  /** Characters of one event. */
  readonly maxEvent: number;
  /** Ends the attempt, not the stream. */
  readonly signal: AbortSignal;
}

/**
 * A server of HTTP+SSE, the transport of 2024-11-05: one stream that names the URL to post to and brings every
 * answer. When the stream ends, the server is gone.
 */
export class LegacySsePeer extends HttpPeer {
  readonly #wire: HttpWire;
  readonly #closing: AbortController;
  readonly #waiting = new Map<number, (answer: RpcAnswer) => void>();

  constructor(wire: HttpWire, closing: AbortController) {
    super(wire, closing.signal);
    this.#wire = wire;
    this.#closing = closing;
  }

  /**
   * Opens the stream, and resolves once it named where to post.
   * @throws ConnectionFault
   */
  async open({ host, guard, maxEvent, signal }: StreamOptions): Promise<void> {
    const giveUp = (): void => this.#closing.abort(signal.reason);
    if (signal.aborted) giveUp();
    signal.addEventListener('abort', giveUp, { once: true });
    try {
      const stream = await this.openStream(undefined, this.#closing.signal);
      if (stream.status !== 200 || mediaType(stream) !== 'text/event-stream') {
        discard(stream.body);
        const { status, headers, elsewhere } = stream;
        throw refusedFault(
          host,
          { kind: 'status', status, headers, ...(elsewhere !== undefined && { elsewhere }) },
          'protocol',
        );
      }
      const endpoint = Promise.withResolvers<string>();
      void this.#read(stream, maxEvent, endpoint);
      this.#wire.url = endpointOf(await endpoint.promise, stream.url, { host, guard });
    } catch (error) {
      throw thrownFault(host, error);
    } finally {
      signal.removeEventListener('abort', giveUp);
    }
  }

  override async ask({
    id,
    method,
    text,
    headers,
    name: _name,
    maxBytes: _maxBytes,
    ...request
  }: Question): Promise<Reply> {
    const answered = new Promise<RpcAnswer>((resolve) => {
      this.#waiting.set(id, resolve);
      if (this.isGone) resolve(streamEnded);
      request.signal.addEventListener('abort', () => resolve(streamEnded), { once: true });
    });
    try {
      const posted = await this.#wire.request({
        ...request,
        method: 'POST',
        headers: { ...headers, ...this.headers(method), ...jsonBody },
        body: text,
        beforeFirstByte: async () => {
          // Without the stream nobody would hear the answer.
          if (this.isGone) throw new ConnectionFault('unreachable', 'the stream of the server has ended');
          await request.beforeFirstByte?.();
        },
      });
      if (posted.status < 200 || posted.status >= 300) return await readRefusal(posted);
      discard(posted.body);
      const answer = await answered;
      return answer.kind === 'broken' ? answer : { kind: 'answer', answer, headers: {}, url: posted.url };
    } finally {
      this.#waiting.delete(id);
    }
  }

  async #read({ body }: WireAnswer, maxEvent: number, endpoint: PromiseWithResolvers<string>): Promise<void> {
    try {
      for await (const event of readEvents(body, bytesUpTo(Infinity), maxEvent)) {
        if (event.type === 'endpoint') endpoint.resolve(event.data);
        for (const message of this.readEvent(event)) {
          const asked = message.kind === 'answer' ? this.#askedBy(ourId(message.id)) : undefined;
          if (asked !== undefined && message.kind === 'answer') asked(message.answer);
          else this.receive(message);
        }
      }
    } catch {
      // Broken off, or not fit to be read on: the same as its end.
    } finally {
      body.destroy();
      this.lose();
      endpoint.reject(new Error('the stream ended before it named its endpoint'));
      for (const resolve of this.#waiting.values()) resolve(streamEnded);
    }
  }
  /** Who waits for this answer; only the first one counts. */
  #askedBy(id: number | undefined): ((answer: RpcAnswer) => void) | undefined {
    if (id === undefined) return undefined;
    const asked = this.#waiting.get(id);
    this.#waiting.delete(id);
    return asked;
  }
}

/** @throws ConnectionFault `blocked` for another origin: arguments and credentials would go there */
function endpointOf(text: string, stream: URL, { host, guard }: Pick<StreamOptions, 'host' | 'guard'>): URL {
  const target = URL.canParse(text, stream.href) ? new URL(text, stream.href) : undefined;
  if (target === undefined) throw new ConnectionFault('protocol', `${host} names an endpoint that is no URL`);
  if (target.origin !== stream.origin)
    throw new ConnectionFault('blocked', `${host} names the endpoint ${shownUrl(target)}, of another origin, which is not called`); // prettier-ignore
  return guard.check(target.href);
}
