import { generateKeyPairSync, randomBytes, sign, type KeyObject } from 'node:crypto';

/** A certificate and its key, as PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

/** A certificate authority for one test: a client that trusts `cert` trusts its signatures. */
export interface Authority {
  readonly cert: string;
  /** A certificate for a service with this name or IPv4 address, for client and server use. */
  issue(name: string): Certificate;
}

/**
 * X.509 v3 certificates with P-256 keys, valid for a day. This file encodes them (RFC 5280, 4.1), because Node creates
 * keys but no certificates, and not every machine has `openssl`.
 */
export function createAuthority(name: string): Authority {
  const own = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const cert = signed({ issuer: name, subject: name, publicKey: own.publicKey, isAuthority: true }, own.privateKey); // prettier-ignore
  return {
    cert,
    issue: (subject) => {
      const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
      return {
        cert: signed({ issuer: name, subject, publicKey, isAuthority: false }, own.privateKey),
        key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
      };
    },
  };
}

interface Claims {
  readonly issuer: string;
  readonly subject: string;
  readonly publicKey: KeyObject;
  readonly isAuthority: boolean;
}

function signed({ issuer, subject, publicKey, isAuthority }: Claims, key: KeyObject): string {
  const algorithm = sequence(oid('2a8648ce3d040302')); // ecdsa-with-SHA256
  const dayMs = 24 * 3600 * 1000;
  const tbs = sequence(
    tagged(0xa0, integer(Buffer.of(2))), // version 3
    integer(Buffer.concat([Buffer.of(1), randomBytes(15)])),
    algorithm,
    distinguishedName(issuer),
    sequence(utcTime(new Date(Date.now() - dayMs)), utcTime(new Date(Date.now() + dayMs))),
    distinguishedName(subject),
    publicKey.export({ type: 'spki', format: 'der' }),
    tagged(0xa3, sequence(isAuthority ? basicConstraints() : alternativeName(subject))),
  );
  const signature = tagged(0x03, Buffer.of(0), sign('sha256', tbs, key));
  const lines = sequence(tbs, algorithm, signature)
    .toString('base64')
    .match(/.{1,64}/g)!;
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`;
}

function basicConstraints(): Buffer {
  const isAuthority = tagged(0x01, Buffer.of(0xff));
  return sequence(oid('551d13'), isAuthority, tagged(0x04, sequence(isAuthority)));
}

function alternativeName(name: string): Buffer {
  const isAddress = /^[\d.]+$/.test(name);
  const value = isAddress
    ? tagged(0x87, Buffer.from(name.split('.').map(Number)))
    : tagged(0x82, Buffer.from(name));
  return sequence(oid('551d11'), tagged(0x04, sequence(value)));
}

function distinguishedName(commonName: string): Buffer {
  return sequence(tagged(0x31, sequence(oid('550403'), tagged(0x0c, Buffer.from(commonName)))));
}

function utcTime(date: Date): Buffer {
  return tagged(0x17, Buffer.from(`${date.toISOString().slice(2, 19).replace(/\D/g, '')}Z`));
}

function oid(hex: string): Buffer {
  return tagged(0x06, Buffer.from(hex, 'hex'));
}

function integer(value: Buffer): Buffer {
  return tagged(0x02, value);
}

function sequence(...parts: Buffer[]): Buffer {
  return tagged(0x30, ...parts);
}

/** One element of DER: its tag, the length of its content, the content. */
function tagged(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const length = content.length;
  const bytes =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.of(tag, ...bytes), content]);
}
