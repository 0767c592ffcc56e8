/**
 * An upstream MCP server on stdio that misbehaves on demand, without a library. Flags on its command line
 * determine its lifecycle; the name of a called tool determines its answer.
 *
 * Flags: `--banner=TEXT` (written first, escapes as in JSON), `--die=CODE:TEXT` (to stderr, before anything),
 * `--mute` (never answers), `--version=REVISION`, `--modern` (has no initialize), `--string-ids`,
 * `--ignore-eof`, `--deaf-after=N` (stops reading after N requests), `--once` (exits after the first
 * answered call), `--stderr=TEXT`, `--grandchild` (starts a process that outlives it), `--list=JSON` (its
 * tools, instead of only `echo`).
 */
import { spawn } from 'node:child_process';
import { closeSync } from 'node:fs';

const flags = new Map(
  process.argv.slice(2).map((flag) => {
    const [name, ...value] = flag.split('=');
    return [name, value.join('=')];
  }),
);
const tools = JSON.parse(flags.get('--list') ?? '[{"name":"echo","inputSchema":{"type":"object"}}]');
const seen = [];
let requests = 0;
let rest = Buffer.alloc(0);

if (flags.has('--die')) {
  const [code, text] = flags.get('--die').split(/:(.*)/s);
  process.stderr.write(text);
  process.exit(Number(code));
}
if (flags.has('--stderr')) process.stderr.write(flags.get('--stderr'));
if (flags.has('--banner')) process.stdout.write(JSON.parse(`"${flags.get('--banner')}"`));
if (flags.has('--ignore-eof')) setInterval(() => {}, 1000);
if (flags.has('--grandchild'))
  spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)', '--', ...process.argv.slice(2)], {
    stdio: 'ignore',
  });

process.stdin.on('data', (chunk) => {
  rest = Buffer.concat([rest, chunk]);
  for (let end; (end = rest.indexOf(10)) !== -1; rest = rest.subarray(end + 1))
    take(rest.subarray(0, end).toString());
});

function take(line) {
  const message = JSON.parse(line);
  seen.push(message);
  if (message.method === undefined || message.id === undefined) return;
  requests += 1;
  if (flags.has('--deaf-after') && requests > Number(flags.get('--deaf-after'))) {
    process.stdin.pause();
    setInterval(() => {}, 1000);
    return;
  }
  if (flags.has('--mute')) return;
  answer(message, line);
}

function answer({ id, method, params }, line) {
  const isModern = flags.has('--modern');
  if (method === 'initialize' && !isModern)
    return result(id, {
      protocolVersion: flags.get('--version') ?? params.protocolVersion,
      capabilities: { tools: { listChanged: true } },
      serverInfo: { name: 'scripted', version: '1' },
    });
  if (method === 'server/discover' && isModern)
    return result(id, {
      resultType: 'complete',
      supportedVersions: [flags.get('--version') ?? '2026-07-28'],
      capabilities: { tools: { listChanged: true } },
      _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'scripted', version: '2' } },
    });
  if (method === 'subscriptions/listen' && isModern) return;
  if (method === 'tools/list') return result(id, { tools, cursor: params?.cursor });
  if (method === 'tools/call') return call(id, params, line);
  write({ jsonrpc: '2.0', id, error: { code: -32601, message: 'no such method' } });
}

function call(id, { name, arguments: args, _meta: meta }, line) {
  switch (name) {
    // The message, and the line as received.
    case 'echo':
      result(id, { content: [], structuredContent: { args, meta, line } });
      break;
    case 'environment':
      result(id, { content: [], structuredContent: process.env });
      break;
    case 'arguments':
      result(id, { content: [], structuredContent: { argv: process.argv.slice(2), cwd: process.cwd() } });
      break;
    case 'pid':
      result(id, { content: [], structuredContent: { pid: process.pid } });
      break;
    case 'seen':
      result(id, { content: [], structuredContent: { seen } });
      break;
    case 'long': {
      // A line of exactly this many bytes, without the line feed.
      const empty = JSON.stringify({ jsonrpc: '2.0', id, result: { text: '' } }).length;
      result(id, { text: 'x'.repeat(args.bytes - empty) });
      break;
    }
    case 'line': {
      // The same as a tool result of one repeated letter.
      const answer = (text) => ({ content: [{ type: 'text', text }] });
      const empty = JSON.stringify({ jsonrpc: '2.0', id, result: answer('') }).length;
      result(id, answer(args.letter.repeat(args.bytes - empty)));
      break;
    }
    // The bytes unchanged, except for the replaced ID.
    case 'raw':
      process.stdout.write(
        Buffer.from(Buffer.from(args.base64, 'base64').toString('latin1').replaceAll('ID', id), 'latin1'),
      );
      break;
    case 'progress':
      for (const progress of args.values)
        notify('notifications/progress', { progressToken: meta.progressToken, progress });
      result(id, { content: [] });
      break;
    case 'changed':
      notify('notifications/tools/list_changed');
      result(id, { content: [] });
      break;
    case 'ask':
      write({ jsonrpc: '2.0', id: args.id, method: args.method });
      result(id, { content: [] });
      break;
    case 'fail':
      write({ jsonrpc: '2.0', id, error: { code: args.code, message: args.message } });
      break;
    case 'exit':
      process.stderr.write(args.stderr ?? '');
      process.exit(args.code);
      break;
    case 'close-stdout':
      closeSync(1);
      break;
    case 'close-stdin':
      // Closes the descriptor too, because Node keeps that of stdin open.
      process.stdin.destroy();
      closeSync(0);
      result(id, { content: [] });
      break;
    case 'silent':
      break;
  }
  if (flags.has('--once')) process.stdout.write('', () => process.exit(0));
}

function result(id, value) {
  write({ jsonrpc: '2.0', id: flags.has('--string-ids') ? String(id) : id, result: value });
}

function notify(method, params) {
  write({ jsonrpc: '2.0', method, params });
}

function write(message) {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}
