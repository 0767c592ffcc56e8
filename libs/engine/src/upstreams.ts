import type { Progress, UpstreamOutcome, UpstreamRequest } from '@holdfast/run';

/** The way to the connector: over the network, or a function of this process. */
export interface Upstreams {
  /**
   * Has one call sent by whoever owns its server. Rejects when that failed in any way: then nobody
   * knows whether the call was sent, and only the dispatch mark tells (BEHAVIOURS X11).
   */
  call(
    request: UpstreamRequest,
    options: { readonly signal: AbortSignal; readonly onProgress: (progress: Progress) => void },
  ): Promise<UpstreamOutcome>;
}
