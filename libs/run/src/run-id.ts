import { createHash, createHmac, randomBytes } from 'node:crypto';
import type { Principal } from './principal.js';

declare const runId: unique symbol;

/**
 * The identity of a run. `r1_` + 64 hex digits if derived from a token, so that
 * the same caller, tool and token always find the same run; `r0_` + a UUIDv7 if the
 * call carried none, so that it never finds another run (BEHAVIOURS R5).
 */
export type RunId = string & { readonly [runId]: true };

export function isRunId(value: string): value is RunId {
  return /^(r1_[0-9a-f]{64}|r0_[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})$/.test(
    value,
  );
}

/**
 * The id of the run that a token names. It contains only a keyed hash of the caller, because
 * a bare hash of a user name can be guessed.
 *
 * @param key       32 bytes; another key produces other ids, so old keys are kept for look-up
 * @param principal null is the scope that all anonymous callers share
 * @param workflow  prefix and tool name, for example `mcp:tool:refund_order`
 */
export function tokenRunId(
  key: Uint8Array,
  principal: Principal | null,
  workflow: string,
  token: string,
): RunId {
  const hash = createHash('sha256').update(frame('mcp-run/v1'));
  if (principal === null) hash.update(Uint8Array.of(0));
  else {
    hash.update(Uint8Array.of(1)).update(
      createHmac('sha256', key)
        .update(Buffer.concat([frame('mcp-id/v1'), frame(principal.realm), frame(principal.id)]))
        .digest(),
    );
  }
  return `r1_${hash.update(frame(workflow)).update(frame(token)).digest('hex')}` as RunId;
}

/** A unique run id for a call without a token: `r0_` + UUIDv7, so ids sort by time. */
export function freshRunId(nowMs: number, random: Uint8Array = randomBytes(10)): RunId {
  const bytes = Buffer.alloc(16);
  bytes.writeUIntBE(nowMs, 0, 6);
  bytes.set(random.subarray(0, 10), 6);
  bytes[6] = (bytes[6]! & 0x0f) | 0x70;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = bytes.toString('hex');
  return `r0_${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}` as RunId;
}

/** 4-byte big-endian length, then the UTF-8 bytes: different lists of strings produce different frames. */
function frame(text: string): Buffer {
  const bytes = Buffer.from(text, 'utf8');
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}
