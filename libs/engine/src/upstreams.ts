import type { UpstreamOutcome, UpstreamRequest, UpstreamWaiter } from '@holdfast/run';

/** The way to the connector: over the network, or a function of this process. */
export interface Upstreams {
  /** Whether calls of this server can be made from here; a run for one that cannot is left to other workers. */
  canCall(server: string): boolean;

  /**
   * Has one call sent by whoever owns its server. Rejects when that failed in any way: then nobody
   * knows whether the call was sent, and only the dispatch mark tells (BEHAVIOURS X11).
   */
  call(request: UpstreamRequest, waiter: UpstreamWaiter): Promise<UpstreamOutcome>;
}
