import { appendFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { defineTool, type ToolContext } from '@holdfast/tools';
import { z } from 'zod';

const journal = process.env['HOLDFAST_EXAMPLES_LOG'];

/** Appends `start <tool> <run id> <attempt>` or `end …` to the file named by HOLDFAST_EXAMPLES_LOG. */
async function note(what: 'start' | 'end', tool: string, { runId, attempt }: ToolContext): Promise<void> {
  if (journal !== undefined) await appendFile(journal, `${what} ${tool} ${runId} ${attempt}\n`);
}

export const lookupOrder = defineTool({
  name: 'lookup_order',
  description: "Look up an order's status.",
  input: { order_id: z.string().describe('for example o-17') },
  readOnly: true,
  async run({ order_id }, ctx) {
    await note('start', 'lookup_order', ctx);
    await note('end', 'lookup_order', ctx);
    return `${order_id}: shipped`;
  },
});

export const refundOrder = defineTool({
  name: 'refund_order',
  description: 'Refund an order.',
  input: {
    order_id: z.string().describe('for example o-17'),
    delay_ms: z
      .number()
      .int()
      .min(0)
      .max(3_600_000)
      .optional()
      .describe('duration of the refund, to try long calls'),
  },
  timeoutMs: 3_700_000,
  async run({ order_id, delay_ms = 0 }, ctx) {
    await note('start', 'refund_order', ctx);
    const stepMs = Math.max(100, delay_ms / 20);
    for (let passed = 0; passed < delay_ms; passed += stepMs) {
      ctx.progress(passed, delay_ms, `refunding ${order_id}`);
      await sleep(Math.min(stepMs, delay_ms - passed), undefined, { signal: ctx.signal });
    }
    await note('end', 'refund_order', ctx);
    return `refunded ${order_id}`;
  },
});

export const boom = defineTool({
  name: 'boom',
  description: 'Fails with the given message.',
  input: { msg: z.string() },
  async run({ msg }, ctx) {
    await note('start', 'boom', ctx);
    throw new Error(msg);
  },
});

export const gatedRefund = defineTool({
  name: 'gated_refund',
  description: 'Refund an amount; amounts over 100 need an approval.',
  input: { amount: z.number().positive() },
  requiresApproval: ({ amount }) => amount > 100,
  async run({ amount }, ctx) {
    await note('start', 'gated_refund', ctx);
    await note('end', 'gated_refund', ctx);
    return `refunded ${amount}`;
  },
});
