import { ConnectionFault, type Connection, type Sent } from '@holdfast/mcp-client';
import type { SecretMask } from './secret-mask.js';

/** The connection, with everything that its server says masked. Nothing else of the connector hears a server. */
export function maskedConnection(connection: Connection, mask: SecretMask): Connection {
  const { serverInfo } = connection;
  return {
    protocolVersion: connection.protocolVersion,
    serverInfo: serverInfo && { name: mask.text(serverInfo.name), version: mask.text(serverInfo.version) },
    get isOpen() {
      return connection.isOpen;
    },
    listPage: (cursor, signal) =>
      maskingFaults(mask, async () => maskedPage(await connection.listPage(cursor, signal), mask)),
    ...(connection.renewCredentials && {
      renewCredentials: (signal: AbortSignal) =>
        maskingFaults(mask, async () => connection.renewCredentials?.(signal)),
    }),
    send: async (call, options) => {
      const onProgress: typeof options.onProgress = ({ message, ...progress }) =>
        options.onProgress({ ...progress, ...(message !== undefined && { message: mask.text(message) }) });
      return maskedSent(await connection.send(call, { ...options, onProgress }), mask);
    },
    onToolsChanged: (listener) => connection.onToolsChanged(listener),
    close: () => connection.close(),
  };
}

/** Runs what may throw a fault that quotes a server. */
export async function maskingFaults<T>(mask: SecretMask, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (thrown) {
    if (!(thrown instanceof ConnectionFault)) throw thrown;
    throw new ConnectionFault(thrown.code, mask.text(thrown.message), { cause: thrown.cause });
  }
}

function maskedSent(sent: Sent, mask: SecretMask): Sent {
  const ofError = (text: string): string => mask.text(text);
  switch (sent.kind) {
    case 'result': {
      const isError = (sent.result as { isError?: unknown } | null)?.isError === true;
      return { ...sent, result: isError ? mask.value(sent.result, ofError) : mask.value(sent.result) };
    }
    case 'error': {
      const { data } = sent;
      return {
        ...sent,
        message: mask.text(sent.message),
        ...(data !== undefined && { data: mask.value(data, ofError) }),
      };
    }
    case 'status':
      return { ...sent, ...(sent.reason !== undefined && { reason: mask.text(sent.reason) }) };
    case 'not-sent':
    case 'lost':
      return { ...sent, reason: mask.text(sent.reason) };
    case 'session-lost':
      return sent;
  }
}

/** A tool is called by its name, which stays as it is. */
function maskedPage(page: unknown, mask: SecretMask): unknown {
  const masked = mask.value(page);
  const tools = (page as { tools?: unknown } | null)?.tools;
  if (!Array.isArray(tools)) return masked;
  const { tools: maskedTools, ...rest } = masked as { tools: readonly unknown[] };
  return {
    ...rest,
    ...((page as { nextCursor?: unknown }).nextCursor !== undefined && {
      nextCursor: (page as { nextCursor?: unknown }).nextCursor,
    }),
    tools: maskedTools.map((tool, i) => {
      const name = (tools[i] as { name?: unknown } | null)?.name;
      return typeof tool === 'object' && tool !== null && typeof name === 'string' ? { ...tool, name } : tool;
    }),
  };
}
