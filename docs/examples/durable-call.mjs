import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, ProtocolError, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const url = new URL(process.env.MCP_URL ?? 'http://127.0.0.1:8000/mcp');
const headers = process.env.MCP_KEY ? { authorization: `Bearer ${process.env.MCP_KEY}` } : {};

/** Calls a tool until there is an answer. A token is made once for each call that is meant, never for a retry. */
async function callTool(name, args, token = randomUUID()) {
  for (let pauseMs = 500; ; pauseMs = Math.min(pauseMs * 2, 5_000)) {
    const client = new Client(
      { name: 'durable-call', version: '1' },
      { versionNegotiation: { mode: 'auto' } },
    );
    // On 2026-07-28 this client tells a lost stream here, and leaves the call waiting for its time limit.
    const lost = new AbortController();
    client.onerror = (error) => {
      if (client.getProtocolEra() === 'modern') lost.abort(error);
    };
    try {
      await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
      const result = await client.callTool(
        { name, arguments: args, _meta: { idempotency_key: token } },
        // Holdfast sends progress at least every 15 s, so this ends only calls that nobody serves.
        { timeout: 30_000, resetTimeoutOnProgress: true, onprogress: () => {}, signal: lost.signal },
      );
      const error = result._meta?.['holdfast/error'];
      if (error?.outcome !== 'pending' && error?.name !== 'InternalError') return result;
      console.log(`${error.name}; asking again`);
    } catch (error) {
      // A definite no, such as an unknown tool. -32603 is a fault that passes.
      if (error instanceof ProtocolError && error.code !== -32603) throw error;
      console.log(`${error.message}; asking again`);
    } finally {
      await client.close().catch(() => {});
    }
    await sleep(pauseMs);
  }
}

const result = await callTool('refund_order', { order_id: 'o-21', delay_ms: 4_000 });
console.log(result.content[0].text, result._meta['holdfast/run']);
