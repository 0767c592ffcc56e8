/**
 * Calls in a loop from a pod of the cluster, alternating between tools of workers and of an upstream server, as a host
 * on 2026-07-28 that repeats calls with its token. The file SENT_AGAIN contains the number of repeats so far. When the
 * file OVER exists, the script requests every result once more and prints its findings as one line of JSON. Plain
 * JavaScript, because the image runs only these scripts.
 */
import { existsSync, writeFileSync } from 'node:fs';
import { ask, listed } from './mcp.mjs';

const { OVER: over, SENT_AGAIN: sentAgainPath } = process.env;
const tools = ['refund_order', 'numbers__number'];
let sentAgain = 0;
writeFileSync(sentAgainPath, '0');
let slowestMs = 0;
let calls = 0;
const failed = [];
const otherwise = [];

async function send(tool, order, requestState) {
  const result = await ask('tools/call', {
    name: tool,
    arguments: { order_id: order, ...(tool === 'refund_order' && { delay_ms: 200 }) },
    ...(requestState !== undefined && { requestState }),
    _meta: { idempotency_key: order },
  });
  // A stopping gateway hands the call over.
  return result.resultType === 'input_required' ? send(tool, order, result.requestState) : result;
}

/** The text of the result. @throws Error if none arrived in two minutes */
async function call(tool, order) {
  const deadline = Date.now() + 120_000;
  for (;;) {
    let reason;
    try {
      const result = await send(tool, order);
      if (result._meta['holdfast/error']?.name !== 'InternalError') {
        if (result.isError) throw Object.assign(new Error(result.content[0].text), { isFinal: true });
        return result.content[0].text;
      }
      reason = result.content[0].text;
    } catch (error) {
      if (error.isFinal || Date.now() > deadline) throw error;
      reason = `${error.message} ${error.cause?.code ?? ''}`;
    }
    console.log(`${new Date().toISOString()} ${order} (${tool}) is sent again: ${reason}`);
    writeFileSync(sentAgainPath, String(++sentAgain));
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

const host = async (number) => {
  const tool = tools[number % tools.length];
  const results = new Map();
  for (let n = 0; !existsSync(over); n++) {
    const order = `${process.env.HOSTNAME}-${number}-${n}`;
    const start = performance.now();
    await call(tool, order).then(
      (text) => results.set(order, text),
      (error) => failed.push(`${order} (${tool}): ${error.message}`),
    );
    slowestMs = Math.max(slowestMs, performance.now() - start);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  calls += results.size;
  for (const [order, text] of results) {
    await call(tool, order).then(
      (again) => again !== text && otherwise.push(order),
      (error) => failed.push(`${order} (${tool}), asked again: ${error.message}`),
    );
  }
};
for (const tool of tools) await listed(tool);
await Promise.all(Array.from({ length: 10 }, (_, number) => host(number)));
console.log(JSON.stringify({ calls, sentAgain, slowestMs: Math.round(slowestMs), failed, otherwise }));
