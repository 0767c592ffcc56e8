import { status, type Metadata } from '@grpc/grpc-js';
import { Controller } from '@nestjs/common';
import { GrpcMethod, RpcException } from '@nestjs/microservices';
import { Observable } from 'rxjs';
import {
  fromCallMessage,
  heartbeatEvent,
  heartbeatMs,
  hasToken,
  outcomeEvent,
  progressEvent,
  rpcAttributes,
  rpcMethod,
  serviceName,
  type CallMessage,
  type EventMessage,
  type RpcSecurity,
} from '@holdfast/connector-rpc';
import { NotOwner, type Connector } from '@holdfast/connector';
import {
  endSpan,
  ensureError,
  readTraceContext,
  startSpan,
  traceIdOf,
  traceOf,
  withTrace,
  type Log,
} from '@holdfast/run';

/** What calls are served with. */
export class Serving {
  constructor(
    /** Undefined until the store was there once. */
    readonly connector: () => Connector | undefined,
    readonly security: RpcSecurity,
    readonly log: Log,
  ) {}
}

@Controller()
export class CallsController {
  readonly #serving: Serving;

  constructor(serving: Serving) {
    this.#serving = serving;
  }

  /** Progress, then the outcome. A worker that goes away gives its call up. */
  @GrpcMethod(serviceName, 'Call')
  call(message: CallMessage, metadata: Metadata): Observable<EventMessage> {
    const { connector, security, log } = this.#serving;
    return new Observable((events) => {
      if (!hasToken(security, metadata))
        return void events.error(
          refusal(
            status.UNAUTHENTICATED,
            'the token is not the one of this connector; give both services one HOLDFAST_CONNECTOR_TOKEN',
          ),
        );
      const gone = new AbortController();
      const ready = connector();
      if (ready === undefined)
        return void events.error(
          refusal(
            status.UNAVAILABLE,
            'this connector has not reached its store yet; it tries again by itself',
          ),
        );
      const request = fromCallMessage(message);
      const span = startSpan(rpcMethod, {
        kind: 'server',
        parent: readTraceContext(request.meta),
        attributes: rpcAttributes(request),
      });
      const trace = traceOf(span);
      const fields = { server: request.server, runId: request.runId, traceId: traceIdOf(trace) };
      ready
        .call(
          { ...request, meta: withTrace(request.meta, trace) },
          {
            signal: gone.signal,
            onProgress: (progress) => events.next(progressEvent(progress)),
          },
        )
        .then(
          (outcome) => {
            log.debug({ ...fields, outcome: outcome.kind }, 'call over');
            span.setAttribute('holdfast.outcome', outcome.kind);
            endSpan(span);
            events.next(outcomeEvent(outcome));
            events.complete();
          },
          (error: unknown) => {
            const isElsewhere = error instanceof NotOwner;
            endSpan(span, { errorType: isElsewhere ? 'FAILED_PRECONDITION' : 'INTERNAL' });
            if (isElsewhere) return events.error(refusal(status.FAILED_PRECONDITION, error.message));
            log.error({ ...fields, err: ensureError(error) }, 'call failed');
            events.error(refusal(status.INTERNAL, 'internal error'));
          },
        );
      const heartbeat = setInterval(() => events.next(heartbeatEvent), heartbeatMs);
      return () => {
        clearInterval(heartbeat);
        gone.abort();
      };
    });
  }
}

function refusal(code: status, message: string): RpcException {
  return new RpcException({ code, message });
}
