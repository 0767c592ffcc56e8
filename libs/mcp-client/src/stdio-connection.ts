import { isInexactNumber, systemClock, writeJson, type Clock, type Progress } from '@holdfast/run';
import { ByteLines } from './byte-lines.js';
import { startChild, type ChildOptions, type UpstreamChild } from './child-process.js';
import {
  ConnectionFault,
  type Connection,
  type OutgoingCall,
  type SendOptions,
  type Sent,
} from './connection.js';
import type { Log } from './log.js';
import { NoiseCount } from './noise-count.js';
import { isObject, ourId, readLine, readTooLong, type Incoming } from './stdio-message.js';

/** Revisions with a handshake, the newest first; it is asked for (BEHAVIOURS 91). */
const legacyVersions = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'] as const;
const modernVersion = '2026-07-28';
const metaPrefix = 'io.modelcontextprotocol/';

/** Longest line that is read; a longer answer fails its request. */
const maxLineBytes = 64 * 1024 * 1024;
/** Notifications and answers of ours are left out while a child that does not read leaves more than this unread. */
const maxUnreadBytes = 1024 * 1024;
/** A pipe takes a write of this size whole or not at all. */
const atomicBytes = 4096;
const methodNotFound = -32601;

export interface StdioOptions extends ChildOptions {
  /** What we say of ourselves. */
  readonly clientInfo: { readonly name: string; readonly version: string };
  /** For the start and the handshake together. */
  readonly connectTimeoutMs: number;
  readonly signal: AbortSignal;
  readonly log: Log;
  readonly clock?: Clock;
}

/** What became of a request: `Sent`, and answers that came and cannot be read. */
type Answer = Sent | { readonly kind: 'unreadable'; readonly reason: string };

interface Pending {
  settle(answer: Answer): void;
  readonly onProgress: ((progress: Progress) => void) | undefined;
  /** The pipe did not take it. */
  isUnsent: boolean;
}

interface Exchange {
  readonly signal: AbortSignal;
  /** None: the signal alone ends the wait. */
  readonly timeoutMs?: number;
  readonly onProgress?: (progress: Progress) => void;
  /** Whether the server is told that nobody waits any more; `initialize` may not be cancelled. */
  readonly isCancellable?: boolean;
}

/**
 * Starts an upstream server as a child process and agrees on a revision with it. A child that dies is
 * told at once, with its exit code and its last lines on stderr (F97).
 * @throws ConnectionFault; no process is left then
 */
export async function connectStdio(options: StdioOptions): Promise<Connection> {
  const child = await startChild(options);
  const connection = new StdioConnection(child, options);
  try {
    await connection.shakeHands(
      AbortSignal.any([options.signal, AbortSignal.timeout(options.connectTimeoutMs)]),
    );
    return connection;
  } catch (error) {
    await connection.close();
    throw error;
  }
}

class StdioConnection implements Connection {
  protocolVersion = '';
  serverInfo: Connection['serverInfo'];
  readonly #child: UpstreamChild;
  readonly #options: StdioOptions;
  readonly #noise: NoiseCount;
  readonly #pending = new Map<number, Pending>();
  readonly #listeners: (() => void)[] = [];
  /** Keys of `_meta` that a server of the modern era wants on each request. */
  #envelope: Readonly<Record<string, unknown>> = {};
  #lastId = 0;
  /** Resolves when the child has read what waits for it. */
  #drained: Promise<void> | undefined;

  constructor(child: UpstreamChild, options: StdioOptions) {
    this.#child = child;
    this.#options = options;
    this.#noise = new NoiseCount(options.server, options.log, options.clock ?? systemClock);
    const lines = new ByteLines(maxLineBytes, {
      line: (line) => readLine(line).forEach((message) => this.#take(message)),
      tooLong: (head, tail) => this.#take(readTooLong(head, tail, maxLineBytes)),
    });
    child.stdout.on('data', (chunk: Buffer) => lines.push(chunk));
    child.stdout.once('end', () => lines.end());
    void child.ended.then(() => {
      const reason = `the process ${child.describe()}`;
      for (const { settle, isUnsent } of [...this.#pending.values()])
        settle(isUnsent ? { kind: 'not-sent', reason } : { kind: 'lost', why: 'dropped', reason });
    });
  }

  get isOpen(): boolean {
    return this.#child.isAlive;
  }

  async shakeHands(signal: AbortSignal): Promise<void> {
    const initialized = await this.#request('initialize', {
      protocolVersion: legacyVersions[0],
      capabilities: {},
      clientInfo: this.#options.clientInfo,
    }, { signal, isCancellable: false }); // prettier-ignore
    // It knows no handshake: a server of the modern era alone.
    if (initialized.kind === 'error') return this.#discover(initialized.code, signal);
    const result = this.#handshakeResult('initialize', initialized);
    const version = legacyVersions.find((known) => known === result['protocolVersion']);
    if (version === undefined)
      throw this.#fault('protocol', `it speaks ${nameOf(result['protocolVersion'])}; known are ${legacyVersions.join(', ')} and ${modernVersion}`); // prettier-ignore
    this.protocolVersion = version;
    this.serverInfo = readServerInfo(result['serverInfo']);
    this.#notify('notifications/initialized');
  }

  async listPage(cursor: string | undefined, signal: AbortSignal): Promise<unknown> {
    const answer = await this.#request('tools/list', cursor === undefined ? {} : { cursor }, { signal });
    if (answer.kind === 'result') return answer.result;
    if (answer.kind === 'error')
      throw this.#fault('listing', `tools/list was answered with JSON-RPC error ${answer.code}`);
    if (answer.kind === 'unreadable') throw this.#fault('listing', `tools/list: ${answer.reason}`);
    const reason = reasonOf(answer);
    throw this.isOpen ? this.#fault('listing', `tools/list: ${reason}`) : this.#fault('unreachable', reason);
  }

  async send(call: OutgoingCall, { beforeSend, signal, timeoutMs, onProgress }: SendOptions): Promise<Sent> {
    const blocked = await this.#awaitRoom(signal, timeoutMs);
    if (blocked !== undefined) return { kind: 'not-sent', reason: blocked };
    await beforeSend();
    if (!this.isOpen) return { kind: 'not-sent', reason: this.#gone() };
    if (signal.aborted) return { kind: 'not-sent', reason: gaveUp };
    const id = ++this.#lastId;
    const meta = writeJson({ ...call.meta, ...this.#envelope, progressToken: id })!;
    // Line breaks of JSON text are white space; on this wire they would end the message.
    const args = call.arguments.replace(/[\r\n]/g, ' ');
    const params = `{"name":${JSON.stringify(call.tool)},"arguments":${args},"_meta":${meta}}`;
    const answer = await this.#exchange(id, requestLine(id, 'tools/call', params), {
      signal,
      timeoutMs,
      onProgress,
    });
    return answer.kind === 'unreadable' ? { kind: 'lost', why: 'dropped', reason: answer.reason } : answer;
  }

  onToolsChanged(listener: () => void): void {
    this.#listeners.push(listener);
  }

  async close(): Promise<void> {
    const stopped = this.#child.stop();
    for (const { settle } of [...this.#pending.values()])
      settle({ kind: 'lost', why: 'dropped', reason: 'the connection was closed' });
    await stopped;
  }

  async #discover(refusal: number, signal: AbortSignal): Promise<void> {
    this.#envelope = {
      [`${metaPrefix}protocolVersion`]: modernVersion,
      [`${metaPrefix}clientCapabilities`]: {},
      [`${metaPrefix}clientInfo`]: this.#options.clientInfo,
    };
    const discovered = await this.#request('server/discover', {}, { signal, isCancellable: false });
    if (discovered.kind === 'error')
      throw this.#fault('protocol', `it refused initialize (JSON-RPC error ${refusal}) and server/discover (${discovered.code})`); // prettier-ignore
    const result = this.#handshakeResult('server/discover', discovered);
    const versions: unknown[] = Array.isArray(result['supportedVersions']) ? result['supportedVersions'] : [];
    if (!versions.includes(modernVersion))
      throw this.#fault('protocol', `it refused initialize and speaks ${versions.slice(0, 10).map(nameOf).join(', ') || 'no revision'}; known is ${modernVersion}`); // prettier-ignore
    this.protocolVersion = modernVersion;
    const meta = isObject(result['_meta']) ? result['_meta'] : {};
    this.serverInfo = readServerInfo(meta[`${metaPrefix}serverInfo`]);
    this.#listen(result['capabilities']);
  }

  /** In the modern era changes are told to those who ask, with a request that stays open. */
  #listen(capabilities: unknown): void {
    const tools = isObject(capabilities) ? capabilities['tools'] : undefined;
    if (!isObject(tools) || tools['listChanged'] !== true) return;
    const { signal } = new AbortController();
    void this.#request('subscriptions/listen', { notifications: { toolsListChanged: true } }, { signal });
  }

  #handshakeResult(method: string, answer: Answer): Readonly<Record<string, unknown>> {
    if (answer.kind === 'result' && isObject(answer.result)) return answer.result;
    if (answer.kind === 'result') throw this.#fault('protocol', `its answer to ${method} is no object`);
    if (answer.kind === 'unreadable') throw this.#fault('protocol', `${method}: ${answer.reason}`);
    if (this.#options.signal.aborted || !this.isOpen) throw this.#fault('unreachable', reasonOf(answer));
    throw this.#fault('unreachable', `no answer to ${method} within ${this.#options.connectTimeoutMs / 1000} s; the process ${this.#child.describe()}`); // prettier-ignore
  }

  #request(method: string, params: object, exchange: Exchange): Promise<Answer> {
    const id = ++this.#lastId;
    const meta = Object.keys(this.#envelope).length === 0 ? {} : { _meta: this.#envelope };
    return this.#exchange(id, requestLine(id, method, JSON.stringify({ ...params, ...meta })), exchange);
  }

  /** Writes a request and waits for its answer: the one place where requests begin and end. */
  #exchange(
    id: number,
    line: string,
    { signal, timeoutMs, onProgress, isCancellable = true }: Exchange,
  ): Promise<Answer> {
    return new Promise((resolve) => {
      const settle = (answer: Answer) => {
        if (!this.#pending.delete(id)) return;
        clearTimeout(timer);
        signal.removeEventListener('abort', abort);
        resolve(answer);
      };
      const giveUp = (why: 'timeout' | 'aborted', reason: string) => {
        if (isCancellable) this.#notify('notifications/cancelled', { requestId: id, reason });
        settle({ kind: 'lost', why, reason });
      };
      const abort = () => giveUp('aborted', gaveUp);
      const timer =
        timeoutMs === undefined
          ? undefined
          : setTimeout(() => giveUp('timeout', `no answer within ${timeoutMs / 1000} s`), timeoutMs);
      const pending: Pending = { settle, onProgress, isUnsent: false };
      this.#pending.set(id, pending);
      if (signal.aborted) return settle({ kind: 'not-sent', reason: gaveUp });
      if (!this.isOpen) return settle({ kind: 'not-sent', reason: this.#gone() });
      signal.addEventListener('abort', abort);
      const bytes = Buffer.from(line);
      this.#child.stdin.write(bytes, (error) => {
        // A short line that the pipe did not take was seen by nobody. The end of the child tells why.
        pending.isUnsent = error != null && bytes.length <= atomicBytes;
      });
    });
  }

  /**
   * Waits until the child has read what was written before, so that one that does not read holds up
   * its callers and not our memory. Resolves to why nothing can be sent, or to undefined.
   */
  async #awaitRoom(signal: AbortSignal, timeoutMs: number): Promise<string | undefined> {
    const { stdin } = this.#child;
    if (this.isOpen && !signal.aborted && !stdin.writableNeedDrain) return undefined;
    const timeout = AbortSignal.timeout(timeoutMs);
    const given = AbortSignal.any([signal, timeout]);
    while (this.isOpen && !given.aborted && stdin.writableNeedDrain) {
      this.#drained ??= new Promise<void>((resolve) => stdin.once('drain', resolve)).finally(
        () => (this.#drained = undefined),
      );
      await Promise.race([this.#drained, this.#child.ended, aborted(given)]);
    }
    if (!this.isOpen) return this.#gone();
    if (signal.aborted) return gaveUp;
    return timeout.aborted ? `the process has not read its input for ${timeoutMs / 1000} s` : undefined;
  }

  #take(message: Incoming): void {
    switch (message.kind) {
      case 'noise':
        return this.#noise.add();
      case 'request':
        return this.#answer(message.id, message.method);
      case 'notification':
        return this.#hear(message.method, message.params);
      default: {
        const pending = this.#pending.get(ourId(message.id) ?? 0);
        // Never asked, answered twice, or given up (F144).
        if (pending === undefined) return this.#noise.add();
        if (message.kind === 'unreadable') pending.settle({ kind: 'unreadable', reason: message.problem });
        else if (message.kind === 'result') pending.settle({ kind: 'result', result: message.result });
        else pending.settle({ kind: 'error', code: message.code, message: message.message });
      }
    }
  }

  /** A server may ask whether we live; it was promised nothing else (BEHAVIOURS 90). */
  #answer(id: unknown, method: string): void {
    const body =
      method === 'ping' ? { result: {} } : { error: { code: methodNotFound, message: 'Method not found' } };
    this.#write({ id, ...body });
  }

  #hear(method: string, params: Readonly<Record<string, unknown>>): void {
    if (method === 'notifications/tools/list_changed') this.#listeners.forEach((listener) => listener());
    if (method !== 'notifications/progress') return;
    const progress = readProgress(params);
    if (progress !== undefined)
      this.#pending.get(ourId(params['progressToken']) ?? 0)?.onProgress?.(progress);
  }

  #notify(method: string, params?: object): void {
    this.#write({ method, params });
  }

  /** What no caller waits for; left out when the child does not read. */
  #write(message: object): void {
    const { stdin } = this.#child;
    if (!this.isOpen || stdin.writableLength > maxUnreadBytes) return;
    stdin.write(`${writeJson({ jsonrpc: '2.0', ...message })}\n`);
  }

  #gone(): string {
    return `the process ${this.#child.describe()}`;
  }

  #fault(code: ConnectionFault['code'], problem: string): ConnectionFault {
    return new ConnectionFault(code, `${this.#options.server}: ${problem}`);
  }
}

const gaveUp = 'the caller gave up';

function requestLine(id: number, method: string, params: string): string {
  return `{"jsonrpc":"2.0","id":${id},"method":"${method}","params":${params}}\n`;
}

function reasonOf(answer: Answer): string {
  return 'reason' in answer ? answer.reason : answer.kind;
}

/** A revision as an upstream names it, where it looks like one: no text of an upstream goes into a message. */
function nameOf(version: unknown): string {
  return typeof version === 'string' && /^[\w.-]{1,32}$/.test(version) ? version : 'an unknown revision';
}

function readServerInfo(value: unknown): Connection['serverInfo'] {
  if (!isObject(value)) return undefined;
  const { name, version } = value;
  if (typeof name !== 'string' || typeof version !== 'string') return undefined;
  return { name: name.slice(0, 200), version: version.slice(0, 200) };
}

function readProgress({ progress, total, message }: Readonly<Record<string, unknown>>): Progress | undefined {
  const value = numberOf(progress);
  if (value === undefined) return undefined;
  const outOf = numberOf(total);
  return {
    value,
    ...(outOf !== undefined && { total: outOf }),
    ...(typeof message === 'string' && { message }),
  };
}

/** A double will do where a number is only shown. */
function numberOf(value: unknown): number | undefined {
  const number = isInexactNumber(value) ? Number(value.rawJSON) : value;
  return typeof number === 'number' && Number.isFinite(number) ? number : undefined;
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
