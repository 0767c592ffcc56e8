/** The tool that is called while its workers are killed: it notes each body that begins and ends, and each that ends says something else. */
import { randomUUID } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { defineTool } from '@holdfast/tools';
import { z } from 'zod';

/** The chart takes no variables of ours beside its settings. */
const journal = (process.env['JOURNAL'] ?? process.env['HOLDFAST_EXAMPLES_LOG'])!;

export const refundOrder = defineTool({
  name: 'refund_order',
  description: 'Refund an order, on a worker that may not live to tell.',
  input: { order_id: z.string(), delay_ms: z.number().int().min(0) },
  timeoutMs: 600_000,
  async run({ order_id, delay_ms }, { runId, attempt, signal }) {
    appendFileSync(journal, `start refund_order ${runId} ${attempt}\n`);
    await sleep(delay_ms, undefined, { signal });
    appendFileSync(journal, `end refund_order ${runId} ${attempt}\n`);
    return `refunded ${order_id} (${randomUUID()})`;
  },
});
