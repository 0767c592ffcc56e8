import {
  afterLostAttempt,
  messageOf,
  type CallError,
  type Log,
  type Progress,
  type Run,
  type RunEnd,
} from '@holdfast/run';
import { recordResult, type Tool, type ToolContext } from '@holdfast/tools';

/** Why an attempt is stopped from outside; the reason of its abort signal. */
export type Stop = 'lease-lost' | 'handed-back' | 'cancelled';

export interface AttemptInput {
  readonly run: Run;
  readonly tool: Tool;
  readonly log: Log;
  /** Aborts with a `Stop` as its reason. */
  readonly stop: AbortSignal;
  report(progress: Progress): void;
}

/**
 * One execution of a run: checks, then the body, under the tool's time limit. Resolves to the
 * end to record, or to undefined when the attempt was stopped and its run is no longer ours to end.
 * Never rejects: whatever a body throws is the run's failure (BEHAVIOURS 31).
 *
 * The time limit starts here, at the claim, so that waiting in the queue does not count
 * (BEHAVIOURS R9). A body that ignores its signal goes on unseen; what it returns is dropped.
 */
export async function attemptRun({
  run,
  tool,
  log,
  stop,
  report,
}: AttemptInput): Promise<RunEnd | undefined> {
  const lost = afterLostAttempt(run.tool, run.attempt, tool.onCrash);
  if (lost !== undefined) return { state: 'failed', error: lost };

  const deadline = new AbortController();
  const timer = setTimeout(
    () => deadline.abort(new DOMException('the time limit passed', 'TimeoutError')),
    tool.timeoutMs,
  );
  const signal = AbortSignal.any([deadline.signal, stop]);
  const context: ToolContext = {
    runId: run.id,
    attempt: run.attempt,
    principal: run.principal,
    signal,
    progress: (value, total, message) => {
      if (signal.aborted || !Number.isFinite(value)) return;
      report({
        value,
        ...(typeof total === 'number' && Number.isFinite(total) && { total }),
        ...(typeof message === 'string' && { message: message.toWellFormed() }),
      });
    },
    http: (input, init) =>
      fetch(input, { ...init, signal: init?.signal ? AbortSignal.any([init.signal, signal]) : signal }),
    log,
  };
  const stopped = new Promise<'stopped'>((resolve) =>
    signal.addEventListener('abort', () => resolve('stopped'), { once: true }),
  );
  const outcome = await Promise.race([execute(tool, run, context), stopped]);
  clearTimeout(timer);
  if (outcome !== 'stopped') return outcome;
  if (stop.aborted) return undefined;
  return failed({
    name: 'RunTimeout',
    message: `${run.tool} did not end within its time limit of ${tool.timeoutMs} ms${
      run.toolClass === 'write' ? '; it may have taken effect. Check before you call it again' : ''
    }`,
    outcome: run.toolClass === 'write' ? 'unknown' : 'ran',
    retryable: run.toolClass === 'read',
  });
}

async function execute(tool: Tool, run: Run, context: ToolContext): Promise<RunEnd> {
  try {
    const parsed = await tool.parse(JSON.parse(run.arguments));
    if ('problems' in parsed) {
      return failed({
        name: 'InvalidArguments',
        message: parsed.problems.join('; '),
        outcome: 'not_sent',
        retryable: false,
      });
    }
    if (tool.needsApproval(parsed.value)) {
      return failed({
        name: 'ApprovalUnavailable',
        message: `${run.tool} needs an approval for these arguments and nobody can be asked here; keep the approval in the agent that calls it`,
        outcome: 'refused',
        retryable: false,
      });
    }
    const recorded = recordResult(await tool.run(parsed.value, context));
    if ('result' in recorded) return { state: 'succeeded', result: recorded.result };
    return failed({ name: 'ToolError', message: recorded.error, outcome: 'ran', retryable: false });
  } catch (thrown) {
    return failed({
      name: 'ToolError',
      message: messageOf(thrown) || 'the tool threw an error without a message',
      outcome: 'ran',
      retryable: false,
    });
  }
}

function failed(error: CallError): RunEnd {
  return { state: 'failed', error };
}

/** What a body that has begun comes to when its worker must go before it ends (drain:zero-loss). */
export function endUnfinished(run: Run, tool: Tool): RunEnd | undefined {
  const error = afterLostAttempt(run.tool, run.attempt + 1, tool.onCrash);
  return error && { state: 'failed', error };
}
