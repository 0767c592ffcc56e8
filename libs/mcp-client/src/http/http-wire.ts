import type { Dispatcher } from 'undici';
import type { AddressGuard } from './address-guard.js';
import { exchange, type HttpAnswer, type HttpRequest } from './http-exchange.js';
import { discard } from './http-body.js';

export interface WireRequest extends Omit<HttpRequest, 'url'> {
  /**
   * Which redirects to the same origin are followed (BEHAVIOURS R21): for a call only those that keep
   * method and body by definition; for handshake and listing also 301 and 302, with the POST kept.
   */
  readonly follow: 'strict' | 'all' | 'none';
  /** A redirect is followed: what was asked so far ran nothing. */
  readonly onRedirect?: () => void;
}

export interface WireAnswer extends HttpAnswer {
  /** Where the answer came from, after redirects. */
  readonly url: URL;
  /** A redirect to another origin, which is never followed: credentials and arguments stay where they were meant for. */
  readonly isOffOrigin: boolean;
}

const protocolHeaders = ['accept', 'content-type', 'content-length', 'last-event-id'];
const maxRedirects = 5;
const followed = { strict: [307, 308], all: [301, 302, 307, 308], none: [] as number[] };

/** The way to one server: its URL, what goes with every request, and redirects. */
export class HttpWire {
  readonly #dispatcher: Dispatcher;
  readonly #guard: AddressGuard;
  readonly #headers: Readonly<Record<string, string>>;
  #callerHeaders: Readonly<Record<string, string>> = {};
  /** Where requests go. */
  url: URL;

  /** @param headers  go with every request, but for names that are the protocol's own */
  constructor(
    dispatcher: Dispatcher,
    guard: AddressGuard,
    { url, headers }: { readonly url: URL; readonly headers: Readonly<Record<string, string>> },
  ) {
    this.#dispatcher = dispatcher;
    this.#guard = guard;
    this.#headers = withoutOurs(headers);
    this.url = url;
  }

  /** What goes with every request from now on, in place of those of before, and of the server's own of the same names. */
  set callerHeaders(headers: Readonly<Record<string, string>>) {
    this.#callerHeaders = withoutOurs(headers);
  }

  /** @throws what `exchange` throws; ConnectionFault `blocked` for a redirect that the guard refuses */
  async request({ follow, onRedirect, beforeFirstByte, ...request }: WireRequest): Promise<WireAnswer> {
    const headers = { ...this.#headers, ...this.#callerHeaders, ...lowerCased(request.headers) };
    let url = this.url;
    let before = beforeFirstByte;
    for (let hop = 0; ; hop += 1) {
      const answer = await exchange(this.#dispatcher, {
        ...request,
        url,
        headers,
        ...(before && { beforeFirstByte: before }),
      });
      const target = redirectOf(answer, url);
      const isOffOrigin = target !== undefined && target.origin !== this.url.origin;
      const isFollowed = target !== undefined && !isOffOrigin && followed[follow].includes(answer.status);
      if (!isFollowed || hop === maxRedirects) return { ...answer, url, isOffOrigin };
      discard(answer.body);
      onRedirect?.();
      url = this.#guard.check(target.href);
      // What had to be done before sending was done.
      before = undefined;
    }
  }
}

/** Without those that are the protocol's own. */
function withoutOurs(headers: Readonly<Record<string, string>>): Record<string, string> {
  const isOurs = ([name]: [string, string]): boolean =>
    name.startsWith('mcp-') || protocolHeaders.includes(name);
  return Object.fromEntries(Object.entries(lowerCased(headers)).filter((one) => !isOurs(one)));
}

function redirectOf({ status, headers }: HttpAnswer, from: URL): URL | undefined {
  const { location } = headers;
  const isRedirect = status >= 300 && status < 400 && location !== undefined;
  return isRedirect && URL.canParse(location, from.href) ? new URL(location, from) : undefined;
}

function lowerCased(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}
