import { Agent, request } from 'node:http';

const agent = new Agent({ keepAlive: true });

export interface RawAnswer {
  readonly status: number;
  readonly text: string;
}

/** One call of a host on 2026-07-28 over a persistent connection, with minimal work for the measuring process. */
export function rawCall(url: string, key: string, name: string, args: object): Promise<RawAnswer> {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const params = { name, arguments: args, _meta: meta };
  return new Promise((resolve, reject) => {
    const req = request(
      url,
      {
        method: 'POST',
        agent,
        headers: {
          'content-type': 'application/json',
          accept: 'application/json',
          authorization: `Bearer ${key}`,
          'mcp-protocol-version': '2026-07-28',
          'mcp-method': 'tools/call',
          'mcp-name': name,
        },
      },
      (res) => {
        let text = '';
        res.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
        res.on('error', reject).on('end', () => resolve({ status: res.statusCode!, text }));
      },
    );
    req.on('error', reject).end(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }));
  });
}
