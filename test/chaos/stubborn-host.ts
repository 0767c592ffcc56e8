import { setTimeout as sleep } from 'node:timers/promises';
import { errorNameOf, openHost, type Host, type ToolResult } from '../system/host.ts';

export interface StubbornCall {
  readonly tool: string;
  readonly args: Readonly<Record<string, unknown>>;
  readonly token: string;
}

export interface Answered {
  readonly call: StubbornCall;
  readonly era: Host['era'];
  /** Number of sends. */
  readonly sent: number;
  /** Time of the first broken connection, if any, on the clock of `Date.now`. */
  readonly brokenAt?: number;
  readonly gotAt: number;
  /** Undefined: the call was rejected, or no time was left. */
  readonly result?: ToolResult;
  readonly reason?: string;
}

/** A host that does not give up: it repeats calls that break, or take too long, with their token. */
export class StubbornHost {
  readonly era: Host['era'];
  sessionsLost = 0;
  readonly #url: string;
  readonly #key: string;
  readonly #patienceMs: number;
  #host: Host | undefined;

  /** @param patienceMs time for which a host waits for an answer before it sends again */
  constructor(era: Host['era'], url: string, key: string, patienceMs: number) {
    this.era = era;
    this.#url = url;
    this.#key = key;
    this.#patienceMs = patienceMs;
  }

  /** Opens a session, in the legacy era. */
  async open(): Promise<void> {
    this.#host = await openHost(this.era, this.#url, this.#key);
  }

  /** Never rejects. */
  async call(call: StubbornCall, deadline: number): Promise<Answered> {
    let sent = 0;
    let brokenAt: number | undefined;
    let reason = '';
    const answered = (more: { result?: ToolResult; reason?: string }): Answered => ({
      call,
      era: this.era,
      sent,
      ...(brokenAt !== undefined && { brokenAt }),
      gotAt: Date.now(),
      ...more,
    });
    while (Date.now() < deadline) {
      sent++;
      const tried = await this.#try(call);
      if ('result' in tried) return answered({ result: tried.result });
      reason = tried.reason;
      if (tried.isFinal) return answered({ reason });
      brokenAt ??= Date.now();
      await sleep(Math.min(100 * 2 ** (sent - 1), 1_000));
    }
    return answered({ reason: `no time left; last: ${reason}` });
  }

  async #try({
    tool,
    args,
    token,
  }: StubbornCall): Promise<{ result: ToolResult } | { reason: string; isFinal: boolean }> {
    let patience: NodeJS.Timeout | undefined;
    try {
      if (this.#host === undefined) await this.open();
      const exchange = this.#host!.begin(tool, args, { token });
      patience = setTimeout(() => exchange.cut(), this.#patienceMs);
      const { status, body, messages } = await exchange.answer;
      if (status === 404 && this.era === 'legacy') {
        this.sessionsLost++;
        this.#host = undefined;
        return { reason: `HTTP 404: ${body}`, isFinal: false };
      }
      const last = messages.at(-1);
      if (last?.error !== undefined && status < 500 && last.error.code !== -32603)
        return { reason: `HTTP ${status}: ${body}`, isFinal: true };
      const result = last?.result;
      if (status >= 500 || result?.content === undefined)
        return { reason: `HTTP ${status}: ${body}`, isFinal: false };
      // It is unknown whether the call became a run; its token makes it safe to send again.
      if (errorNameOf(result) === 'InternalError') return { reason: 'InternalError', isFinal: false };
      return { result };
    } catch (error) {
      return { reason: String(error), isFinal: false };
    } finally {
      clearTimeout(patience);
    }
  }

  /** Whether the session still exists, if the host has one. */
  async hasSession(): Promise<boolean> {
    if (this.era === 'modern') return true;
    for (;;) {
      const answer = await this.#host!.send('tools/list').answer.catch(() => undefined);
      if (answer !== undefined && answer.status < 500) return answer.status === 200;
      await sleep(100);
    }
  }
}
