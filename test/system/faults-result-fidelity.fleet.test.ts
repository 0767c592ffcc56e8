import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { tool, type ScriptableUpstream } from '../servers/index.ts';
import { errorNameOf, eras, runOf, textOf, type Host } from './host.ts';
import { stdioServer, UpstreamFleet } from './upstream-fleet.ts';

let own: UpstreamFleet;
let host: Host;
let upstream: ScriptableUpstream;
let token = 0;
beforeAll(async () => {
  own = await UpstreamFleet.start('postgres', {}, { gateways: 2, workers: 1, connectors: 1 });
  host = await own.fleet.host('modern');
  upstream = await own.upstream();
  const tools = [
    'pid',
    'echo',
    'raw',
    'line',
    { name: 'told', description: `a${separators}b`, inputSchema: {} },
  ];
  await own.connect({ ...stdioServer('child', tools), max_result_bytes: 8 * 1024 * 1024 }, host);
});
afterAll(() => own.dispose());

const separators = '\u2028\u2029\u0085\u000b\u000c';
const everyByte = Buffer.from(Array.from({ length: 256 }, (_, i) => i)).toString('base64');
const pixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

/** Connects a server with one tool more, which gives this. */
async function give(id: string, script: Parameters<typeof tool>[1], settings: object = {}): Promise<string> {
  const giving = await own.upstream({ pages: [[tool('give', script)]] });
  const [name] = await own.connect({ id, url: giving.url, ...settings }, host);
  return name!;
}

/** Has the child write bytes; `ID` in them becomes the id of the call. */
const write = (bytes: string | Buffer): Promise<Awaited<ReturnType<Host['call']>>> =>
  host.call('child__raw', { base64: Buffer.from(bytes).toString('base64') });
const pid = async (): Promise<unknown> => (await host.call('child__pid', {})).structuredContent?.['pid'];

describe('bytes', () => {
  const content = [
    { type: 'image', data: pixel, mimeType: 'image/png' },
    { type: 'audio', data: 'AAEC', mimeType: 'audio/wav' },
    { type: 'resource', resource: { uri: 'file:///all', blob: everyByte, mimeType: 'x/y' } },
  ];

  test('F39 of images, audio and blobs are the same at the host, and from the store after a worker restart', async () => {
    const name = await give('bytes', { result: { content } });
    const first = await host.call(name, {}, { token: 'bytes' });
    expect(first.content).toEqual(content);
    await own.fleet.replaceWorkers();
    for (const era of eras) {
      const other = await own.fleet.host(era, { gateway: 1 });
      const again = await other.call(name, {}, { token: 'bytes' });
      expect(again.content).toEqual(content);
      expect(runOf(again)).toMatchObject({ id: runOf(first).id, reattached: true });
    }
  });

  test('F39 variant: a blob of two megabytes, base64 with line breaks and without padding, and an empty one', async () => {
    const large = Buffer.alloc(2 * 1024 * 1024, everyByte).toString('base64');
    const blocks = [large, `${pixel.slice(0, 40)}\n${pixel.slice(40)}`, 'AAECAw', ''].map((data) => ({
      type: 'image',
      data,
      mimeType: 'image/png',
    }));
    const name = await give('large-bytes', { result: { content: blocks } });
    const result = await host.call(name, {}, { token: 'large-bytes' });
    const digest = (value: unknown): string =>
      createHash('sha256').update(JSON.stringify(value)).digest('hex');
    expect(digest(result.content)).toBe(digest(blocks));
    expect(digest((await host.call(name, {}, { token: 'large-bytes' })).content)).toBe(digest(blocks));
  });
});

describe('embedded resources', () => {
  const embedded = (resource: object): object => ({
    type: 'resource',
    resource: { uri: 'u:1', ...resource },
  });

  test('F41 with a blob, with a text and with an empty text are all kept', async () => {
    const content = [{ blob: everyByte }, { text: 'inside' }, { text: '' }].map(embedded);
    const name = await give('resources', { result: { content } });
    expect((await host.call(name, {}, { token: 'resources' })).content).toEqual(content);
    expect((await host.call(name, {}, { token: 'resources' })).content).toEqual(content);
  });

  test('F41 variant: with an empty blob, with annotations and meta of its own, and beside an empty text block', async () => {
    const content = [
      embedded({ blob: '' }),
      { ...embedded({ text: '\n', mimeType: 'text/plain' }), annotations: { audience: ['user'] } },
      embedded({ text: 't', _meta: { 'example.com/page': 3 } }),
      { type: 'text', text: '' },
    ];
    const name = await give('odd-resources', { result: { content } });
    expect((await host.call(name, {})).content).toEqual(content);
  });
});

describe('an error of a tool that promises an output schema', () => {
  const definition = {
    outputSchema: { type: 'object', properties: { total: { type: 'number' } }, required: ['total'] },
  };

  test('F43 is its own text, though its structured content does not fit the schema', async () => {
    const text = 'auth failed: the token has expired';
    const structuredContent = { code: 401, message: 'expired' };
    const result = { isError: true, content: [{ type: 'text', text }], structuredContent };
    const name = await give('failing', { definition, result });
    const failed = await host.call(name, {}, { token: 'failing' });
    expect(failed).toMatchObject({ isError: true });
    expect(textOf(failed)).toBe(`MCPToolError: ${text}`);
    expect(textOf(await host.call(name, {}, { token: 'failing' }))).toBe(`MCPToolError: ${text}`);
  });

  test.each([
    ['has structured content alone', { structuredContent: { code: 'E9' }, content: [] }, /E9/],
    ['has an image alone', { content: [{ type: 'image', data: '', mimeType: 'i/p' }] }, /image: i\/p/],
    ['has nothing', { content: [] }, /without text/],
  ])('F43 variant: is told as such where it %s', async (what, result, said) => {
    const name = await give(`f43-${what.replaceAll(' ', '-').slice(-16)}`, {
      definition,
      result: { ...result, isError: true },
    });
    const failed = await host.call(name, {});
    expect(errorNameOf(failed)).toBe('MCPToolError');
    expect(textOf(failed)).toMatch(said);
    expect(textOf(failed)).not.toMatch(/schema/);
  });
});

describe('a result that is too large', () => {
  test('F35 of 32 MB of text is a clear failure, 200 KB twice arrive, and others are served meanwhile', async () => {
    const huge = await give('huge', { result: { content: [{ type: 'text', text: 'x'.repeat(32e6) }] } });
    const call = host.begin(huge, {});
    let isOver = false;
    void call.answer.then(() => (isOver = true));
    let served = 0;
    while (!isOver) {
      expect(textOf(await host.call('quick__echo', { n: served }))).toBe(`{"n":${served}}`);
      served++;
    }
    expect(served).toBeGreaterThan(1);
    const { messages, body } = await call.answer;
    expect(body.length).toBeLessThan(5e6);
    const result = messages.at(-1)!.result!;
    expect(textOf(result)).toMatch(/bytes|characters/);
    const text = 'y'.repeat(200_000);
    const both = { content: [{ type: 'text', text }], structuredContent: { text } };
    const twice = await host.call(await give('twice', { result: both }), {});
    expect(twice).toMatchObject(both);
  });

  test('F35 variant: a limit of the operator cuts the text with a note, and the run keeps what the host got', async () => {
    const name = await give(
      'cut',
      { result: { content: [{ type: 'text', text: 'é'.repeat(5_000) }] } },
      { max_result_bytes: 2048 },
    );
    const result = await host.call(name, {}, { token: 'cut' });
    expect(textOf(result)).toMatch(/^é+\n\[cut here; the whole text is 5000 characters long\]$/);
    expect(textOf(await host.call(name, {}, { token: 'cut' }))).toBe(textOf(result));
  });

  beforeAll(async () => {
    await own.connect({ id: 'quick', url: upstream.url }, host);
  });
});

describe('lines of a server on stdio', () => {
  test('F37 of 65535, 65536 and 65537 bytes, of 5 MB and a short one arrive whole under their ids', async () => {
    const lengths = [65_535, 65_536, 65_537, 5 * 1024 * 1024, 200];
    const results = await Promise.all(
      lengths.map(async (bytes, i) => textOf(await host.call('child__line', { bytes, letter: 'abcde'[i] }))),
    );
    results.forEach((text, i) => {
      expect(new Set(text)).toEqual(new Set('abcde'[i]));
      expect(lengths[i]! - text.length).toBeLessThan(120);
    });
  });

  test('F37 variant: characters of four bytes lie across every border of a chunk', async () => {
    const text = '\u{1f600}'.repeat(70_000);
    for (const pad of ['', 'x', 'xy', 'xyz']) {
      const answer = { content: [{ type: 'text', text: pad + text }] };
      const result = await write(`{"jsonrpc":"2.0","id":ID,"result":${JSON.stringify(answer)}}\n`);
      expect(textOf(result) === pad + text).toBe(true);
    }
  });

  test('F45 hold U+2028, U+2029, U+0085, VT and FF as they are: in a list, in a result, in arguments', async () => {
    const { messages } = await host.send('tools/list').answer;
    const listed = messages[0]!.result!['tools'] as { name: string; description: string }[];
    expect(listed.find(({ name }) => name === 'child__told')!.description).toContain(`a${separators}b`);
    const said = await write(
      `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"a\u2028\u2029\u0085b\\u000b\\f"}]}}\n`,
    );
    expect(textOf(said)).toBe('a\u2028\u2029\u0085b\u000b\u000c');
    const { structuredContent } = await host.call('child__echo', { [separators]: separators });
    expect(structuredContent!['args']).toEqual({ [separators]: separators });
  });

  test('F45 variant: keys of structured content and the text of an error hold them too', async () => {
    const error = JSON.stringify({ code: -32000, message: 'a\u2028b\u0085c' });
    const failed = await write(`{"jsonrpc":"2.0","id":ID,"error":${error}}\n`);
    expect(textOf(failed)).toContain('a\u2028b\u0085c');
    const structuredContent = { 'k\u2028\u2029': ['v\u2028'] };
    const answer = JSON.stringify({ content: [], structuredContent });
    const result = await write(`{"jsonrpc":"2.0","id":ID,"result":${answer}}\n`);
    expect(result.structuredContent).toEqual(structuredContent);
  });

  const spoilt = Buffer.concat([
    Buffer.from('{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"'),
    Buffer.of(0xc3, 0x28, 0xff),
    Buffer.from('"}]}}\n'),
  ]);

  test('F49 with bad UTF-8 fail their own call at once, and the next is answered by the same child', async () => {
    const before = await pid();
    const [bad, good] = await Promise.all([write(spoilt), host.call('child__echo', { n: 8 })]);
    expect(errorNameOf(bad)).toBe('MCPCallOutcomeUnknown');
    expect(textOf(bad)).toMatch(/not valid UTF-8/);
    expect(good.structuredContent!['args']).toEqual({ n: 8 });
    expect(await pid()).toBe(before);
  });

  test('F49 variant: an answer that is cut off in its middle ends its call by the time, and no other', async () => {
    await own.connect({ ...stdioServer('hasty', ['raw', 'pid', 'echo']), timeout: 1 }, host);
    const before = (await host.call('hasty__pid', {})).structuredContent;
    const base64 = Buffer.from('{"jsonrpc":"2.0","id":ID,"result":{"content":[\n').toString('base64');
    const [bad, good] = await Promise.all([
      host.call('hasty__raw', { base64 }),
      host.call('hasty__echo', { n: 9 }),
    ]);
    expect(errorNameOf(bad)).toBe('MCPCallOutcomeUnknown');
    expect(good.structuredContent!['args']).toEqual({ n: 9 });
    expect((await host.call('hasty__pid', {})).structuredContent).toEqual(before);
  });
});

describe('numbers', () => {
  const numbers = '{"id":1915883588174806058,"fine":0.1234567890123456789,"zero":-0,"one":1.0}';
  /** The answer as it came, now and from the store: a parser of JSON would round it. */
  const bodies = async (name: string): Promise<string[]> => {
    const options = { token: `numbers-${++token}` };
    const first = await host.begin(name, {}, options).answer;
    return [first.body, (await host.begin(name, {}, options).answer).body];
  };

  test('F140 keep every digit of an integer, and others stay equal, also from the store', async () => {
    const rawResult = `{"resultType":"complete","content":[],"structuredContent":${numbers}}`;
    for (const body of await bodies(await give('numbers', { rawResult }))) {
      const told = /"structuredContent":(\{[^}]*\})/.exec(body)![1]!;
      expect(told).toContain('"id":1915883588174806058,');
      const { fine, zero, one } = JSON.parse(told) as Record<string, number>;
      expect([fine, Math.abs(zero!), one]).toEqual([0.12345678901234568, 0, 1]);
    }
  });

  test('F140 1e400, which no double holds, is kept as it is', async () => {
    const rawResult = '{"resultType":"complete","content":[],"structuredContent":{"n":1e400}}';
    for (const body of await bodies(await give('too-far', { rawResult })))
      expect(body).toContain('"structuredContent":{"n":1e400}');
  });

  test('F140 variant: below zero, in lists, of forty digits, from a server on stdio', async () => {
    const digits = '1234567890123456789012345678901234567890';
    const answer = `{"content":[],"structuredContent":{"list":[-9223372036854775808,[${digits}]]}}`;
    const { body: told } = await host.begin(
      'child__raw',
      {},
      { raw: JSON.stringify({ base64: Buffer.from(`{"jsonrpc":"2.0","id":ID,"result":${answer}}\n`).toString('base64') }) }, // prettier-ignore
    ).answer;
    expect(told).toContain(`"structuredContent":{"list":[-9223372036854775808,[${digits}]]}`);
  });
});
