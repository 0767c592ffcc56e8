import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Catch, HttpException, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import { challengeTo } from '@holdfast/mcp-server';
import { ensureError, isOutage, type Log } from '@holdfast/run';

const names: Readonly<Record<number, string>> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  405: 'MethodNotAllowed',
  409: 'Conflict',
  503: 'Unavailable',
};

/** The one place where an error becomes HTTP outside the MCP path: `{"error":{"name","message"}}`. */
@Catch()
export class ErrorFilter implements ExceptionFilter {
  readonly #log: Log;

  constructor(log: Log) {
    this.#log = log;
  }

  catch(thrown: unknown, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    const res = http.getResponse<ServerResponse>();
    const { status, message, reference } = this.#describe(thrown, http.getRequest<IncomingMessage>());
    if (res.headersSent) return void res.end();
    const body = JSON.stringify({ error: { name: names[status] ?? 'InternalError', message } });
    res.writeHead(status, {
      'Content-Type': 'application/json',
      'Content-Length': Buffer.byteLength(body),
      ...(reference !== undefined && { 'X-Request-Id': reference }),
      ...(status === 401 && { 'WWW-Authenticate': challengeTo(http.getRequest<IncomingMessage>()) }),
    });
    res.end(body);
  }

  #describe(
    thrown: unknown,
    { method, url }: IncomingMessage,
  ): { status: number; message: string; reference?: string } {
    if (thrown instanceof HttpException && thrown.getStatus() < 500) {
      const status = thrown.getStatus();
      // The framework's own "Cannot GET /x" would echo the path.
      return {
        status,
        message:
          status === 404 && thrown.message.startsWith('Cannot ') ? 'there is nothing here' : thrown.message,
      };
    }
    const error = ensureError(thrown);
    if (thrown instanceof HttpException && thrown.getStatus() === 503)
      return { status: 503, message: thrown.message };
    const reference = randomUUID();
    const path = url?.split('?', 1)[0]!.slice(0, 256);
    this.#log.error({ reference, method, path, err: error }, 'request failed');
    return { status: isOutage(error) ? 503 : 500, message: 'internal error', reference };
  }
}
