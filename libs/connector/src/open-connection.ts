import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { z } from 'zod';
import {
  aborted,
  type ChildGuard,
  connectHttp,
  type Connection,
  ConnectionFault,
  connectLegacySse,
  connectStdio,
  type Era,
  type GuardSettings,
} from '@holdfast/mcp-client';
import { ensureError, type Log, type Principal } from '@holdfast/run';
import { maskedConnection, maskingFaults } from './masked-connection.js';
import { fillPlaceholders, type PlaceholderValues } from './placeholders.js';
import { SecretMask } from './secret-mask.js';
import { serverKey } from './server-identity.js';
import type { ServerSettings } from './server-settings.js';
import { Turns } from './turns.js';

/** What connections of a deployment have in common. */
export interface Deployment {
  readonly guard: Omit<GuardSettings, 'allowedHosts' | 'allowPrivate'>;
  readonly placeholders: PlaceholderValues;
  readonly children: ChildGuard;
  /** The user of the first server over stdio, the next ones counting up; undefined: our own. */
  readonly firstUserId?: number;
  /** How many servers over stdio start together, at most. */
  readonly startsAtOnce?: number;
  /** The version of ours that servers are told. */
  readonly version: string;
  readonly log: Log;
}

/** What may stand around a result: its envelope, and progress on its stream. */
const envelopeBytes = 1024 * 1024;

const headersShape = z.record(z.string(), z.string());

/** Gives the headers of one caller (BEHAVIOURS 121). It is asked at each connect and before each call; what it throws is logged and not shown. */
type Credentials = (caller: {
  readonly server: string;
  readonly principal: Principal | null;
}) => Promise<Readonly<Record<string, string>>> | Readonly<Record<string, string>>;

export type OpenConnection = (
  settings: ServerSettings,
  principal: Principal | null,
  signal: AbortSignal,
) => Promise<Connection>;

/** How connections are opened here: placeholders and credentials are read anew for each (BEHAVIOURS 118, 123). */
export function connectionOpener(deployment: Deployment): OpenConnection {
  const { guard, placeholders, children, version, log } = deployment;
  /** What each server spoke last time, for callers with connections of their own as well. */
  const eras = new Map<string, Era>();
  // Many that start together take the processor from each other until all of them are too late.
  const starts = new Turns(deployment.startsAtOnce ?? Math.max(4, 2 * availableParallelism()));
  const userIds = new Map<string, number>();
  const userOf = (key: string): number | undefined => {
    if (deployment.firstUserId === undefined) return undefined;
    const userId = userIds.get(key) ?? deployment.firstUserId + userIds.size;
    userIds.set(key, userId);
    return userId;
  };
  return async (settings, principal, signal) => {
    const { id, name, transport, connectTimeoutMs } = settings;
    const mask = new SecretMask();
    if (transport.kind === 'stdio') {
      const filled = await fillPlaceholders(name, transport, placeholders);
      mask.add(filled.secrets);
      mask.addWritten(filled.settings);
      const userId = userOf(serverKey(id, transport));
      // The time to connect begins with the turn.
      const leave = await starts.enter(signal);
      if (leave === undefined) throw new ConnectionFault('unreachable', `${name}: the caller gave up`);
      const connection = await maskingFaults(mask, () =>
        connectStdio({
          server: name,
          ...(userId !== undefined && { userId }),
          settings: filled.settings,
          secrets: filled.secrets,
          environment: placeholders.environment,
          guard: children,
          clientVersion: version,
          connectTimeoutMs,
          signal,
          log,
        }),
      ).finally(leave);
      return maskedConnection(connection, mask);
    }
    const { settings: http, secrets } = await fillPlaceholders(name, transport, placeholders);
    mask.add(secrets);
    mask.addWritten(http);
    const key = serverKey(id, transport);
    const era = eras.get(key);
    const { credentialsModule } = http;
    const options = {
      url: http.url,
      headers: http.headers,
      ...(credentialsModule !== undefined && {
        callerHeaders: async (within: AbortSignal) => {
          const given = await askModule(credentialsModule, { settings, principal, log, signal: within });
          mask.add(Object.values(given));
          return given;
        },
      }),
      guard: {
        ...guard,
        ...(http.allowedHosts && { allowedHosts: http.allowedHosts }),
        allowPrivate: http.allowPrivate === true,
      },
      connectTimeoutMs,
      // A result is cut to what is kept; what is twice as long is not read to be cut.
      maxAnswerBytes: 2 * settings.rules.maxResultBytes + envelopeBytes,
      clientVersion: version,
      log,
      signal,
    };
    const connection = await maskingFaults(mask, () =>
      http.kind === 'sse' ? connectLegacySse(options) : connectHttp({ ...options, ...(era && { era }) }),
    );
    if (http.kind === 'http') eras.set(key, connection.era);
    return maskedConnection(connection, mask);
  };
}

interface Question {
  readonly settings: ServerSettings;
  /** Null for the listing, which is for all callers (BEHAVIOURS R15). */
  readonly principal: Principal | null;
  readonly log: Log;
  /** Ends the wait, as the time to connect does: a module that hangs holds up its own caller only. */
  readonly signal: AbortSignal;
}

async function askModule(
  path: string,
  { settings: { id: server, name, connectTimeoutMs }, principal, log, signal }: Question,
): Promise<Readonly<Record<string, string>>> {
  const ending = AbortSignal.any([signal, AbortSignal.timeout(connectTimeoutMs)]);
  try {
    const module = (await import(pathToFileURL(resolve(path)).href)) as { default: Credentials };
    return headersShape.parse(await Promise.race([module.default({ server, principal }), aborted(ending)]));
  } catch (thrown) {
    log.warn({ server, err: ensureError(thrown) }, 'credentials module gave no headers');
    throw new ConnectionFault('variable', `${name}: its credentials module gave no headers for this caller`);
  }
}
