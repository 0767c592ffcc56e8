/** A tool that notes what its signal tells it. */
import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { defineTool } from '@holdfast/tools';

const journal = process.env['HOLDFAST_EXAMPLES_LOG']!;

export const wait = defineTool({
  name: 'wait',
  description: 'Wait for as long as nobody says otherwise.',
  input: {},
  timeoutMs: 600_000,
  async run(_args, { runId, attempt, signal, progress }) {
    const note = (what: string): void => appendFileSync(journal, `${what} wait ${runId} ${attempt}\n`);
    note('start');
    progress(1);
    signal.addEventListener('abort', () => note('aborted'));
    await sleep(600_000, undefined, { signal });
    note('end');
    return 'waited';
  },
});
