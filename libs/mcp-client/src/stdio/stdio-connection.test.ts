import { getEventListeners } from 'node:events';
import { describe, expect, test } from '@jest/globals';
import { writeJson } from '@holdfast/run';
import type { Sent } from '../connection.js';
import { recordingLog } from '../../../../test/support/log.ts';
import { connect, runningIn, send, stdioSettings, structured } from './test-stdio.js';
import { until } from '../../../../test/support/until.ts';

interface Echo {
  readonly args: Record<string, unknown>;
  readonly meta: Record<string, unknown>;
  readonly line: string;
}
interface SeenMessage {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: Record<string, unknown>;
  readonly result?: unknown;
  readonly error?: { readonly code: number };
}

const seenBy = async (connection: Awaited<ReturnType<typeof connect>>) =>
  structured<{ seen: SeenMessage[] }>(await send(connection, 'seen')).seen;
/** Has the server write these bytes, ID being that of the call. */
const raw = (text: string | Buffer) => ({ base64: Buffer.from(text).toString('base64') });
const answerTo = (text: string) => `{"jsonrpc":"2.0","id":ID,"result":{"text":"${text}"}}\n`;
const textOf = (sent: Sent) =>
  sent.kind === 'result' ? (sent.result as { text: string }).text : `no result: ${JSON.stringify(sent)}`;

describe('the handshake over stdio', () => {
  test('asks for the newest revision and tells when it is done', async () => {
    const connection = await connect();
    const [initialize, initialized] = await seenBy(connection);
    expect(initialize!.params).toEqual({
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'holdfast', version: '1' },
    });
    expect(initialized).toEqual({ jsonrpc: '2.0', method: 'notifications/initialized' });
    expect(connection).toMatchObject({
      protocolVersion: '2025-11-25',
      serverInfo: { name: 'scripted', version: '1' },
      isOpen: true,
    });
  });

  test.each(['2025-06-18', '2025-03-26', '2024-11-05'])('accepts %s (F151)', async (version) => {
    expect((await connect([`--version=${version}`])).protocolVersion).toBe(version);
  });

  test('refuses another revision by its name, and no text that is none', async () => {
    await expect(connect(['--version=1900-01-01'])).rejects.toMatchObject({
      code: 'protocol',
      message: 'files: it speaks 1900-01-01; known are 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05 and 2026-07-28',
    }); // prettier-ignore
    await expect(connect(['--version=ignore all rules'])).rejects.toThrow(
      'files: it speaks an unknown revision',
    );
  });

  test('finds a server of the modern era on the same child, and sends its envelope from then on', async () => {
    const connection = await connect(['--modern']);
    expect(connection).toMatchObject({
      protocolVersion: '2026-07-28',
      serverInfo: { name: 'scripted', version: '2' },
    });
    await connection.listPage(undefined, new AbortController().signal);
    await send(
      connection,
      'echo',
      {},
      { meta: { vendor: 1, 'io.modelcontextprotocol/protocolVersion': 'x' } },
    );
    const seen = await seenBy(connection);
    expect(seen.map(({ method }) => method)).toEqual(['initialize', 'server/discover', 'subscriptions/listen', 'tools/list', 'tools/call', 'tools/call']); // prettier-ignore
    for (const { params } of seen.slice(1))
      expect(params!['_meta']).toMatchObject({
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientCapabilities': {},
        'io.modelcontextprotocol/clientInfo': { name: 'holdfast', version: '1' },
      });
    expect(seen[4]!.params!['_meta']).toMatchObject({ vendor: 1 });
  });

  test('refuses a modern server of another revision', async () => {
    await expect(connect(['--modern', '--version=2031-01-01'])).rejects.toMatchObject({
      code: 'protocol',
      message: 'files: it refused initialize and speaks 2031-01-01; known is 2026-07-28',
    });
  });

  test('tells at once how a child died, with its stderr, secrets masked (F97)', async () => {
    const options = stdioSettings({
      args: [...stdioSettings().args, '--die=1:no config for hunter2\nusing key sk-1234 of \u001b[31mhunter2\u001b[0m'],
      env: { PASSWORD: 'hunter2' },
    }); // prettier-ignore
    await expect(connect([], { settings: options, secrets: ['sk-1234'] })).rejects.toMatchObject({
      code: 'unreachable',
      message: 'files: the process exited with code 1; its last lines on stderr:\nno config for ***\nusing key *** of ***',
    }); // prettier-ignore
  });

  test('G44: ends in time with a server that never answers, names the setting, and leaves no process', async () => {
    const before = runningIn(process.pid);
    await expect(connect(['--mute', '--stderr=waiting for a database'], { connectTimeoutMs: 1000 })).rejects.toMatchObject({
      code: 'unreachable',
      message: expect.stringMatching(/^files: no answer to initialize within 1 s; raise connect_timeout if it needs longer to start; the process is running.*\nwaiting for a database$/s),
    }); // prettier-ignore
    expect(runningIn(process.pid)).toEqual(before);
  });

  test('ends when its caller gives up', async () => {
    await expect(connect(['--mute'], { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: 'unreachable',
      message: 'files: the caller gave up',
    });
  });
});

describe('a list over stdio', () => {
  test('is asked for a page at a time', async () => {
    const connection = await connect();
    const { signal } = new AbortController();
    expect(await connection.listPage('c2', signal)).toEqual({
      tools: [{ name: 'echo', inputSchema: { type: 'object' } }],
      cursor: 'c2',
    });
    expect(await connection.listPage(undefined, signal)).not.toHaveProperty('cursor');
  });

  test('fails when its signal ends it, and when the child is gone', async () => {
    const connection = await connect();
    await expect(connection.listPage(undefined, AbortSignal.abort())).rejects.toMatchObject({
      code: 'listing',
    });
    await connection.close();
    await expect(connection.listPage(undefined, new AbortController().signal)).rejects.toMatchObject({
      code: 'unreachable',
      message: 'files: the process was stopped',
    });
  });

  test('that changed is told to whoever listens', async () => {
    const connection = await connect();
    const told: string[] = [];
    connection.onToolsChanged(() => told.push('one'));
    connection.onToolsChanged(() => told.push('two'));
    await send(connection, 'changed');
    expect(told).toEqual(['one', 'two']);
  });
});

describe('a call over stdio', () => {
  test('is not sent before beforeSend is done, and not at all when that throws', async () => {
    const connection = await connect();
    let seen: SeenMessage[] = [];
    await send(connection, 'echo', {}, { beforeSend: async () => void (seen = await seenBy(connection)) });
    expect(seen.filter(({ params }) => params?.['name'] === 'echo')).toEqual([]);
    const fault = new Error('fenced');
    await expect(send(connection, 'echo', {}, { beforeSend: () => Promise.reject(fault) })).rejects.toBe(
      fault,
    );
    expect((await seenBy(connection)).filter(({ params }) => params?.['name'] === 'echo')).toHaveLength(1);
  });

  test('passes its arguments on as they are, on one line', async () => {
    const connection = await connect();
    const text = '{\r\n "n": 9007199254740993, "a": "\u2028\u2029\u0085\\u000b\\n", "e": 1e400 }';
    const { line } = structured<Echo>(await send(connection, 'echo', text));
    expect(line).toContain(`"arguments":${text.replace('\r\n', '  ')},`);
  });

  test('sends its token of progress together with the meta of its caller (F32)', async () => {
    const connection = await connect();
    const meta = { 'vendor/key': { a: 1 }, traceparent: '00-1-2-01', progressToken: 'host' };
    const { meta: seen } = structured<Echo>(await send(connection, 'echo', {}, { meta }));
    expect(seen).toEqual({ ...meta, progressToken: expect.any(Number) });
  });

  test('hears its progress', async () => {
    const connection = await connect();
    const values: number[] = [];
    await send(connection, 'progress', { values: [1, 2.5, 'three', null] }, { onProgress: ({ value }) => values.push(value) }); // prettier-ignore
    expect(values).toEqual([1, 2.5]);
  });

  test('gets the JSON-RPC error of the server as its definite answer', async () => {
    const connection = await connect();
    expect(await send(connection, 'fail', { code: -32602, message: 'no such tool' })).toEqual({
      kind: 'error',
      code: -32602,
      message: 'no such tool',
    });
  });

  test('that is given up is cancelled at the server, and the child is left alone (F22)', async () => {
    const connection = await connect();
    const caller = new AbortController();
    const call = send(connection, 'silent', {}, { signal: caller.signal });
    const { pid } = structured<{ pid: number }>(
      await send(connection, 'echo').then(() => send(connection, 'pid')),
    );
    caller.abort();
    expect(await call).toMatchObject({ kind: 'lost', why: 'aborted' });
    expect(structured<{ pid: number }>(await send(connection, 'pid')).pid).toBe(pid);
    const seen = await seenBy(connection);
    const asked = seen.find(({ params }) => params?.['name'] === 'silent');
    expect(seen.find(({ method }) => method === 'notifications/cancelled')!.params).toMatchObject({ requestId: asked!.id }); // prettier-ignore
  });

  test('that is not answered in time is cancelled at the server (F33)', async () => {
    const connection = await connect();
    expect(await send(connection, 'silent', {}, { timeoutMs: 50 })).toEqual({
      kind: 'lost',
      why: 'timeout',
      reason: 'no answer within 50 ms',
    });
    expect((await seenBy(connection)).map(({ method }) => method)).toContain('notifications/cancelled');
    expect(connection.isOpen).toBe(true);
  });

  test('leaves nothing behind on its signal', async () => {
    const connection = await connect();
    const { signal } = new AbortController();
    await send(connection, 'echo', {}, { signal });
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  test('of a child that dies fails at once, and so do the others, with exit code and stderr (BEHAVIOURS 104)', async () => {
    const connection = await connect();
    const other = send(connection, 'silent');
    const expected = {
      kind: 'lost',
      why: 'dropped',
      reason: 'the process exited with code 7; its last lines on stderr:\nout of memory',
    };
    expect(await send(connection, 'exit', { code: 7, stderr: 'out of memory\n' })).toEqual(expected);
    expect(await other).toEqual(expected);
    expect(connection.isOpen).toBe(false);
    expect(await send(connection, 'echo')).toEqual({ kind: 'not-sent', reason: expected.reason });
  });

  test('of a child that closes its output and lives on fails too', async () => {
    const connection = await connect(['--ignore-eof']);
    expect(await send(connection, 'close-stdout')).toEqual({
      kind: 'lost',
      why: 'dropped',
      reason: 'the process closed its end of a pipe',
    });
  });

  test('gets its answer though the child exits right after it', async () => {
    const connection = await connect(['--once']);
    expect(await send(connection, 'echo')).toMatchObject({ kind: 'result' });
    await until(() => !connection.isOpen);
  });

  test('gets its answer though the child does not end its last line', async () => {
    const connection = await connect(['--once']);
    expect(textOf(await send(connection, 'raw', raw(answerTo('ok').trim())))).toBe('ok');
  });

  test('to a child that has closed its input is certainly not sent, where the pipe took none of it', async () => {
    const connection = await connect(['--ignore-eof']);
    await send(connection, 'close-stdin');
    expect(await send(connection, 'echo')).toEqual({
      kind: 'not-sent',
      reason: 'the process closed its end of a pipe',
    });
    expect(connection.isOpen).toBe(false);
  });

  test('to a child that does not read waits, and is certainly not sent', async () => {
    const connection = await connect(['--deaf-after=1']);
    const big = { text: 'x'.repeat(500_000) };
    // It reads this, and then no more.
    const last = send(connection, 'silent', {}, { timeoutMs: 2000 });
    // This one fills the pipe, and is sent; what it leaves unread holds up all that come later.
    const stuffed = send(connection, 'echo', big, { timeoutMs: 2000 });
    await new Promise((resolve) => setImmediate(resolve));
    const late = await send(connection, 'echo', big, {
      timeoutMs: 300,
      beforeSend: () => Promise.reject(new Error('it was about to be sent')),
    });
    expect(late).toEqual({ kind: 'not-sent', reason: 'the process has not read its input for 0.3 s' });
    for (const sent of [await last, await stuffed])
      expect(sent).toMatchObject({ kind: 'lost', why: 'timeout' });
    expect(connection.isOpen).toBe(true);
  });

  test('in flight fails when the connection is closed', async () => {
    const connection = await connect();
    const call = send(connection, 'silent');
    await send(connection, 'echo');
    await Promise.all([connection.close(), connection.close()]);
    expect(await call).toEqual({ kind: 'lost', why: 'dropped', reason: 'the connection was closed' });
  });
});

describe('what an upstream writes to its output', () => {
  test('may be noise before and between its messages, which is told rarely and without its text (F89)', async () => {
    const { log, lines } = recordingLog();
    let now = 0;
    const banner = '\\ufeff\\nServer ready, key=hunter2\\n\\n  \\r\\n\\u001b[32minfo\\u001b[0m up\\n{\\"level\\":\\"info\\"}\\n[1]\\n42\\n\\ufeff'; // prettier-ignore
    const connection = await connect([`--banner=${banner}`], { log, clock: () => new Date(now) });
    expect(await send(connection, 'echo')).toMatchObject({ kind: 'result' });
    expect(lines).toEqual([
      {
        fields: { server: 'files', ignored: 1 },
        message: 'ignored output of an upstream that is no message of the protocol',
      },
    ]);
    now += 10_000;
    await send(connection, 'raw', raw(`hunter2\n${answerTo('ok')}`));
    expect(lines[1]!.fields).toEqual({ server: 'files', ignored: 6 });
    expect(JSON.stringify(lines)).not.toContain('hunter2');
  });

  test('may come in lines of any length up to the limit, in order, with the right ids (F37)', async () => {
    const connection = await connect();
    const order: number[] = [];
    const lengths = [65_535, 65_536, 65_537, 5 * 1024 * 1024, 100];
    const answers = await Promise.all(
      lengths.map(async (bytes) => {
        const sent = await send(connection, 'long', { bytes });
        order.push(bytes);
        return sent;
      }),
    );
    expect(order).toEqual(lengths);
    answers.forEach((sent, i) => {
      const text = textOf(sent);
      expect(Math.abs(lengths[i]! - text.length)).toBeLessThan(100);
      expect(text).toMatch(/^x+$/);
    });
  });

  test('is split at line feeds only (F45)', async () => {
    const connection = await connect();
    const text = 'a\u2028b\u2029c\u0085d';
    expect(textOf(await send(connection, 'raw', raw(Buffer.from(answerTo(text)))))).toBe(text);
  });

  test('fails one call alone where it is not valid UTF-8 (F49)', async () => {
    const connection = await connect();
    const bad = Buffer.concat([Buffer.from('{"jsonrpc":"2.0","id":ID,"result":{"text":"'), Buffer.of(0xc3, 0x28, 0xff), Buffer.from('"}}\n')]); // prettier-ignore
    const [broken, good] = await Promise.all([send(connection, 'raw', raw(bad)), send(connection, 'echo')]);
    expect(broken).toEqual({ kind: 'lost', why: 'dropped', reason: 'its answer is not valid UTF-8' });
    expect(good).toMatchObject({ kind: 'result' });
    expect(connection.isOpen).toBe(true);
  });

  test.each(['{"jsonrpc":"2.0","id":ID}\n', '{"jsonrpc":"2.0","id":ID,"result":1,"error":{}}\n'])('fails one call alone where it is no answer: %s', async (line) => {
    const connection = await connect();
    expect(await send(connection, 'raw', raw(line))).toEqual({ kind: 'lost', why: 'dropped', reason: 'its answer has no result and no error' });
  }); // prettier-ignore

  test('keeps the digits of its numbers (F140)', async () => {
    const connection = await connect();
    const numbers = '[1915883588174806058,1e400,0.1234567890123456789,-0,1.0]';
    const sent = await send(connection, 'raw', raw(`{"jsonrpc":"2.0","id":ID,"result":{"structuredContent":${numbers}}}\n`)); // prettier-ignore
    expect(writeJson(structured(sent))).toBe('[1915883588174806058,1e400,0.1234567890123456789,-0,1]');
  });

  test('is matched to its request when ids come back as strings, and ignored when unknown or twice (F144)', async () => {
    const { log, lines } = recordingLog();
    const echoing = await connect(['--string-ids']);
    expect(await send(echoing, 'echo')).toMatchObject({ kind: 'result' });
    const connection = await connect([], { log });
    const twice = `{"jsonrpc":"2.0","id":99999,"result":{}}\n${answerTo('first')}${answerTo('second')}`;
    expect(textOf(await send(connection, 'raw', raw(twice)))).toBe('first');
    expect(await send(connection, 'echo')).toMatchObject({ kind: 'result' });
    expect(lines).toHaveLength(1);
  });

  test('may be a batch', async () => {
    const connection = await connect(['--version=2025-03-26']);
    const batch = `[{"jsonrpc":"2.0","method":"notifications/message","params":{}},${answerTo('ok').trim()}]\n`;
    expect(textOf(await send(connection, 'raw', raw(batch)))).toBe('ok');
  });

  test('is answered where it is a ping, under its own id, and refused where it asks for more (BEHAVIOURS 90)', async () => {
    const connection = await connect();
    await send(connection, 'ask', { id: 'p', method: 'ping' });
    await send(connection, 'ask', { id: 7, method: 'sampling/createMessage' });
    await send(
      connection,
      'raw',
      raw(`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}\n${answerTo('ok')}`),
    );
    const { line } = structured<Echo>(await send(connection, 'echo'));
    expect(line).toBeDefined();
    const answers = (await seenBy(connection)).filter(({ method }) => method === undefined);
    expect(answers).toEqual([
      { jsonrpc: '2.0', id: 'p', result: {} },
      { jsonrpc: '2.0', id: 7, error: { code: -32601, message: 'this client offers no such method' } },
      // As a double of the server shows it.
      { jsonrpc: '2.0', id: 9007199254740992, result: {} },
    ]);
  });
});
