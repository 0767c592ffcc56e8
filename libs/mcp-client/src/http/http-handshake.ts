import { codes } from '@holdfast/protocol';
import { legacyVersions, modernVersion } from '@holdfast/protocol';
import { ConnectionFault } from '../connection.js';
import {
  hasTools,
  initializeParams,
  knownRevisions,
  modernMeta,
  readModernServerInfo,
  readServerInfo,
  revisionName,
  type Era,
  type ServerInfo,
} from '../era.js';
import { refusedFault, thrownFault, withReason } from './http-fault.js';
import { maxSmallAnswerBytes, type HttpPeer, type Manner, type Reply } from './http-peer.js';
import { isObject } from '../is-object.js';
import { writeMessage } from '../json-rpc.js';

/** What both ends agreed on. */
export interface Agreement extends Manner {
  readonly serverInfo: ServerInfo | undefined;
  /** Whether the server says that it has tools. */
  readonly hasTools: boolean;
}

export interface HandshakeOptions {
  /** For messages. */
  readonly host: string;
  /** What was agreed last time: the other era is tried only when this one is refused. */
  readonly era: Era | undefined;
  readonly clientVersion: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * Finds out how to speak with a server, and begins (BEHAVIOURS 91): `server/discover` of 2026-07-28 first, then
 * `initialize`. A server that does not know `server/discover` says so in many ways, so every
 * refusal but those that say nothing of the era (401, 403, 5xx) leads on to `initialize`.
 *
 * @throws ConnectionFault
 */
export async function shakeHands(peer: HttpPeer, options: HandshakeOptions): Promise<Agreement> {
  if (options.era === 'legacy') {
    try {
      return await initialize(peer, options);
    } catch (error) {
      if (!(error instanceof ConnectionFault) || error.code !== 'protocol') throw error;
      const found = await discover(peer, options);
      if (typeof found === 'string') throw error;
      return found;
    }
  }
  const found = await discover(peer, options);
  if (typeof found !== 'string') return found;
  try {
    return await initialize(peer, options);
  } catch (error) {
    // A server of the modern era whose answer was lost refuses initialize: that heals.
    if (found === 'lost' && error instanceof ConnectionFault && error.code === 'protocol')
      throw new ConnectionFault('unreachable', `${options.host} did not answer server/discover`, {
        cause: error,
      });
    throw error;
  }
}

/** @returns `refused` when the server does not speak the modern era; `lost` when it said nothing, or nothing in a third of the time */
async function discover(peer: HttpPeer, options: HandshakeOptions): Promise<Agreement | 'refused' | 'lost'> {
  const { host, timeoutMs, clientVersion } = options;
  const patience = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const id = peer.nextId();
  let isSent = false;
  let reply: Reply;
  try {
    reply = await peer.ask({
      id,
      method: 'server/discover',
      text: writeMessage('server/discover', { _meta: modernMeta(clientVersion) }, id),
      headers: { 'mcp-protocol-version': modernVersion, 'mcp-method': 'server/discover' },
      maxBytes: maxSmallAnswerBytes,
      follow: 'all',
      signal: AbortSignal.any([options.signal, patience.signal]),
      onFirstByte: () => {
        isSent = true;
        timer ??= setTimeout(() => patience.abort(new Error('no answer in time')), timeoutMs / 3);
      },
    });
  } catch (error) {
    if (isSent && !options.signal.aborted && !(error instanceof ConnectionFault)) return 'lost';
    throw thrownFault(host, error);
  } finally {
    clearTimeout(timer);
  }
  if (reply.kind === 'status') {
    // Some servers ask for credentials before they look at a method, and say by the body that they do not know this one.
    if (reply.error?.code === codes.methodNotFound) return 'refused';
    const fault = refusedFault(host, reply, 'protocol');
    if (fault.code !== 'protocol') throw fault;
    return 'refused';
  }
  if (reply.kind === 'broken') return 'lost';
  if (reply.answer.kind === 'error' || !isObject(reply.answer.result)) return 'refused';
  const { supportedVersions, capabilities, _meta } = reply.answer.result;
  if (!Array.isArray(supportedVersions) || !supportedVersions.includes(modernVersion)) return 'refused';
  const agreement: Agreement = {
    era: 'modern',
    protocolVersion: modernVersion,
    serverInfo: readModernServerInfo(_meta),
    hasTools: hasTools(capabilities),
  };
  peer.agree(agreement, reply.url);
  return agreement;
}

/**
 * The handshake of the legacy era.
 * @throws ConnectionFault
 */
export async function initialize(peer: HttpPeer, options: HandshakeOptions): Promise<Agreement> {
  const { host, clientVersion, signal } = options;
  const id = peer.nextId();
  let reply: Reply;
  try {
    reply = await peer.ask({
      id,
      method: 'initialize',
      text: writeMessage('initialize', initializeParams(clientVersion), id),
      maxBytes: maxSmallAnswerBytes,
      follow: 'all',
      signal,
    });
  } catch (error) {
    throw thrownFault(host, error);
  }
  if (reply.kind !== 'answer') throw refusedFault(host, reply, signal.aborted ? 'unreachable' : 'protocol');
  if (reply.answer.kind === 'error')
    throw new ConnectionFault(
      'protocol',
      withReason(`${host} refuses initialize with error ${reply.answer.code}`, { error: reply.answer }),
    );
  const { protocolVersion, capabilities, serverInfo } = isObject(reply.answer.result)
    ? reply.answer.result
    : {};
  const version = legacyVersions.find((known) => known === protocolVersion);
  if (version === undefined)
    throw new ConnectionFault(
      'protocol',
      `${host} speaks ${revisionName(protocolVersion)}; ${knownRevisions}`,
    );
  const sessionId = readSessionId(host, reply.headers['mcp-session-id']);
  const agreement: Agreement = {
    era: 'legacy',
    protocolVersion: version,
    serverInfo: readServerInfo(serverInfo),
    hasTools: hasTools(capabilities),
    ...(sessionId !== undefined && { sessionId }),
  };
  peer.agree(agreement, reply.url);
  await confirm(peer, options);
  return agreement;
}

/** `notifications/initialized`. Whatever a success says is fine; some servers answer `null`. */
async function confirm(peer: HttpPeer, { host, signal }: HandshakeOptions): Promise<void> {
  const method = 'notifications/initialized';
  let told;
  try {
    told = await peer.tell(writeMessage(method, undefined), method, signal);
  } catch (error) {
    throw thrownFault(host, error);
  }
  if (told.status < 200 || told.status >= 300)
    throw refusedFault(host, { kind: 'status', headers: {}, ...told }, 'unreachable');
}

/** @throws ConnectionFault `protocol` for an id that no header could carry back */
function readSessionId(host: string, header: string | string[] | undefined): string | undefined {
  if (header === undefined || header === '') return undefined;
  if (typeof header === 'string' && /^[\x21-\x7e]{1,4096}$/.test(header)) return header;
  throw new ConnectionFault('protocol', `${host} gave a session id that is not visible ASCII`);
}
