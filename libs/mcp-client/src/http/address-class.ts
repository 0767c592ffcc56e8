import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/**
 * What an address is to the guard: `public` may be called, `private` only for a host that an
 * operator listed, `loopback` only for a host that says so itself, `refused` never
 * (BEHAVIOURS X18).
 */
export type AddressClass = 'public' | 'private' | 'loopback' | 'refused';

/**
 * Sorts an address as a resolver or a URL gave it. What is not known to be harmless is refused: link-local
 * and metadata, multicast, unspecified, broadcast, reserved, and what hides any of these, or
 * loopback, in an IPv6 address.
 */
export function classifyAddress(text: string): AddressClass {
  // ipaddr.js takes 127.1 and 0x7f000001 for addresses as well.
  if (isIP(text) === 0) return 'refused';
  const address = ipaddr.parse(text);
  return address instanceof ipaddr.IPv4 ? classifyIpv4(address) : classifyIpv6(address as ipaddr.IPv6);
}

// Metadata services of clouds outside link-local: they hand out credentials to whoever asks.
const metadataV4 = ['100.100.100.200', '168.63.129.16', '192.0.0.192'];
const metadataV6 = ['fd00:ec2::254', 'fd20:ce::254', 'fd00:c1::a9fe:a9fe', 'fd00:42::42'].map((text) =>
  ipaddr.parse(text).toString(),
);

function classifyIpv4(address: ipaddr.IPv4): AddressClass {
  if (metadataV4.includes(address.toString())) return 'refused';
  switch (address.range()) {
    case 'unicast':
      return 'public';
    case 'private':
    case 'carrierGradeNat':
      return 'private';
    case 'loopback':
      return 'loopback';
    default:
      return 'refused';
  }
}

const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3');
const nat64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96');

function classifyIpv6(address: ipaddr.IPv6): AddressClass {
  if (address.zoneId !== undefined || metadataV6.includes(address.toString())) return 'refused';
  const bytes = address.toByteArray();
  switch (address.range()) {
    case 'unicast':
      // The deprecated ::a.b.c.d and everything that nobody handed out yet are no global unicast.
      return address.match(globalUnicast) ? 'public' : 'refused';
    case 'uniqueLocal':
      return 'private';
    case 'loopback':
      return 'loopback';
    case 'ipv4Mapped':
      return hidden(bytes.slice(12));
    case 'rfc6052':
      return address.match(nat64) ? hidden(bytes.slice(12)) : 'refused';
    case '6to4':
      return hidden(bytes.slice(2, 6));
    default:
      // Teredo among them: it names two IPv4 addresses, and its relays are gone.
      return 'refused';
  }
}

/** The class of an IPv4 address inside an IPv6 one. Nobody who is entitled to loopback writes it so. */
function hidden(bytes: number[]): AddressClass {
  const inner = classifyIpv4(new ipaddr.IPv4(bytes));
  return inner === 'loopback' ? 'refused' : inner;
}
