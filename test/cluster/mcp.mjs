/** Requests to the gateway at URL, as a host on 2026-07-28 sends them. Plain JavaScript, because the image runs only these scripts. */
const { URL: url, KEY: key } = process.env;
const revision = '2026-07-28';

/** The result of one request. @throws Error if none arrived in a minute, or if an error arrived */
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

/** Waits until a tool is listed. @throws Error if it is not listed within three minutes */
export async function listed(name) {
  const deadline = Date.now() + 180_000;
  for (;;) {
    const { tools } = await ask('tools/list').catch(() => ({ tools: [] }));
    if (tools.some((tool) => tool.name === name)) return;
    if (Date.now() > deadline) throw new Error(`${name} is not listed`);
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}
