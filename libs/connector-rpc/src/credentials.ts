import { timingSafeEqual } from 'node:crypto';
import { ChannelCredentials, Metadata, ServerCredentials } from '@grpc/grpc-js';

/** Certificates for mutual TLS, as PEM. */
export interface TlsFiles {
  readonly cert: Buffer;
  readonly key: Buffer;
  /** Whose certificates are believed, at both ends. */
  readonly ca: Buffer;
}

/** How services prove to each other who they are: a shared token, or certificates, or both. */
export interface RpcSecurity {
  readonly token?: string | undefined;
  readonly tls?: TlsFiles | undefined;
}

export function clientCredentials({ tls }: RpcSecurity): ChannelCredentials {
  return tls === undefined
    ? ChannelCredentials.createInsecure()
    : ChannelCredentials.createSsl(tls.ca, tls.key, tls.cert);
}

export function serverCredentials({ tls }: RpcSecurity): ServerCredentials {
  return tls === undefined
    ? ServerCredentials.createInsecure()
    : ServerCredentials.createSsl(tls.ca, [{ private_key: tls.key, cert_chain: tls.cert }], true);
}

/** What goes with each call. */
export function callMetadata({ token }: RpcSecurity): Metadata {
  const metadata = new Metadata();
  if (token !== undefined) metadata.set('authorization', `Bearer ${token}`);
  return metadata;
}

/** Whether a caller has the token, where one is asked for. Takes as long whatever was given. */
export function hasToken({ token }: RpcSecurity, metadata: Metadata): boolean {
  if (token === undefined) return true;
  const given = Buffer.from(String(metadata.get('authorization')[0] ?? ''));
  const wanted = Buffer.from(`Bearer ${token}`);
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}
