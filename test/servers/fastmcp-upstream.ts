/** A server written with fastmcp as its users do, at `http://127.0.0.1:<port>/mcp`: `fastmcp-upstream.ts PORT`. */
import { FastMCP, UserError } from 'fastmcp';
import { z } from 'zod';

const everyByte = Buffer.from(Array.from({ length: 256 }, (_, i) => i)).toString('base64');

const server = new FastMCP({ name: 'fast', version: '1.0.0' });

server.addTool({
  name: 'add',
  description: 'Add two numbers.',
  annotations: { readOnlyHint: true },
  parameters: z.object({ a: z.number(), b: z.number() }),
  outputSchema: z.object({ sum: z.number() }),
  execute: async ({ a, b }) => ({
    content: [{ type: 'text', text: String(a + b) }],
    structuredContent: { sum: a + b },
  }),
});

server.addTool({
  name: 'bundle',
  description: 'One block of each kind.',
  annotations: { readOnlyHint: true },
  execute: async () => ({
    content: [
      { type: 'text', text: 'crème brûlée 🍮' },
      { type: 'image', data: everyByte, mimeType: 'image/png' },
      { type: 'audio', data: everyByte, mimeType: 'audio/wav' },
      { type: 'resource', resource: { uri: 'file:///r.bin', blob: everyByte, mimeType: 'application/pdf' } },
      { type: 'resource', resource: { uri: 'file:///r.txt', text: 'inside', mimeType: 'text/plain' } },
      { type: 'resource_link', uri: 'file:///there.pdf', name: 'there', mimeType: 'application/pdf' },
    ],
  }),
});

server.addTool({
  name: 'count',
  description: 'Counts, and says so.',
  annotations: { readOnlyHint: true },
  parameters: z.object({ to: z.int().min(1).max(20) }),
  execute: async ({ to }, { reportProgress }) => {
    for (let progress = 1; progress <= to; progress++) {
      await reportProgress({ progress, total: to });
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return `counted to ${to}`;
  },
});

server.addTool({
  name: 'book',
  description: 'Refuses.',
  parameters: z.object({ date: z.string() }),
  execute: async ({ date }) => {
    throw new UserError(`${date} is in the past`);
  },
});

await server.start({
  transportType: 'httpStream',
  httpStream: { host: '127.0.0.1', port: Number(process.argv[2]) },
});
