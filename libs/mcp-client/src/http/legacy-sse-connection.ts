import { begin, openWay, PeerConnection, type HttpConnection, type HttpOptions } from './http-connection.js';
import { initialize } from './http-handshake.js';
import { LegacySsePeer } from './legacy-sse-peer.js';

const maxEvent = 64 * 1024 * 1024;

/**
 * Connects to an MCP server by HTTP+SSE, the transport of 2024-11-05 (BEHAVIOURS X9). A connection whose
 * stream has ended is not open any more; calls that wait then are lost.
 *
 * @throws ConnectionFault
 */
export async function connectLegacySse(options: HttpOptions): Promise<HttpConnection> {
  const way = openWay(options);
  const peer = new LegacySsePeer(way.wire, way.closing);
  return begin(way, peer, options, async (handshake) => {
    const { host, guard } = way;
    const { signal } = handshake;
    await peer.open({ host, guard, maxEvent: options.maxAnswerBytes ?? maxEvent, signal });
    const agreement = await initialize(peer, handshake);
    // The session is in the endpoint that the server named.
    return new PeerConnection({ way, peer, options, agreement, hasSession: true });
  });
}
