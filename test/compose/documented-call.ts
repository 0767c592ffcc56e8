import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A command of docs/compose.md and the documented part of its output. */
export interface DocumentedCall {
  readonly command: string;
  readonly expected: string;
}

const page = join(import.meta.dirname, '../../docs/compose.md');

/** The calls of the page, in order. */
export function documentedCalls(): DocumentedCall[] {
  const blocks = readFileSync(page, 'utf8').matchAll(/^```console\n\$ (curl [\s\S]*?)\n…(.*?)…?\n```$/gm);
  return [...blocks].map(([, command, expected]) => ({ command: command!, expected: expected! }));
}
