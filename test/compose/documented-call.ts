import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A command of docs/compose.md and what its output is said to hold. */
export interface DocumentedCall {
  readonly command: string;
  readonly expected: string;
}

const page = join(import.meta.dirname, '../../docs/compose.md');

/** The calls that the page shows, in their order. */
export function documentedCalls(): DocumentedCall[] {
  const blocks = readFileSync(page, 'utf8').matchAll(/^```console\n\$ (curl [\s\S]*?)\n…(.*?)…?\n```$/gm);
  return [...blocks].map(([, command, expected]) => ({ command: command!, expected: expected! }));
}
