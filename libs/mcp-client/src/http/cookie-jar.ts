import { parseCookie } from 'undici';

interface KeptCookie {
  readonly value: string;
  readonly path: string;
  readonly isSecure: boolean;
}

const maxCookies = 50;
/** Bytes of one cookie, its name included. */
const maxCookieBytes = 4_096;

/**
 * The cookies of one connection, such as those by which a load balancer finds its node again. A connection
 * has one origin, so a cookie for another domain is not kept. In memory only.
 */
export class CookieJar {
  readonly #cookies = new Map<string, KeptCookie>();

  /** Keeps the cookies of an answer; a cookie that has expired is removed. */
  take(setCookie: string | readonly string[] | undefined, from: URL): void {
    for (const text of [setCookie ?? []].flat()) {
      const cookie = text.length <= maxCookieBytes ? parseCookie(text) : null;
      if (cookie === null || cookie.name === '') continue;
      const { name, value, domain, path, secure, expires, maxAge } = cookie;
      if (domain !== undefined && !isWithin(from.hostname, domain)) continue;
      this.#cookies.delete(name);
      const isExpired = maxAge === undefined ? expires != null && Number(expires) <= Date.now() : maxAge <= 0;
      if (isExpired || this.#cookies.size >= maxCookies) continue;
      this.#cookies.set(name, { value, path: path ?? '/', isSecure: secure === true });
    }
  }

  /** The headers of a request to `url` with its cookies, after those that the operator set. */
  addTo(headers: Readonly<Record<string, string>>, url: URL): Readonly<Record<string, string>> {
    const { cookie: fixed } = headers;
    const names = new Set(fixed?.split(';').map((pair) => pair.split('=', 1)[0]!.trim()));
    const pairs = [...this.#cookies]
      .filter(([name, kept]) => !names.has(name) && isFor(kept, url))
      .map(([name, { value }]) => `${name}=${value}`);
    return pairs.length === 0
      ? headers
      : { ...headers, cookie: [...(fixed === undefined ? [] : [fixed]), ...pairs].join('; ') };
  }
}

function isFor({ path, isSecure }: KeptCookie, { protocol, pathname }: URL): boolean {
  if (isSecure && protocol !== 'https:') return false;
  return pathname === path || pathname.startsWith(path.endsWith('/') ? path : `${path}/`);
}

function isWithin(host: string, domain: string): boolean {
  const bare = domain.replace(/^\./, '').toLowerCase();
  return host === bare || host.endsWith(`.${bare}`);
}
