/** Codes of JSON-RPC errors (JSON-RPC 2.0 §5.1; MCP for -3200x, MCP 2026-07-28 for -3202x). */
export const codes = {
  parseError: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internalError: -32603,
  badRequest: -32000,
  sessionNotFound: -32001,
  headerMismatch: -32020,
  missingCapability: -32021,
  unsupportedVersion: -32022,
} as const;
