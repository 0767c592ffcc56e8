// `helm test` runs this file in a pod. It lists tools as a host does. It reads BASE, the URL of the gateways, MCP_PATH,
// and KEYS, a folder with keys of callers if there are any. It prints no key.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const { BASE, MCP_PATH, KEYS, AUTH } = process.env;
const headers = {
  'Content-Type': 'application/json',
  Accept: 'application/json, text/event-stream',
  'MCP-Protocol-Version': '2026-07-28',
  'Mcp-Method': 'tools/list',
};
if (KEYS !== undefined) {
  const [name] = readdirSync(KEYS).filter((file) => !file.startsWith('.'));
  headers.Authorization = `Bearer ${readFileSync(join(KEYS, name), 'utf8').trim()}`;
}
const body = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/list',
  params: {
    _meta: {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': {},
    },
  },
});
const request = { method: 'POST', headers, body, signal: AbortSignal.timeout(20_000) };
const response = await fetch(new URL(MCP_PATH, BASE), request);
const text = await response.text();

if (KEYS === undefined && AUTH !== 'none') {
  if (response.status !== 401)
    throw new Error(`a caller without a credential got ${response.status}, not 401`);
  console.log('gateways answer, and reject a caller without a credential');
} else {
  if (response.status !== 200) throw new Error(`tools/list got ${response.status}`);
  const { result } = JSON.parse(text.replace(/^[^{]*/, ''));
  console.log(`gateways answer; ${result.tools.length} tools are listed`);
}
