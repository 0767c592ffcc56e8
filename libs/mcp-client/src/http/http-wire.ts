import type { Dispatcher } from 'undici';
import type { AddressGuard } from './address-guard.js';
import { exchange, type HttpAnswer, type HttpRequest } from './http-exchange.js';
import { discard } from './http-body.js';
import { CookieJar } from './cookie-jar.js';

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
  /**
   * Target of a redirect to another origin, without its query. It is never followed: credentials and arguments
   * stay where they were meant for.
   */
  readonly elsewhere?: string;
}

const protocolHeaders = ['accept', 'content-type', 'content-length', 'last-event-id'];
const maxRedirects = 5;
const followed = { strict: [307, 308], all: [301, 302, 307, 308], none: [] as number[] };

/** The way to one server: its URL, what goes with every request, and redirects. */
export class HttpWire {
  readonly #dispatcher: Dispatcher;
  readonly #guard: AddressGuard;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #cookies = new CookieJar();
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
    const fixed = { ...this.#headers, ...this.#callerHeaders, ...lowerCased(request.headers) };
    let url = this.url;
    let before = beforeFirstByte;
    for (let hop = 0; ; hop += 1) {
      const answer = await exchange(this.#dispatcher, {
        ...request,
        url,
        headers: this.#cookies.addTo(fixed, url),
        ...(before && { beforeFirstByte: before }),
      });
      this.#cookies.take(answer.headers['set-cookie'], url);
      const target = redirectOf(answer, url);
      if (target !== undefined && target.origin !== this.url.origin)
        return { ...answer, url, elsewhere: shownUrl(target) };
      const isFollowed = target !== undefined && followed[follow].includes(answer.status);
      if (!isFollowed || hop === maxRedirects) return { ...answer, url };
      discard(answer.body);
      onRedirect?.();
      url = this.#guard.check(target.href);
      // What had to be done before sending was done.
      before = undefined;
    }
  }
}

/** A URL for messages: without user, query and fragment, which may be secrets. */
export function shownUrl({ origin, pathname }: URL): string {
  return `${origin}${pathname}`.slice(0, 300);
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

export function lowerCased(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}
