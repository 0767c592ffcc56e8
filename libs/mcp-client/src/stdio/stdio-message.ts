import { TextDecoder } from 'node:util';
import { ourId, readMessages, type RpcMessage } from '../json-rpc.js';

type AnswerMessage = Extract<RpcMessage, { kind: 'answer' }>;

const noise: RpcMessage = { kind: 'noise' };
const strict = new TextDecoder('utf-8', { fatal: true });
const loose = new TextDecoder('utf-8');

/**
 * Reads one line of an upstream over stdio: a message, or several in a batch. What is no JSON is noise. Of a
 * line that is not valid UTF-8 only answers count, as broken ones, so that no text is changed silently (F49).
 */
export function readLine(line: Buffer): readonly RpcMessage[] {
  const text = decode(line);
  // Told before parsing, so that an empty line costs nothing.
  if (text?.trim() === '') return [];
  try {
    const messages = readMessages(text ?? loose.decode(line));
    if (text !== undefined) return messages;
    return messages.map((message) =>
      message.kind === 'answer' ? brokenAnswer(message.id, 'its answer is not valid UTF-8') : noise,
    );
  } catch {
    return [noise];
  }
}

/** What is known of a line that is too long to be kept: whose answer it was, where one of its ends tells. */
export function readTooLong(head: Buffer, tail: Buffer, maxBytes: number): RpcMessage {
  // The first member, or the last one of the outermost object: never one inside the result.
  const found =
    /^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*("?)(\d{1,15})\1\s*,/.exec(
      head.toString('latin1'),
    ) ?? /,\s*"id"\s*:\s*("?)(\d{1,15})\1\s*\}\s*$/.exec(tail.toString('latin1'));
  const id = ourId(found?.[2]);
  if (id === undefined) return noise;
  return brokenAnswer(id, `its answer is longer than ${maxBytes} bytes`);
}

function brokenAnswer(id: AnswerMessage['id'], reason: string): AnswerMessage {
  return { kind: 'answer', id, answer: { kind: 'broken', reason } };
}

/** Undefined when it is not valid UTF-8. */
function decode(bytes: Buffer): string | undefined {
  try {
    return strict.decode(bytes);
  } catch {
    return undefined;
  }
}
