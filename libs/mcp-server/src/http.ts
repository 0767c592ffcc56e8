import type { IncomingMessage, ServerResponse } from 'node:http';
import { codes } from '@holdfast/protocol';
import { Outbox } from './outbox.js';
import { errorMessage, ProtocolRefusal } from './wire-errors.js';

export interface Exchange {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
}

/** @throws ProtocolRefusal where there is no memory for an answer that its host may not read */
export function sendJson(
  res: ServerResponse,
  status: number,
  json: string,
  headers: Record<string, string> = {},
): void {
  if (res.headersSent || res.destroyed) return;
  const outbox = Outbox.of(res);
  outbox.reserve(Buffer.byteLength(json));
  // Encoded once: of a list of tools the text may be large.
  const bytes = Buffer.from(json);
  res.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': bytes.length, ...headers });
  outbox.end(bytes);
}

/** An answer without a body, as 202 to a notification must be. */
export function sendEmpty(res: ServerResponse, status: number, headers: Record<string, string> = {}): void {
  if (res.headersSent || res.destroyed) return;
  res.writeHead(status, { 'Content-Length': 0, ...headers });
  res.end();
}

/** Calls `act` once the answer's connection is closed: at once where the host hung up already. */
export function onClose(res: ServerResponse, act: () => void): void {
  if (res.closed) act();
  else res.once('close', act);
}

/** A refusal as an HTTP answer with a JSON-RPC body. */
export function sendRefusal(
  res: ServerResponse,
  refusal: ProtocolRefusal,
  id: Parameters<typeof errorMessage>[0] = null,
): void {
  const { status, reference, retryAfterSeconds = status === 503 ? 5 : undefined } = refusal;
  sendJson(res, status, errorMessage(id, refusal), {
    ...(retryAfterSeconds !== undefined && { 'Retry-After': String(retryAfterSeconds) }),
    ...(reference !== undefined && { 'X-Request-Id': reference }),
  });
}

/** A header that must be given once; two that differ cannot be obeyed. */
export function headerOf(req: IncomingMessage, name: string): string | undefined {
  const value = req.headers[name];
  return Array.isArray(value) ? value.join(', ') : value;
}

export const badRequest = (message: string, status = 400): ProtocolRefusal =>
  new ProtocolRefusal(codes.badRequest, message, { status });

/** What a host can read of an answer. */
export interface Accepts {
  readonly json: boolean;
  readonly stream: boolean;
}

/** @throws ProtocolRefusal 406 when it can read neither JSON nor an event stream */
export function readAccept(req: IncomingMessage): Accepts {
  const accept = headerOf(req, 'accept')?.trim();
  if (accept === undefined || accept === '') return { json: true, stream: false };
  const types = accept
    .toLowerCase()
    .split(',')
    .map((range) => range.split(';').map((part) => part.trim()))
    .filter(([, ...parameters]) => !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter)))
    .map(([type]) => type);
  const json = types.some(
    (type) => type === '*/*' || type === 'application/*' || type === 'application/json',
  );
  const stream = types.some((type) => type === '*/*' || type === 'text/*' || type === 'text/event-stream');
  if (!json && !stream) throw badRequest('Accept must allow application/json or text/event-stream', 406);
  return { json, stream };
}

/** Which origins and host names are answered (BEHAVIOURS 13). */
export interface OriginRules {
  /** Exact origins; undefined allows those of loopback, and of `ownHost`. */
  readonly origins: readonly string[] | undefined;
  /** The address of loopback that is served. */
  readonly ownHost?: string | undefined;
  /** Host names, whatever the port; undefined allows any. */
  readonly hosts: readonly string[] | undefined;
}

export const loopbackHosts: readonly string[] = ['localhost', '127.0.0.1', '[::1]'];

/** Whether a page of that origin may use us. An absent origin is no browser's. */
export function isAllowedOrigin(origin: string, { origins, ownHost }: OriginRules): boolean {
  if (origins !== undefined) return origins.includes(origin);
  const host = hostNameOf(origin, /^https?:\/\/([^/]+)$/);
  return host !== undefined && (loopbackHosts.includes(host) || host === ownHost);
}

export function isAllowedHost(host: string | undefined, { hosts }: OriginRules): boolean {
  if (hosts === undefined) return true;
  const name = hostNameOf(host ?? '', /^([^/]+)$/);
  return name !== undefined && hosts.some((allowed) => allowed.toLowerCase() === name);
}

/**
 * What is wrong with a host name of the settings, which is compared with that of a request; undefined when nothing is.
 * A form that no request can name would refuse every request.
 */
export function hostProblem(text: string): string | undefined {
  if (text.includes('*')) return `${quoted(text)} has a wildcard; list each host name, or unset the variable`;
  const url = URL.parse(/^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`);
  const ip6 = /^[0-9a-f:.]+:[0-9a-f:.]*$/i.test(text) ? URL.parse(`http://[${text}]`) : null;
  const name = (ip6 ?? url)?.hostname.replace(/\.$/, '') ?? '';
  if (name === text.toLowerCase()) return undefined;
  return `${quoted(text)} is not a host name alone${name === '' ? '' : `; write ${name}`}`;
}

/** The same for an origin. Browsers name it as scheme, host and port, and other applications by a scheme of their own. */
export function originProblem(text: string): string | undefined {
  if (text.includes('*')) return `${quoted(text)} has a wildcard; list each origin`;
  if (text === 'null') return '"null" is the origin of every sandboxed page; list each origin by name';
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(text))
    return `${quoted(text)} is not an origin; write scheme and host, as https://${hostProblem(text) === undefined ? text : 'app.example.com'}`;
  const { protocol, host } = URL.parse(text) ?? { protocol: '', host: '' };
  const origin = `${protocol}//${host}`;
  if (host !== '' && origin === text) return undefined;
  return `${quoted(text)} is not an origin as browsers send it${host === '' ? '; write scheme and host' : `; write ${origin}`}`;
}

function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 100));
}

/** The host name in a `Host` or an `Origin`, without its port; undefined for what is neither. */
function hostNameOf(text: string, form: RegExp): string | undefined {
  const authority = form.exec(text)?.[1];
  if (authority === undefined || authority.includes('@')) return undefined;
  return /^(\[[0-9a-f:.]+\]|[^:[\]]+)(:\d+)?$/i.exec(authority)?.[1]?.toLowerCase();
}

/** What a page of an allowed origin must be able to see of the ACTUAL answer, not only of the preflight. */
export function allowOrigin(res: ServerResponse, origin: string): void {
  res.setHeader('Access-Control-Allow-Origin', origin);
  res.setHeader('Access-Control-Expose-Headers', 'Mcp-Session-Id, WWW-Authenticate');
}

/** The headers of both eras, and those of trace context (W3C). */
const allowedHeaders = [
  'Authorization',
  'Content-Type',
  'Accept',
  'Mcp-Session-Id',
  'MCP-Protocol-Version',
  'Last-Event-ID',
  'Mcp-Method',
  'Mcp-Name',
  'traceparent',
  'tracestate',
  'baggage',
];

/** A page of an allowed origin may send what it likes: hosts and their libraries add headers of their own. */
export function answerPreflight({ req, res }: Exchange): void {
  const asked = headerOf(req, 'access-control-request-headers')?.split(',') ?? [];
  const names = asked.map((name) => name.trim()).filter((name) => /^[\w!#$%&'*+.^`|~-]+$/.test(name));
  sendEmpty(res, 204, {
    'Access-Control-Allow-Methods': 'GET, POST, DELETE',
    'Access-Control-Allow-Headers': [...new Set([...allowedHeaders, ...names])].join(', '),
    'Access-Control-Max-Age': '600',
    Vary: 'Origin, Access-Control-Request-Headers',
  });
}
