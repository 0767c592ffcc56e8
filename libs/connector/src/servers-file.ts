import { watch } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { parseServers, type ServerLimits, type ServerSet } from './parse-servers.js';

const maxBytes = 16 * 1024 * 1024;
/** A file that is being written is read again after this, until it is the same twice. */
const settleMs = 100;
/** For what the system does not tell: network volumes, and a folder that was replaced. */
const pollMs = 2000;

/**
 * Reads a settings file now and after each change of its content, also when it is replaced or is a link
 * that is pointed elsewhere, as in a mounted ConfigMap. `onChange` gets the servers of the last good
 * file, and what is wrong with the newest; before the first good one there are none.
 *
 * Resolves, once `onChange` was called for the first time, to a function that ends the watch.
 */
export async function watchServersFile(
  path: string,
  limits: ServerLimits,
  onChange: (set: ServerSet) => void,
): Promise<() => void> {
  let good: ServerSet | undefined;
  let known: Content;
  /** Newer than `known`, seen once. */
  let candidate: Content | undefined;
  let settling: NodeJS.Timeout | undefined;
  let isStopped = false;

  const apply = (content: Content): void => {
    known = content;
    candidate = undefined;
    const parsed = content.text === undefined ? content.problem! : parseServers(content.text, limits);
    if (typeof parsed !== 'string') return onChange((good = parsed));
    const diagnostics = [...(good?.diagnostics ?? []), wrong(path, parsed, good !== undefined)];
    onChange({ servers: good?.servers ?? [], diagnostics });
  };
  const look = async (): Promise<void> => {
    settling = undefined;
    const content = await readContent(path);
    if (isStopped) return;
    if (isSame(content, known)) candidate = undefined;
    // Half of a file that is being written may be a whole one with fewer servers.
    else if (candidate !== undefined && isSame(content, candidate)) apply(content);
    else {
      candidate = content;
      lookSoon();
    }
  };
  const lookSoon = (): void => {
    if (!isStopped) settling ??= setTimeout(() => void look(), settleMs).unref();
  };

  apply(await readContent(path));
  const unwatch = watchFolder(dirname(path), lookSoon);
  const poll = setInterval(lookSoon, pollMs).unref();
  return () => {
    isStopped = true;
    clearTimeout(settling);
    clearInterval(poll);
    unwatch();
  };
}

/** The folder, not the file: a file that is replaced is another one. Where it cannot be watched, polling is left. */
function watchFolder(folder: string, onEvent: () => void): () => void {
  try {
    const watcher = watch(folder, { persistent: false }, onEvent);
    watcher.on('error', () => watcher.close());
    return () => watcher.close();
  } catch {
    return () => {};
  }
}

/** The text, or why there is none. */
interface Content {
  readonly text?: string;
  readonly problem?: string;
}

function isSame(one: Content, other: Content): boolean {
  return one.text === other.text && one.problem === other.problem;
}

async function readContent(path: string): Promise<Content> {
  try {
    const file = await stat(path);
    if (!file.isFile()) return { problem: 'it is no file' };
    if (file.size > maxBytes) return { problem: `it is larger than ${maxBytes} bytes` };
    return { text: (await readFile(path, 'utf8')).replace(/^\ufeff/, '') };
  } catch (error) {
    return { problem: `it cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown error'})` };
  }
}

function wrong(path: string, problem: string, hasGood: boolean): ServerSet['diagnostics'][number] {
  return {
    section: 'servers',
    rule: 'servers-file-invalid',
    origin: basename(path),
    message: `${path}: ${problem}; ${hasGood ? 'the last servers that could be read stay' : 'no servers are known until it can be read'}`,
  };
}
