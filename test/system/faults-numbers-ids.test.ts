import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { join } from 'node:path';
import { Fleet, keys } from './fleet.ts';
import { eras, exchange, type Answer, type Host } from './host.ts';
import { root } from './service.ts';

let fleet: Fleet;
beforeAll(async () => {
  fleet = await Fleet.start('standalone', {
    HOLDFAST_TOOLS: `${join(root, 'test/system/tools/echo.ts')},@holdfast/orders`,
  });
});
afterAll(() => fleet.dispose());

/** Ids as JSON text, because not every one survives a double. */
const legal = [
  '"1"',
  '"init-1"',
  '0',
  '-1',
  '1',
  '9007199254740993',
  '-9007199254740993',
  '-9223372036854775808',
  '""',
  '"null"',
  '"\\u2028\\u0000\\ud83d"',
  `"${'x'.repeat(256)}"`,
  '1.5',
];
const illegal = ['null', '{}', '[]', 'true', '[1]', '{"id":1}'];

/** What is written as `json` by `JSON.stringify`, digit for digit. */
const raw = (json: string): unknown =>
  /^[[{]/.test(json)
    ? (JSON.parse(json) as unknown)
    : (JSON as never as { rawJSON(text: string): unknown }).rawJSON(json);

/** The id in the last message of an answer, as it is written there. */
function idIn({ body }: Answer): string {
  const message = body
    .split(/\r?\n/)
    .map((line) => line.replace(/^data: ?/, ''))
    .filter((line) => line.startsWith('{'))
    .at(-1)!;
  // A member of the message itself, not of its result.
  const rest = message.replace(/"result":.*$/s, '').replace(/"error":\{.*\}(?=[,}])/s, '');
  const all =
    /"id":("(?:[^"\\]|\\.)*"|[^,}]+)/.exec(rest) ?? /"id":("(?:[^"\\]|\\.)*"|[^,}]+)\}?$/.exec(message);
  return all![1]!;
}

const sameJson = (a: string, b: string): boolean =>
  a === b || (a.startsWith('"') && b.startsWith('"') && JSON.parse(a) === JSON.parse(b));

describe.each(eras)('F142: a %s host', (era) => {
  let host: Host;
  beforeAll(async () => {
    host = await fleet.host(era);
  });

  test.each(legal)('F142 the id %s comes back with its value and type', async (id) => {
    const listed = await host.send('tools/list', {}, { id: raw(id) }).answer;
    const called = await host.begin('lookup_order', { order_id: 'o-1' }, { id: raw(id) }).answer;
    expect([listed.status, called.status]).toEqual([200, 200]);
    for (const answer of [listed, called]) expect(sameJson(idIn(answer), id)).toBe(true);
  });

  test.each(illegal)('F142 the id %s is refused with -32600 and id null', async (id) => {
    const answers = await Promise.all([
      host.send('tools/list', {}, { id: raw(id) }).answer,
      host.begin('lookup_order', { order_id: 'o-1' }, { id: raw(id) }).answer,
    ]);
    for (const { status, messages } of answers) {
      expect(status).toBe(400);
      expect(messages).toHaveLength(1);
      expect(messages[0]).toMatchObject({ id: null, error: { code: -32600 } });
    }
  });

  test.each(legal)('F142 variant: the id %s is echoed in errors and on a stream as well', async (id) => {
    const unknown = await host.send('no/such/method', {}, { id: raw(id) }).answer;
    expect(unknown.messages[0]!.error!.code).toBe(-32601);
    expect(sameJson(idIn(unknown), id)).toBe(true);
    const slow = await host.begin('refund_order', { order_id: 'o-1', delay_ms: 150 }, { id: raw(id) }).answer;
    expect(slow.headers['content-type']).toMatch(/^text\/event-stream/);
    expect(sameJson(idIn(slow), id)).toBe(true);
  });

  test('F142 variant: a tool that is not there is answered to the id that asked', async () => {
    const answer = await host.begin('no_such_tool', {}, { id: raw('9007199254740993') }).answer;
    expect(answer.messages[0]!.error!.code).toBe(-32602);
    expect(idIn(answer)).toBe('9007199254740993');
  });
});

test('F142 variant: initialize echoes its id, whatever it is', async () => {
  for (const id of legal) {
    const answer = await exchange(fleet.url(), {
      headers: {
        authorization: `Bearer ${keys.desk}`,
        accept: 'application/json',
        'content-type': 'application/json',
      },
      body: `{"jsonrpc":"2.0","id":${id},"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
    }).answer;
    expect(answer.status).toBe(200);
    expect(sameJson(idIn(answer), id)).toBe(true);
  }
});

describe.each(eras)('F140, a local tool: a %s host', (era) => {
  const integers = ['1915883588174806058', '-9223372036854775808', `1${'0'.repeat(40)}`];

  test.each(['object', 'content'])(
    'F140 integers of a result (%s) keep every digit, at once and from the store',
    async (as) => {
      const host = await fleet.host(era);
      const call = (): Promise<Answer> => host.begin('count', { as }, { token: `count-${as}-${era}` }).answer;
      const [fresh, again] = [await call(), await call()];
      for (const { body } of [fresh, again]) {
        const structured = /"structuredContent":(\{[^}]*)/.exec(body)![1]!;
        for (const digits of integers) expect(structured).toMatch(new RegExp(`:${digits}[,}\\]]`));
        expect(structured).toMatch(/"small":7,"fraction":0\.1,"zero":-?0,"one":1\b/);
      }
      expect(again.messages[0]!.result!._meta!['holdfast/run']!.reattached).toBe(true);
      const { id } = fresh.messages[0]!.result!._meta!['holdfast/run']!;
      const shown = await (
        await fetch(`${fleet.gateways[0]!.base}/api/runs/${id}`, {
          headers: { authorization: `Bearer ${keys.desk}` },
        })
      ).text();
      for (const digits of integers) expect(shown).toContain(`:${digits}`);
    },
  );

  test('F140 variant: in text, in an array and in the _meta of a result', async () => {
    const host = await fleet.host(era);
    const [array, content] = await Promise.all(
      ['array', 'content'].map((as) => host.begin('count', { as }).answer),
    );
    expect(array!.body).toContain('"text":"[1915883588174806058]"');
    expect(content!.body).toContain('"test/big":1915883588174806058');
  });

  test('F140 variant: an argument that cannot be held exactly is refused, never rounded', async () => {
    const host = await fleet.host(era);
    for (const number of ['1915883588174806058', '-9007199254740993', '1e400']) {
      const { messages } = await host.begin('repeat', {}, { raw: `{"a":[{"n":${number}}]}` }).answer;
      const { name, message, run_id } = messages[0]!.result!._meta!['holdfast/error']!;
      expect({ name, run_id }).toEqual({ name: 'InvalidArguments', run_id: null });
      expect(message).toMatch(/^a\[0\]\.n: .* cannot be held exactly/);
    }
    const exact = await host.begin(
      'repeat',
      {},
      { raw: '{"n":[1152921504606846976],"m":1.0,"z":-0,"f":1e3}' },
    ).answer;
    expect(exact.messages[0]!.result!.structuredContent).toEqual({ n: [2 ** 60], m: 1, z: 0, f: 1000 });
  });
});
