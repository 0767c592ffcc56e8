import { installed, Sandbox, type Finished } from './command.ts';

const program = installed('@modelcontextprotocol/inspector/clients/launcher/build/index.js');

/**
 * One request with the command line of the Inspector, which prints the result as JSON.
 * On a tool error it exits with 5 and reports the error on stderr.
 */
export async function inspect(
  url: string,
  headers: Record<string, string>,
  era: 'legacy' | 'modern' | 'auto',
  args: readonly string[],
): Promise<Finished> {
  const sandbox = await Sandbox.create();
  try {
    const pairs = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
    return await sandbox.run(
      program,
      [
        '--cli',
        url,
        '--transport',
        'http',
        '--protocol-era',
        era,
        ...pairs.flatMap((pair) => ['--header', pair]),
        ...args,
      ],
      { MCP_INSPECTOR_SECRET_STORE: 'memory' },
    );
  } finally {
    await sandbox.remove();
  }
}
