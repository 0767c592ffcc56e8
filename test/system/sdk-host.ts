import {
  Client as ModernClient,
  StreamableHTTPClientTransport as ModernTransport,
} from '@modelcontextprotocol/client';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { bearer, type Host, type ToolResult } from './host.ts';

/** A host that others wrote: SDK v1 on 2025-11-25, SDK v2 pinned to 2026-07-28. */
export interface SdkHost {
  readonly era: Host['era'];
  /** Rejects as the SDK does, when its user would see a failed call. */
  call(
    tool: string,
    args: Record<string, unknown>,
    onProgress?: (value: number) => void,
  ): Promise<ToolResult>;
  close(): Promise<void>;
}

const info = { name: 'test', version: '1' };
/** As hosts do that let long calls go on for as long as they hear of them. */
const patience = { timeout: 30_000, resetTimeoutOnProgress: true };

export async function openSdkHost(era: Host['era'], url: string, key: string): Promise<SdkHost> {
  const headers = { requestInit: { headers: bearer(key) } };
  const client =
    era === 'legacy'
      ? new Client(info)
      : new ModernClient(info, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
  if (client instanceof Client)
    await client.connect(new StreamableHTTPClientTransport(new URL(url), headers));
  else await client.connect(new ModernTransport(new URL(url), headers));
  return {
    era,
    call: async (tool, args, onProgress = () => {}) => {
      const params = { name: tool, arguments: args };
      const onprogress = ({
        progress,
        message,
      }: {
        progress: number;
        message?: string | undefined;
      }): void => {
        // SDK v2 tells of each of its rounds in the same place.
        if (message?.startsWith('Fulfilling input required') !== true) onProgress(progress);
      };
      const options = { ...patience, onprogress };
      return (client instanceof Client
        ? await client.callTool(params, undefined, options)
        : await client.callTool(params, options)) as unknown as ToolResult;
    },
    close: () => client.close(),
  };
}
