/**
 * Calls in a loop from a pod of the cluster, as a host on 2026-07-28 that sends again with its token. When the file
 * OVER is there, it asks for every result once more and prints what it saw as one line of JSON. Plain JavaScript,
 * as the image runs it alone.
 */
import { existsSync } from 'node:fs';

const { URL: url, KEY: key, OVER: over } = process.env;
const revision = '2026-07-28';
const name = 'refund_order';
let sentAgain = 0;
const results = new Map();
const failed = [];

async function post(order, requestState) {
  const answer = await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      authorization: `Bearer ${key}`,
      'mcp-protocol-version': revision,
      'mcp-method': 'tools/call',
      'mcp-name': name,
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: {
        name,
        arguments: { order_id: order, delay_ms: 200 },
        ...(requestState !== undefined && { requestState }),
        _meta: {
          idempotency_key: order,
          'io.modelcontextprotocol/protocolVersion': revision,
          'io.modelcontextprotocol/clientCapabilities': {},
        },
      },
    }),
    signal: AbortSignal.timeout(60_000),
  });
  const text = await answer.text();
  const json = text.startsWith('{')
    ? text
    : (/^data: (.*)$/m.exec(text.slice(text.lastIndexOf('data: ')))?.[1] ?? '');
  const { result } = JSON.parse(json);
  // A gateway that goes away hands the call over.
  return result.resultType === 'input_required' ? post(order, result.requestState) : result;
}

/** The text of the result. @throws Error when none came in two minutes */
async function call(order) {
  const deadline = Date.now() + 120_000;
  for (;;) {
    try {
      const result = await post(order);
      if (result._meta['holdfast/error']?.name !== 'InternalError') {
        if (result.isError) throw Object.assign(new Error(result.content[0].text), { isFinal: true });
        return result.content[0].text;
      }
    } catch (error) {
      if (error.isFinal || Date.now() > deadline) throw error;
    }
    sentAgain++;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

const host = async (number) => {
  for (let n = 0; !existsSync(over); n++) {
    const order = `${process.env.HOSTNAME}-${number}-${n}`;
    await call(order).then(
      (text) => results.set(order, text),
      (error) => failed.push(`${order}: ${error.message}`),
    );
  }
};
await Promise.all(Array.from({ length: 10 }, (_, number) => host(number)));
const otherwise = [];
for (const [order, text] of results) if ((await call(order)) !== text) otherwise.push(order);
console.log(JSON.stringify({ calls: results.size, sentAgain, failed, otherwise }));
