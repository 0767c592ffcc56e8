import assert from 'node:assert/strict';
import { installed, Sandbox, type Finished } from './command.ts';

// Finds the native program, even if install scripts are disabled.
const program = installed('@anthropic-ai/claude-code/cli-wrapper.cjs');

/**
 * Runs a `claude mcp add …` command line in an empty home and returns the result of the health check
 * of `claude mcp list`. (`mcp list` exits with 0 even if a server is unreachable.)
 */
export async function addAndList(commandLine: string): Promise<string> {
  const [command, ...args] = splitCommand(commandLine);
  assert.equal(command, 'claude');
  const sandbox = await Sandbox.create();
  try {
    const claude = (rest: readonly string[]): Promise<Finished> =>
      sandbox.run(program, rest, { CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', DISABLE_AUTOUPDATER: '1' });
    const added = await claude(args);
    assert.equal(added.code, 0, added.output);
    const listed = await claude(['mcp', 'list']);
    assert.equal(listed.code, 0, listed.output);
    return listed.output;
  } finally {
    await sandbox.remove();
  }
}

/** The words of a command line; double quotes keep spaces, as in a shell. */
function splitCommand(line: string): string[] {
  return [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
}
