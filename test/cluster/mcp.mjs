/** One request to the gateway at URL, as a host on 2026-07-28 makes it. Plain JavaScript, as the image runs it alone. */
const { URL: url, KEY: key } = process.env;
const revision = '2026-07-28';

/** The result. @throws Error when none came in a minute, or an error did */
export async function ask(method, params = {}) {
  const { _meta, ...rest } = params;
  const answer = await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      authorization: `Bearer ${key}`,
      'mcp-protocol-version': revision,
      'mcp-method': method,
      ...(rest.name !== undefined && { 'mcp-name': rest.name }),
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method,
      params: {
        ...rest,
        _meta: {
          ..._meta,
          'io.modelcontextprotocol/protocolVersion': revision,
          'io.modelcontextprotocol/clientCapabilities': {},
        },
      },
    }),
    signal: AbortSignal.timeout(60_000),
  });
  const text = await answer.text();
  const json = text.startsWith('{')
    ? text
    : (/^data: (.*)$/m.exec(text.slice(text.lastIndexOf('data: ')))?.[1] ?? '');
  const { result, error } = JSON.parse(json);
  if (result === undefined) throw new Error(error?.message ?? `status ${answer.status}`);
  return result;
}
