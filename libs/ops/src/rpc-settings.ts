import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { ensureError } from '@holdfast/run';
import { ConfigError, type ConfigProblem } from './config-error.js';
import { isSendable, unsendable } from './key-map.js';
import { setting } from './setting.js';
import { rule, type SettingsOf, type SettingsRule } from './settings.js';

/** How services prove to each other who they are. */
export const rpcSettings = {
  connectorToken: setting.string('HOLDFAST_CONNECTOR_TOKEN', {
    about: 'secret that workers and connectors share',
    defaultText: 'none; required where a connector listens beyond loopback without certificates',
    secret: true,
    check: (token) => (isSendable(token) ? undefined : unsendable),
  }),
  connectorTlsCert: setting.string('HOLDFAST_CONNECTOR_TLS_CERT', {
    about:
      'PEM file: certificate of this service between worker and connector; with the two below, mutual TLS',
  }),
  connectorTlsKey: setting.string('HOLDFAST_CONNECTOR_TLS_KEY', {
    about: 'PEM file: key of that certificate',
  }),
  connectorTlsCa: setting.string('HOLDFAST_CONNECTOR_TLS_CA', {
    about: 'PEM file: whose certificates are believed between worker and connector',
  }),
};

const tlsNames = ['connectorTlsCert', 'connectorTlsKey', 'connectorTlsCa'] as const;

/** A certificate needs its key, and both somebody whose word is believed. */
export const rpcRules: readonly SettingsRule[] = [
  rule(rpcSettings, tlsNames, (values) => {
    const given = tlsNames.filter((name) => values[name] !== undefined).length;
    return given === 0 || given === tlsNames.length
      ? undefined
      : {
          variable: 'HOLDFAST_CONNECTOR_TLS_CERT',
          message:
            'goes with HOLDFAST_CONNECTOR_TLS_KEY and HOLDFAST_CONNECTOR_TLS_CA: set all three or none',
        };
  }),
];

/** What `readRpcCredentials` gives: a token, or certificates as PEM, or both. */
export interface RpcCredentials {
  readonly token: string | undefined;
  readonly tls?: { readonly cert: Buffer; readonly key: Buffer; readonly ca: Buffer };
}

/** @throws ConfigError naming each variable whose file cannot be read, or does not hold what it should */
export function readRpcCredentials({
  connectorToken: token,
  connectorTlsCert,
  connectorTlsKey,
  connectorTlsCa,
}: SettingsOf<typeof rpcSettings>): RpcCredentials {
  if (connectorTlsCert === undefined || connectorTlsKey === undefined || connectorTlsCa === undefined)
    return { token };
  const problems: ConfigProblem[] = [];
  const attempt = <T>(variable: string, problem: string, action: () => T): T | undefined => {
    try {
      return action();
    } catch (cause) {
      problems.push({ variable, message: `${problem}: ${ensureError(cause).message}` });
      return undefined;
    }
  };
  const load = <T>(variable: string, path: string, what: string, parse: (pem: Buffer) => T) => {
    const pem = attempt(variable, 'cannot be read', () => readFileSync(path));
    const parsed = pem && attempt(variable, `holds no ${what} as PEM`, () => parse(pem));
    return parsed && { pem, parsed };
  };
  const certificate = (pem: Buffer): X509Certificate => new X509Certificate(pem);
  const cert = load('HOLDFAST_CONNECTOR_TLS_CERT', connectorTlsCert, 'certificate', certificate);
  const key = load('HOLDFAST_CONNECTOR_TLS_KEY', connectorTlsKey, 'key', (pem) => createPrivateKey(pem));
  const ca = load('HOLDFAST_CONNECTOR_TLS_CA', connectorTlsCa, 'certificate', certificate);
  if (cert && key && !cert.parsed.checkPrivateKey(key.parsed))
    problems.push({ variable: 'HOLDFAST_CONNECTOR_TLS_KEY', message: 'is not the key of the certificate' });
  if (!cert || !key || !ca || problems.length > 0) throw new ConfigError(problems);
  return { token, tls: { cert: cert.pem, key: key.pem, ca: ca.pem } };
}
