import type { ServerResponse } from 'node:http';
import { sendJson, sendRefusal, type Accepts } from './http.js';
import { sendOnStream } from './sse.js';
import { errorMessage, type ProtocolRefusal, type RequestId } from './wire-errors.js';

/** One message as the whole answer, in the form that the host reads. */
export function sendMessage(
  res: ServerResponse,
  accepts: Accepts,
  message: string,
  headers: Record<string, string> = {},
): void {
  if (accepts.json) sendJson(res, 200, message, headers);
  else sendOnStream(res, message, headers);
}

/** A refusal as the whole answer: one of the request is a message, one of the HTTP exchange is a status. */
export function sendError(
  res: ServerResponse,
  accepts: Accepts,
  id: RequestId | null,
  refusal: ProtocolRefusal,
): void {
  if (refusal.status === 200) sendMessage(res, accepts, errorMessage(id, refusal));
  else sendRefusal(res, refusal, id);
}
