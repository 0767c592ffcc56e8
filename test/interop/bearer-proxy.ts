import { request, createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * A proxy in front of a gateway that adds the bearer token, for clients that cannot send one.
 * Everything else passes unchanged: Host and Origin (the suite forges both), bodies and streams unbuffered.
 * The end of either side ends the other.
 */
export async function startBearerProxy(target: { host: string; port: number }, bearer: string) {
  const server = createServer((incoming, answer) => {
    const onward = request({
      ...target,
      method: incoming.method,
      path: incoming.url,
      headers: { ...incoming.headers, authorization: `Bearer ${bearer}` },
      setHost: false,
    });
    onward.on('response', (response) => {
      answer.writeHead(response.statusCode ?? 502, response.rawHeaders);
      answer.flushHeaders();
      response.pipe(answer);
      response.on('error', () => answer.destroy());
    });
    onward.on('error', (error) => {
      if (answer.headersSent) answer.destroy();
      else answer.writeHead(502, { 'content-type': 'text/plain' }).end(error.message);
    });
    answer.on('close', () => onward.destroy());
    incoming.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return { port, close: () => closeNow(server) };
}

function closeNow(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
