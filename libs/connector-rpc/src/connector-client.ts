import {
  loadPackageDefinition,
  status,
  type Client,
  type ClientReadableStream,
  type GrpcObject,
  type Metadata,
  type ServiceClientConstructor,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import {
  endSpan,
  readTraceContext,
  serverOfLease,
  startSpan,
  traceOf,
  withTrace,
  type UpstreamOutcome,
  type UpstreamRequest,
  type UpstreamWaiter,
} from '@holdfast/run';
import type { ServerOwner, Store } from '@holdfast/store';
import { callMetadata, clientCredentials, type RpcSecurity } from './credentials.js';
import {
  heartbeatMs,
  loaderOptions,
  maxMessageBytes,
  protoPackage,
  protoPath,
  readEvent,
  rpcAttributes,
  rpcMethod,
  serviceName,
  toCallMessage,
  type CallMessage,
  type EventMessage,
} from './wire.js';

export interface ConnectorClientParts {
  readonly store: Store;
  readonly security: RpcSecurity;
  /** Name in the connectors' certificates, where they are reached by address. */
  readonly tlsName?: string | undefined;
}

interface ConnectorStub extends Client {
  call(message: CallMessage, metadata: Metadata): ClientReadableStream<EventMessage>;
}

/** Who owns what is read again after this, and whenever a connector says that it is not the one. */
const ownersAgeMs = 2_000;
const silenceMs = 3 * heartbeatMs;

/** Brings calls to the connectors that own their servers, and follows the servers when they move. */
export class ConnectorClient {
  readonly #store: Store;
  readonly #security: RpcSecurity;
  readonly #tlsName: string | undefined;
  readonly #Stub: ServiceClientConstructor;
  readonly #stubs = new Map<string, ConnectorStub>();
  /** By name of the lease. */
  #owners: ReadonlyMap<string, ServerOwner> = new Map();
  #readAt = -Infinity;
  #reading: Promise<void> | undefined;

  constructor({ store, security, tlsName }: ConnectorClientParts) {
    this.#store = store;
    this.#security = security;
    this.#tlsName = tlsName;
    const described = loadPackageDefinition(loadSync(protoPath, loaderOptions));
    const scope = protoPackage.split('.').reduce((at, name) => at[name] as GrpcObject, described);
    this.#Stub = scope[serviceName] as ServiceClientConstructor;
  }

  /** Whoever owns it may be reached from everywhere. */
  canCall(): boolean {
    return true;
  }

  /** Rejects when no owner is known, or when the call to it failed in any way. */
  async call(request: UpstreamRequest, options: UpstreamWaiter): Promise<UpstreamOutcome> {
    const span = startSpan(rpcMethod, {
      kind: 'client',
      parent: readTraceContext(request.meta),
      attributes: rpcAttributes(request),
    });
    try {
      const outcome = await this.#call({ ...request, meta: withTrace(request.meta, traceOf(span)) }, options);
      span.setAttribute('holdfast.outcome', outcome.kind);
      endSpan(span);
      return outcome;
    } catch (error) {
      // A status of gRPC, or none where no connector was asked.
      const { code } = error as { readonly code?: unknown };
      endSpan(span, { errorType: typeof code === 'number' ? (status[code] ?? 'OTHER') : 'NO_ANSWER' });
      throw error;
    }
  }

  async #call(request: UpstreamRequest, { signal, onProgress }: UpstreamWaiter): Promise<UpstreamOutcome> {
    const owner = await this.#ownerOf(request.server);
    if (owner === undefined) {
      this.#readAt = -Infinity;
      throw new Error(`no connector owns ${request.server}`);
    }
    const stream = this.#stub(owner.address).call(toCallMessage(request), callMetadata(this.#security));
    const cancel = (): void => stream.cancel();
    signal.addEventListener('abort', cancel, { once: true });
    if (signal.aborted) cancel();
    const silence = setTimeout(cancel, silenceMs);
    let outcome: UpstreamOutcome | undefined;
    try {
      for await (const message of stream as AsyncIterable<EventMessage>) {
        silence.refresh();
        const event = readEvent(message);
        if (event === undefined) continue;
        if ('outcome' in event) outcome = event.outcome;
        else onProgress(event);
      }
    } catch (error) {
      // An outcome that came is the outcome, however the stream ended after it.
      if (outcome === undefined) {
        this.#readAt = -Infinity;
        throw error;
      }
    } finally {
      clearTimeout(silence);
      signal.removeEventListener('abort', cancel);
    }
    if (outcome === undefined) throw new Error('the connector ended the call without an outcome');
    return outcome;
  }

  /** One of the owners: a server that every connector may serve has several. */
  async #ownerOf(server: string): Promise<ServerOwner | undefined> {
    if (performance.now() - this.#readAt > ownersAgeMs) {
      this.#reading ??= this.#readOwners().finally(() => (this.#reading = undefined));
      await this.#reading;
    }
    const owners = [...this.#owners].filter(([lease]) => serverOfLease(lease) === server);
    return owners[Math.floor(Math.random() * owners.length)]?.[1];
  }

  async #readOwners(): Promise<void> {
    this.#owners = await this.#store.servers.owners();
    this.#readAt = performance.now();
    const addresses = new Set([...this.#owners.values()].map(({ address }) => address));
    for (const [address, stub] of this.#stubs) {
      if (addresses.has(address)) continue;
      // Calls under way go on; the channel ends with the last of them.
      stub.close();
      this.#stubs.delete(address);
    }
  }

  #stub(address: string): ConnectorStub {
    let stub = this.#stubs.get(address);
    if (stub === undefined) {
      stub = new this.#Stub(address, clientCredentials(this.#security), {
        'grpc.max_receive_message_length': maxMessageBytes,
        'grpc.max_send_message_length': maxMessageBytes,
        'grpc.initial_reconnect_backoff_ms': 100,
        'grpc.max_reconnect_backoff_ms': 1_000,
        ...(this.#tlsName !== undefined && { 'grpc.ssl_target_name_override': this.#tlsName }),
      }) as unknown as ConnectorStub;
      this.#stubs.set(address, stub);
    }
    return stub;
  }

  close(): void {
    for (const stub of this.#stubs.values()) stub.close();
    this.#stubs.clear();
  }
}
