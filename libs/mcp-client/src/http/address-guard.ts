import { lookup } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';
import { buildConnector } from 'undici';
import { classifyAddress } from './address-class.js';
import { ConnectionFault } from '../connection.js';

/** What an operator allows outbound connections to reach (BEHAVIOURS 161, 176-181, X18). */
export interface GuardSettings {
  /** Whether hosts that are literally `localhost`, `127.x.x.x` or `::1` may be called. */
  readonly allowLoopback: boolean;
  /** The only hostnames that may be called; equal but for case, the port ignored. */
  readonly allowedHosts?: readonly string[];
  /** Whether private addresses may be called (RFC 1918, RFC 4193 and their like). */
  readonly allowPrivate?: boolean;
  /** Whether a server without `allowedHosts` is refused. */
  readonly requireAllowedHosts: boolean;
  readonly network: 'on' | 'off';
}

export interface ResolvedAddress {
  readonly address: string;
  readonly family: number;
}

/** Every address of a hostname. */
export type Resolver = (hostname: string) => Promise<readonly ResolvedAddress[]>;

const systemResolver: Resolver = (hostname) => lookup(hostname, { all: true, verbatim: true });

/**
 * Decides where outbound connections go. The URL is checked when it is given, and for each connection
 * the host is resolved once, every address is checked, and only those addresses are dialled: a name
 * that changes its mind in between gains nothing.
 */
export class AddressGuard {
  readonly #settings: GuardSettings;
  readonly #resolve: Resolver;

  /** @param resolve  the system's resolver when omitted */
  constructor(settings: GuardSettings, resolve: Resolver = systemResolver) {
    this.#settings = settings;
    this.#resolve = resolve;
  }

  /**
   * Reads and checks the URL of a server, without asking the network.
   * @throws ConnectionFault `blocked`
   */
  check(text: string): URL {
    const url = URL.canParse(text) ? new URL(text) : undefined;
    if (url === undefined || (url.protocol !== 'https:' && url.protocol !== 'http:'))
      throw new ConnectionFault('blocked', 'the URL of the server is not an absolute http or https URL');
    const host = hostOf(url);
    if (this.#settings.network === 'off')
      throw new ConnectionFault('blocked', `${host} is not called: outbound network is switched off`);
    const isPlain = url.username === '' && url.password === '' && isWrittenAsMeant(text, url);
    if (!isPlain || !this.#isNamed(host)) throw refusal(host);
    if (isIP(host) !== 0) this.#checkAddresses(host, [host]);
    return url;
  }

  /**
   * What undici opens sockets with: TCP and TLS to addresses that were checked, and to no other.
   *
   * @param timeoutMs  for name, TCP and TLS together
   */
  connector(timeoutMs: number): buildConnector.connector {
    const connect = buildConnector({
      allowH2: false,
      timeout: timeoutMs,
      // The compiler's types of net.connect know `lookup`; those of undici's connector leave it out.
      ...({ lookup: this.#lookup } as object),
    });
    return (options, callback) => {
      try {
        // A literal address never reaches `lookup`.
        if (isIP(options.hostname) !== 0) this.#checkAddresses(options.hostname, [options.hostname]);
      } catch (error) {
        callback(error as Error, null);
        return;
      }
      connect(options, callback);
    };
  }

  readonly #lookup: LookupFunction = (hostname, { all }, callback) => {
    this.#addresses(hostname).then(
      (addresses) => {
        if (all === true) callback(null, [...addresses]);
        else callback(null, addresses[0]!.address, addresses[0]!.family);
      },
      (error: NodeJS.ErrnoException) => callback(error, ''),
    );
  };

  /** @throws ConnectionFault `blocked`, or what the resolver threw */
  async #addresses(hostname: string): Promise<readonly ResolvedAddress[]> {
    const addresses = await this.#resolve(hostname);
    if (addresses.length === 0)
      throw Object.assign(new Error(`no address of ${hostname}`), { code: 'ENOTFOUND' });
    this.#checkAddresses(
      hostname,
      addresses.map(({ address }) => address),
    );
    return addresses;
  }

  /** One bad address refuses the host: which of them is dialled is not ours to say. */
  #checkAddresses(host: string, addresses: readonly string[]): void {
    const isAllowed = addresses.every((address) => {
      switch (classifyAddress(address)) {
        case 'public':
          return true;
        case 'private':
          return this.#settings.allowPrivate === true;
        case 'loopback':
          return this.#settings.allowLoopback && isLiteralLoopback(host);
        case 'refused':
          return false;
      }
    });
    if (!isAllowed) throw refusal(host);
  }

  #isNamed(host: string): boolean {
    const { allowedHosts, requireAllowedHosts } = this.#settings;
    if (allowedHosts === undefined) return !requireAllowedHosts;
    return allowedHosts.some((entry) => bare(entry.toLowerCase()) === host.toLowerCase());
  }
}

/** The hostname of a URL, an IPv6 address without its brackets. */
export function hostOf(url: URL): string {
  return bare(url.hostname);
}

function bare(hostname: string): string {
  return hostname.replace(/^\[(.*)\]$/, '$1');
}

function isLiteralLoopback(host: string): boolean {
  return host.toLowerCase() === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}

/** Whether an IPv4 address is written as four decimal numbers: 2130706433, 0x7f.1 and 0177.0.0.1 have one purpose. */
function isWrittenAsMeant(text: string, url: URL): boolean {
  if (isIP(url.hostname) !== 4) return true;
  const [, authority = ''] = /^\s*[a-z]+:[\\/]*([^/?#\\]*)/i.exec(text) ?? [];
  return authority.replace(/:\d*$/, '') === url.hostname;
}

function refusal(host: string): ConnectionFault {
  return new ConnectionFault('blocked', `the address guard refuses the host ${host}`);
}
