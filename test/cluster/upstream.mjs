/** An upstream server on port 8000 with one read tool; it numbers its calls. Plain JavaScript. */
import { createServer } from 'node:http';

let count = 0;
const tool = {
  name: 'number',
  description: 'Number an order.',
  inputSchema: { type: 'object', properties: { order_id: { type: 'string' } }, required: ['order_id'] },
  annotations: { readOnlyHint: true },
};
const methods = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: 'numbers', version: '1' },
  }),
  'tools/list': () => ({ tools: [tool] }),
  'tools/call': (params) => ({
    content: [{ type: 'text', text: `${params.arguments.order_id} is ${++count}` }],
  }),
  ping: () => ({}),
};

createServer(async (request, response) => {
  if (request.method !== 'POST') return response.writeHead(405).end();
  let body = '';
  for await (const chunk of request) body += chunk;
  const { id, method, params } = JSON.parse(body);
  if (id === undefined) return response.writeHead(202).end();
  const answer =
    method in methods
      ? { result: methods[method](params) }
      : { error: { code: -32601, message: `unknown method ${method}` } };
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ jsonrpc: '2.0', id, ...answer }));
}).listen(8000);

process.on('SIGTERM', () => process.exit());
