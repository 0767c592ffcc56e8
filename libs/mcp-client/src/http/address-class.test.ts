import { describe, expect, test } from '@jest/globals';
import { classifyAddress } from './address-class.js';

describe('an address is', () => {
  test.each(['93.184.216.34', '1.1.1.1', '2606:4700:4700::1111', '2a00:1450:4001:81b::200e'])(
    'public: %s',
    (address) => {
      expect(classifyAddress(address)).toBe('public');
    },
  );

  test.each(['10.0.0.1', '172.16.0.1', '172.31.255.255', '192.168.1.1', '100.64.0.1', 'fd00::1', 'fc00::1'])(
    'private: %s',
    (address) => {
      expect(classifyAddress(address)).toBe('private');
    },
  );

  test.each(['127.0.0.1', '127.255.255.254', '::1'])('loopback: %s', (address) => {
    expect(classifyAddress(address)).toBe('loopback');
  });

  test.each([
    ['link-local, with the metadata service in it', '169.254.169.254'],
    ['link-local of IPv6', 'fe80::1'],
    ['link-local with a zone', 'fe80::1%eth0'],
    ['metadata of a cloud, unique local', 'fd00:ec2::254'],
    ['metadata of a cloud, carrier-grade NAT', '100.100.100.200'],
    ['metadata of a cloud, public', '168.63.129.16'],
    ['unspecified', '0.0.0.0'],
    ['this network', '0.1.2.3'],
    ['unspecified of IPv6', '::'],
    ['multicast', '224.0.0.1'],
    ['multicast of IPv6', 'ff02::1'],
    ['broadcast', '255.255.255.255'],
    ['reserved', '240.0.0.1'],
    ['for documentation', '192.0.2.1'],
    ['for documentation, of IPv6', '2001:db8::1'],
    ['for benchmarks', '198.18.0.1'],
    ['site-local, deprecated', 'fec0::1'],
    ['loopback, mapped', '::ffff:127.0.0.1'],
    ['loopback, mapped, in hex', '::ffff:7f00:1'],
    ['link-local, mapped', '::ffff:169.254.169.254'],
    ['IPv4-compatible loopback', '::127.0.0.1'],
    ['loopback by 6to4', '2002:7f00:1::'],
    ['metadata by 6to4', '2002:a9fe:a9fe::'],
    ['loopback by NAT64', '64:ff9b::7f00:1'],
    ['metadata by NAT64', '64:ff9b::a9fe:a9fe'],
    ['NAT64 of a local prefix', '64:ff9b:1::1'],
    ['Teredo', '2001:0:4136:e378:8000:63bf:3fff:fdd2'],
    ['translated (RFC 6145)', '::ffff:0:127.0.0.1'],
    ['nobody’s', '4000::1'],
    ['no address', 'example.com'],
    ['an address in short form', '127.1'],
  ])('refused, being %s: %s', (_what, address) => {
    expect(classifyAddress(address)).toBe('refused');
  });

  test.each([
    ['::ffff:10.0.0.1', 'private'],
    ['64:ff9b::a00:1', 'private'],
    ['::ffff:1.1.1.1', 'public'],
    ['64:ff9b::101:101', 'public'],
  ])('what it hides: %s is %s', (address, is) => {
    expect(classifyAddress(address)).toBe(is);
  });
});
