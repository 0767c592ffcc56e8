import { type IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';

/** One HTTP request, and what happens around its first byte. */
export interface HttpRequest {
  readonly method: 'POST' | 'GET' | 'DELETE';
  readonly url: URL;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Awaited with the connection open and nothing written. When it throws nothing is written, and the exchange rejects with that. */
  readonly beforeFirstByte?: () => Promise<void>;
  /** The first bytes were given to the socket: from here on the server may have acted. */
  readonly onFirstByte?: () => void;
  /** Ends the exchange, its body included. */
  readonly signal: AbortSignal;
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Unbounded: whoever reads it keeps count. Destroying it ends the exchange. */
  readonly body: Readable;
}

/**
 * Makes one exchange, without following redirects or trying again.
 *
 * The body is a generator, because of how undici writes one: it connects, asks for a chunk, and
 * writes the head of the request together with the first chunk. So a refused connection, a name that is
 * not found, a failed TLS handshake and a socket that was closed while it was idle all end before
 * `onFirstByte`.
 *
 * @throws what the network, or `beforeFirstByte`, or the signal threw
 */
export function exchange(dispatcher: Dispatcher, request: HttpRequest): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    const { signal } = request;
    let controller: Dispatcher.DispatchController | undefined;
    let body: Readable | undefined;
    let ended: { readonly by: unknown } | undefined;
    let isSent = false;

    const end = (by: unknown): void => {
      if (ended !== undefined) return;
      ended = { by };
      signal.removeEventListener('abort', onAbort);
      controller?.abort(asError(by));
      body?.destroy(asError(by));
      reject(by);
    };
    const onAbort = (): void => end(signal.reason);
    if (signal.aborted) {
      end(signal.reason);
      return;
    }
    signal.addEventListener('abort', onAbort, { once: true });

    const write = async function* (bytes: Buffer): AsyncGenerator<Buffer> {
      try {
        await request.beforeFirstByte?.();
      } catch (error) {
        end(error);
      }
      if (ended !== undefined) throw asError(ended.by);
      yield bytes;
    };
    const bytes = request.body === undefined ? undefined : Buffer.from(request.body);

    dispatcher.dispatch(
      {
        origin: request.url.origin,
        path: request.url.pathname + request.url.search,
        method: request.method,
        headers: { ...request.headers, ...(bytes && { 'content-length': String(bytes.length) }) },
        // undici takes any async iterable; its type names streams only.
        body: bytes === undefined ? null : (write(bytes) as unknown as Readable),
        // Ours are the only clocks: these would end a call that is just slow.
        headersTimeout: 0,
        bodyTimeout: 0,
      },
      {
        onRequestStart(started) {
          controller = started;
          if (ended !== undefined) started.abort(asError(ended.by));
        },
        onBodySent() {
          if (isSent) return;
          isSent = true;
          request.onFirstByte?.();
        },
        onResponseStart(_controller, status, headers) {
          if (status < 200) return;
          if (bytes !== undefined && !isSent) {
            end(new Error('the server answered before it was asked'));
            return;
          }
          body = new Readable({ read: () => controller?.resume() });
          body.once('close', () => {
            signal.removeEventListener('abort', onAbort);
            if (!body?.readableEnded) controller?.abort(new Error('the rest of the answer is not wanted'));
          });
          // A body that breaks with nobody reading it must not end the process.
          body.on('error', () => {});
          resolve({ status, headers, body });
        },
        onResponseData(_controller, chunk) {
          if (body?.push(chunk) === false) controller?.pause();
        },
        onResponseEnd() {
          body?.push(null);
        },
        onResponseError(_controller, error) {
          end(error);
        },
      },
    );
  });
}

function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error('the exchange was ended', { cause: thrown });
}
