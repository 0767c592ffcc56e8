import { codes } from '@holdfast/protocol';
import { ByteLines, legacyVersions, modernVersion } from '@holdfast/protocol';
import { systemClock, type Clock, type Log, type Progress } from '@holdfast/run';
import { aborted } from '../aborted.js';
import { CallWait, gaveUp } from '../call-wait.js';
import { startChild, type ChildOptions, type UpstreamChild } from './child-process.js';
import {
  ConnectionFault,
  type Connection,
  type OutgoingCall,
  type SendOptions,
  type Sent,
} from '../connection.js';
import {
  hasTools,
  initializeParams,
  knownRevisions,
  modernMeta,
  readModernServerInfo,
  readServerInfo,
  revisionName,
  type ServerInfo,
} from '../era.js';
import { isObject } from '../is-object.js';
import {
  ourId,
  readProgress,
  writeCall,
  writeMessage,
  writeReply,
  type RpcAnswer,
  type RpcMessage,
} from '../json-rpc.js';
import { NoiseCount } from './noise-count.js';
import { readLine, readTooLong } from './stdio-message.js';

/** Longest line that is read; a longer answer fails its request. */
const maxLineBytes = 64 * 1024 * 1024;
/** Notifications and answers of ours are left out while a child that does not read leaves more than this unread. */
const maxUnreadBytes = 1024 * 1024;
/** A pipe takes a write of this size whole or not at all. */
const atomicBytes = 4096;

export interface StdioOptions extends ChildOptions {
  /** The version of ours that servers are told. */
  readonly clientVersion: string;
  /** For the start and the handshake together. */
  readonly connectTimeoutMs: number;
  readonly signal: AbortSignal;
  readonly log: Log;
  readonly clock?: Clock;
}

/** What became of a request. */
type Answer = RpcAnswer | Extract<Sent, { kind: 'not-sent' | 'lost' }>;

interface Pending {
  readonly settle: (answer: Answer) => void;
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
  serverInfo: ServerInfo | undefined;
  readonly #child: UpstreamChild;
  readonly #options: StdioOptions;
  readonly #noise: NoiseCount;
  readonly #pending = new Map<number, Pending>();
  readonly #listeners: (() => void)[] = [];
  /** Keys of `_meta` that a server of the modern era wants on each request. */
  #envelope: Readonly<Record<string, unknown>> | undefined;
  /** Whether the server says that it has tools. */
  #hasTools = false;
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
    const initialized = await this.#request('initialize', initializeParams(this.#options.clientVersion), {
      signal,
      isCancellable: false,
    });
    // It knows no handshake: a server of the modern era alone.
    if (initialized.kind === 'error') return this.#discover(initialized.code, signal);
    const result = this.#handshakeResult('initialize', initialized);
    const version = legacyVersions.find((known) => known === result['protocolVersion']);
    if (version === undefined)
      throw this.#fault('protocol', `it speaks ${revisionName(result['protocolVersion'])}; ${knownRevisions}`); // prettier-ignore
    this.protocolVersion = version;
    this.serverInfo = readServerInfo(result['serverInfo']);
    this.#hasTools = hasTools(result['capabilities']);
    this.#notify('notifications/initialized');
  }

  async listPage(cursor: string | undefined, signal: AbortSignal): Promise<unknown> {
    const answer = await this.#request('tools/list', cursor === undefined ? {} : { cursor }, { signal });
    if (answer.kind === 'result') return answer.result;
    if (answer.kind === 'error') {
      // A server without tools need not know `tools/list`.
      if (cursor === undefined && (!this.#hasTools || answer.code === codes.methodNotFound))
        return { tools: [] };
      throw this.#fault('listing', `tools/list was answered with JSON-RPC error ${answer.code}: ${answer.message}`); // prettier-ignore
    }
    throw answer.kind === 'broken' || this.isOpen
      ? this.#fault('listing', `tools/list: ${answer.reason}`)
      : this.#fault('unreachable', answer.reason);
  }

  async send(call: OutgoingCall, { beforeSend, signal, timeoutMs, onProgress }: SendOptions): Promise<Sent> {
    const blocked = await this.#awaitRoom(signal, timeoutMs);
    if (blocked !== undefined) return { kind: 'not-sent', reason: blocked };
    await beforeSend();
    if (!this.isOpen) return { kind: 'not-sent', reason: this.#gone() };
    if (signal.aborted) return { kind: 'not-sent', reason: gaveUp };
    const id = ++this.#lastId;
    const answer = await this.#exchange(id, writeCall(id, call, this.#envelope ?? {}), {
      signal,
      timeoutMs,
      onProgress,
    });
    return answer.kind === 'broken' ? { kind: 'lost', why: 'dropped', reason: answer.reason } : answer;
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
    this.#envelope = modernMeta(this.#options.clientVersion);
    const discovered = await this.#request('server/discover', {}, { signal, isCancellable: false });
    if (discovered.kind === 'error')
      throw this.#fault('protocol', `it refused initialize (JSON-RPC error ${refusal}) and server/discover (${discovered.code})`); // prettier-ignore
    const result = this.#handshakeResult('server/discover', discovered);
    const versions: unknown[] = Array.isArray(result['supportedVersions']) ? result['supportedVersions'] : [];
    if (!versions.includes(modernVersion))
      throw this.#fault('protocol', `it refused initialize and speaks ${versions.slice(0, 10).map(revisionName).join(', ') || 'no revision'}; known is ${modernVersion}`); // prettier-ignore
    this.protocolVersion = modernVersion;
    this.serverInfo = readModernServerInfo(result['_meta']);
    this.#hasTools = hasTools(result['capabilities']);
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
    if (answer.kind === 'broken') throw this.#fault('protocol', `${method}: ${answer.reason}`);
    if (this.#options.signal.aborted || !this.isOpen)
      throw this.#fault('unreachable', 'reason' in answer ? answer.reason : answer.kind);
    throw this.#fault('unreachable', `no answer to ${method} within ${this.#options.connectTimeoutMs / 1000} s; raise connect_timeout if it needs longer to start; the process ${this.#child.describe()}`); // prettier-ignore
  }

  #request(method: string, params: Readonly<Record<string, unknown>>, exchange: Exchange): Promise<Answer> {
    const id = ++this.#lastId;
    const meta = this.#envelope && { _meta: this.#envelope };
    return this.#exchange(id, writeMessage(method, { ...params, ...meta }, id), exchange);
  }

  /** Writes a request and waits for its answer: the one place where requests begin and end. */
  async #exchange(
    id: number,
    message: string,
    { signal, timeoutMs, onProgress, isCancellable = true }: Exchange,
  ): Promise<Answer> {
    if (signal.aborted) return { kind: 'not-sent', reason: gaveUp };
    if (!this.isOpen) return { kind: 'not-sent', reason: this.#gone() };
    const wait = new CallWait(signal);
    const answered = new Promise<Answer>((resolve) => {
      const settle = (answer: Answer) => {
        if (this.#pending.delete(id)) resolve(answer);
      };
      wait.signal.addEventListener('abort', () => {
        const { why = 'aborted', reason } = wait;
        if (isCancellable && this.#pending.has(id))
          this.#notify('notifications/cancelled', { requestId: id, reason });
        settle({ kind: 'lost', why, reason });
      });
      const pending: Pending = { settle, onProgress, isUnsent: false };
      this.#pending.set(id, pending);
      const bytes = Buffer.from(`${message}\n`);
      this.#child.stdin.write(bytes, (error) => {
        // A short line that the pipe did not take was seen by nobody. The end of the child tells why.
        pending.isUnsent = error != null && bytes.length <= atomicBytes;
      });
    });
    if (timeoutMs !== undefined) wait.start(timeoutMs);
    return answered.finally(() => wait.end());
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

  #take(message: RpcMessage): void {
    switch (message.kind) {
      case 'noise':
        return this.#noise.add();
      case 'request':
        return this.#write(writeReply(message));
      case 'notification':
        return this.#hear(message.method, message.params);
      case 'answer': {
        const pending = this.#pending.get(ourId(message.id) ?? 0);
        // Never asked, answered twice, or given up (F144).
        if (pending === undefined) return this.#noise.add();
        return pending.settle(message.answer);
      }
    }
  }

  #hear(method: string, params: Readonly<Record<string, unknown>>): void {
    if (method === 'notifications/tools/list_changed') this.#listeners.forEach((listener) => listener());
    if (method !== 'notifications/progress') return;
    const told = readProgress(params);
    if (told !== undefined) this.#pending.get(told.id)?.onProgress?.(told.progress);
  }

  #notify(method: string, params?: Readonly<Record<string, unknown>>): void {
    this.#write(writeMessage(method, params));
  }

  /** What no caller waits for; left out when the child does not read. */
  #write(message: string): void {
    const { stdin } = this.#child;
    if (!this.isOpen || stdin.writableLength > maxUnreadBytes) return;
    stdin.write(`${message}\n`);
  }

  #gone(): string {
    return `the process ${this.#child.describe()}`;
  }

  #fault(code: ConnectionFault['code'], problem: string): ConnectionFault {
    return new ConnectionFault(code, `${this.#options.server}: ${problem}`);
  }
}
