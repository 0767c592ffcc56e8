/**
 * Tools that break their own process at one step of a call, or wait there until a test lets them
 * go. They are served by real workers; the product has no hook for them.
 */
import { appendFileSync, existsSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { defineTool, type Tool, type ToolContext } from '@holdfast/tools';
import { z } from 'zod';

const journal = process.env['HOLDFAST_EXAMPLES_LOG']!;
const folder = dirname(journal);

/** `check`: claimed, the body has not begun. `body`: in its middle. `done`: it has ended and nothing is recorded. */
const step = z.enum(['check', 'body', 'done']);
const input = z.strictObject({
  order_id: z.string(),
  /** Where the first attempt kills its process. */
  dies: step.optional(),
  /** Where the first attempt stops its process, to be continued by the test. */
  freezes: step.optional(),
  /** Where every attempt waits for `release`. At `done` it blocks the event loop of its worker. */
  waits: step.optional(),
  /** From the second attempt on the body waits for `release`. */
  lingers: z.boolean().optional(),
});
type Input = z.infer<typeof input>;

/** The first time for this step and order: later attempts pass. */
function isFirst(at: Input['dies'], { order_id }: Input): boolean {
  try {
    writeFileSync(join(folder, `${at}-${order_id}`), '', { flag: 'wx' });
    return true;
  } catch {
    return false;
  }
}

function breakAt(at: Input['dies'], args: Input): void {
  if (args.dies === at && isFirst(at, args)) process.kill(process.pid, 'SIGKILL');
  if (args.freezes === at && isFirst(at, args)) process.kill(process.pid, 'SIGSTOP');
}

const isReleased = ({ order_id }: Input): boolean => existsSync(join(folder, `release-${order_id}`));

async function waitAt(at: Input['waits'], args: Input, signal?: AbortSignal): Promise<void> {
  if (args.waits !== at) return;
  writeFileSync(join(folder, `waits-${args.order_id}`), '');
  while (!isReleased(args)) await sleep(5, undefined, signal && { signal });
}

function note(what: 'start' | 'end', tool: string, { runId, attempt }: ToolContext): void {
  appendFileSync(journal, `${what} ${tool} ${runId} ${attempt}\n`);
}

function refund(name: string, onCrash: 'rerun' | 'unknown'): Tool {
  return defineTool({
    name,
    description: 'Refund an order, on a worker that may not live to tell.',
    input: input.refine(async (args) => {
      breakAt('check', args);
      await waitAt('check', args);
      return true;
    }),
    onCrash,
    async run(args, ctx) {
      note('start', name, ctx);
      ctx.log.info({ pid: process.pid }, 'body began');
      breakAt('body', args);
      await waitAt('body', args.lingers && ctx.attempt > 1 ? { ...args, waits: 'body' } : args, ctx.signal);
      note('end', name, ctx);
      const value = `refunded ${args.order_id} at attempt ${ctx.attempt}`;
      return {
        toJSON: () => {
          breakAt('done', args);
          if (args.waits === 'done') {
            writeFileSync(join(folder, `waits-${args.order_id}`), '');
            const never = new Int32Array(new SharedArrayBuffer(4));
            while (!isReleased(args)) Atomics.wait(never, 0, 0, 5);
          }
          return { content: [{ type: 'text', text: value }] };
        },
      };
    },
  });
}

export const refundAgain = refund('refund_again', 'rerun');
export const refundOnce = refund('refund_once', 'unknown');
