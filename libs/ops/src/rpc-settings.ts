import { readFileSync } from 'node:fs';
import { ensureError } from '@holdfast/run';
import { ConfigError } from './config-error.js';
import { setting } from './setting.js';
import { rule, type SettingsOf, type SettingsRule } from './settings.js';

/** How services prove to each other who they are. */
export const rpcSettings = {
  connectorToken: setting.string('HOLDFAST_CONNECTOR_TOKEN', {
    about: 'secret that workers and connectors share',
    defaultText: 'none; required where a connector listens beyond loopback without certificates',
    secret: true,
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

/** @throws ConfigError naming the variable of a file that cannot be read */
export function readRpcCredentials({
  connectorToken: token,
  connectorTlsCert,
  connectorTlsKey,
  connectorTlsCa,
}: SettingsOf<typeof rpcSettings>): RpcCredentials {
  if (connectorTlsCert === undefined || connectorTlsKey === undefined || connectorTlsCa === undefined)
    return { token };
  return {
    token,
    tls: {
      cert: read('HOLDFAST_CONNECTOR_TLS_CERT', connectorTlsCert),
      key: read('HOLDFAST_CONNECTOR_TLS_KEY', connectorTlsKey),
      ca: read('HOLDFAST_CONNECTOR_TLS_CA', connectorTlsCa),
    },
  };
}

function read(variable: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (cause) {
    throw new ConfigError([{ variable, message: `cannot be read: ${ensureError(cause).message}` }]);
  }
}
