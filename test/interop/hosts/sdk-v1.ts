import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { installed, Sandbox } from './command.ts';

const info = { name: 'interop-sdk-v1', version: '1.0.0' };

/** A host on SDK v1, which does not speak 2026-07-28. */
export async function withSdkV1(
  url: string,
  headers: Record<string, string>,
  use: (client: Client) => Promise<void>,
): Promise<void> {
  const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
  await connected(transport, async (client) => {
    await use(client);
    await transport.terminateSession();
  });
}

/** The same host on stdio, connected to the URL by `mcp-remote`. */
export async function withMcpRemote(
  url: string,
  headers: Record<string, string>,
  use: (client: Client) => Promise<void>,
): Promise<void> {
  const sandbox = await Sandbox.create();
  try {
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: [
        installed('mcp-remote/dist/proxy.js'),
        url,
        '--transport',
        'http-only',
        ...Object.entries(headers).flatMap(([name, value]) => ['--header', `${name}: ${value}`]),
      ],
      env: sandbox.environment({ MCP_REMOTE_CONFIG_DIR: sandbox.home }),
      stderr: 'ignore',
    });
    await connected(transport, use);
  } finally {
    await sandbox.remove();
  }
}

async function connected(transport: Transport, use: (client: Client) => Promise<void>): Promise<void> {
  const client = new Client(info);
  try {
    await client.connect(transport);
    await use(client);
  } finally {
    await client.close();
  }
}
