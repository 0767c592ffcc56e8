import { Client, StreamableHTTPClientTransport, type ClientOptions } from '@modelcontextprotocol/client';

type Mode = NonNullable<NonNullable<ClientOptions['versionNegotiation']>['mode']>;

/** A host on SDK v2, with one of its modes of version negotiation. */
export async function withSdkV2(
  url: string,
  headers: Record<string, string>,
  mode: Mode,
  use: (client: Client) => Promise<void>,
): Promise<void> {
  const client = new Client({ name: 'interop-sdk-v2', version: '1.0.0' }, { versionNegotiation: { mode } });
  try {
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
    await use(client);
  } finally {
    await client.close();
  }
}
