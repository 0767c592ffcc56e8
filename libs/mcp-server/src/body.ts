import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate, inflateRaw } from 'node:zlib';
import { codes } from '@holdfast/protocol';
import { badRequest, headerOf } from './http.js';
import type { Limits } from './limits.js';
import { parseMessage } from './message.js';
import { ProtocolRefusal } from './wire-errors.js';

/**
 * How much beyond the limit is still read, and dropped, before a body is refused. A connection that is closed
 * with bytes unread is reset, and the refusal can be lost with it: HAProxy 2.6 then ended the host's connection
 * without an answer.
 */
const droppedBytes = 64 * 1024 * 1024;

type Decode = (body: Buffer, options: { readonly maxOutputLength: number }) => Promise<Buffer>;

/** How a body may be compressed (RFC 9110 §8.4.1). Some hosts send deflate without the wrapper of zlib. */
const decoders: ReadonlyMap<string, Decode> = new Map<string, Decode>([
  ['gzip', promisify(gunzip)],
  ['x-gzip', promisify(gunzip)],
  ['deflate', (body, options) => promisify((body[0]! & 0x0f) === 8 ? inflate : inflateRaw)(body, options)],
  ['br', promisify(brotliDecompress)],
]);

export interface BodyRules {
  readonly maxBytes: number;
  readonly limits: Limits;
  /** Takes the memory that the request needs; throws where there is none. */
  readonly reserve: (bytes: number) => void;
}

/**
 * The JSON of a POST. A compressed body is bounded by what it holds once decompressed.
 *
 * @throws ProtocolRefusal 415 for another type or coding, 413 past `maxBytes` or for too many values, 429 where
 *   there is no room for it, 400 for what is no JSON text in UTF-8. A host that goes away while it sends makes it
 *   throw the stream's own error.
 */
export async function readJson(
  req: IncomingMessage,
  { maxBytes, limits, reserve }: BodyRules,
): Promise<unknown> {
  const type = headerOf(req, 'content-type')?.split(';', 1)[0]!.trim().toLowerCase();
  if (type !== 'application/json') throw badRequest('Content-Type must be application/json', 415);
  const coding = headerOf(req, 'content-encoding')?.trim().toLowerCase() ?? '';
  const decode = decoders.get(coding);
  if (decode === undefined && coding !== '' && coding !== 'identity')
    throw badRequest('Content-Encoding must be gzip, deflate, br or absent', 415);
  const tooLarge = (): ProtocolRefusal =>
    limits.refusal('body_bytes', `the request is larger than ${maxBytes} bytes`, {
      status: 413,
      setting: 'HOLDFAST_MAX_BODY_BYTES',
    });
  const sent = await readBytes(req, maxBytes, tooLarge, reserve);
  const body = decode === undefined ? sent : await decompress(decode, sent, maxBytes, tooLarge);
  if (body !== sent) reserve(body.length);
  if (!isUtf8(body))
    throw new ProtocolRefusal(codes.parseError, 'the message is not valid UTF-8', { status: 400 });
  return parseMessage(body.toString(), limits, reserve);
}

/** The bytes of a body. One that is refused is read to its end first, as far as that is not too far. */
async function readBytes(
  req: IncomingMessage,
  maxBytes: number,
  tooLarge: () => ProtocolRefusal,
  reserve: (bytes: number) => void,
): Promise<Buffer> {
  const said = Number(headerOf(req, 'content-length'));
  if (said > maxBytes + droppedBytes) throw tooLarge();
  const chunks: Buffer[] = [];
  let bytes = 0;
  let refusal: { readonly error: unknown } | undefined = said > maxBytes ? { error: tooLarge() } : undefined;
  for await (const chunk of req as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBytes + droppedBytes) throw refusal?.error ?? tooLarge();
    if (refusal !== undefined) continue;
    try {
      if (bytes > maxBytes) throw tooLarge();
      reserve(chunk.length);
      chunks.push(chunk);
    } catch (error) {
      refusal = { error };
      chunks.length = 0;
    }
  }
  if (refusal !== undefined) throw refusal.error;
  return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
}

async function decompress(
  decode: Decode,
  body: Buffer,
  maxBytes: number,
  tooLarge: () => ProtocolRefusal,
): Promise<Buffer> {
  try {
    return await decode(body, { maxOutputLength: maxBytes });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge();
    throw badRequest('the body is not what its Content-Encoding says');
  }
}
