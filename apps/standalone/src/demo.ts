import { spawn, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/**
 * What Holdfast is for, to watch: a host loses its connection in the middle of a refund, then the
 * whole server is killed in the middle of another. Each time the host calls again with its token
 * and gets the one result.
 */
const folder = mkdtempSync(join(tmpdir(), 'holdfast-demo-'));
const journal = join(folder, 'journal');
const began = performance.now();

function say(text: string): void {
  process.stdout.write(`${((performance.now() - began) / 1000).toFixed(1).padStart(5)} s  ${text}\n`);
}

interface Server {
  readonly child: ChildProcess;
  readonly url: string;
}

async function start(): Promise<Server> {
  const main = fileURLToPath(new URL('./main.js', import.meta.url));
  const env = {
    ...process.env,
    HOLDFAST_AUTH: 'none',
    HOLDFAST_HOST: '127.0.0.1',
    HOLDFAST_PORT: '0',
    HOLDFAST_STORE: `sqlite:${join(folder, 'runs.db')}`,
    HOLDFAST_TOOLS: '@holdfast/orders',
    HOLDFAST_EXAMPLES_LOG: journal,
    HOLDFAST_LEASE_MS: '1000',
    HOLDFAST_LOG_LEVEL: 'silent',
  };
  const child = spawn(process.execPath, [main], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  for await (const chunk of child.stdout) {
    const url = /Holdfast serves (\S+)/.exec(String(chunk))?.[1];
    if (url !== undefined) return { child, url };
  }
  throw new Error('the server did not start');
}

/** A host on 2026-07-28 calls `refund_order` with a token. */
async function refund(url: string, orderId: string, token: string, signal?: AbortSignal): Promise<string> {
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': 'refund_order',
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: randomUUID(),
      method: 'tools/call',
      params: {
        name: 'refund_order',
        arguments: { order_id: orderId, delay_ms: 3_000 },
        _meta: {
          idempotency_key: token,
          'io.modelcontextprotocol/protocolVersion': '2026-07-28',
          'io.modelcontextprotocol/clientCapabilities': {},
        },
      },
    }),
    ...(signal && { signal }),
  });
  const text = await response.text();
  const message = /\{.*\}/.exec(text)?.[0] ?? '{}';
  const { result } = JSON.parse(message) as {
    result: {
      content: { text: string }[];
      _meta: { 'holdfast/run': { attempt: number; reattached: boolean } };
    };
  };
  const { attempt, reattached } = result._meta['holdfast/run'];
  return `"${result.content[0]!.text}" (attempt ${attempt}, ${reattached ? 're-attached' : 'first call'})`;
}

/** How often the body of the last refund began and ended. */
function bodies(): string {
  const lines = readFileSync(journal, 'utf8').trim().split('\n');
  const id = lines.at(-1)!.split(' ')[2];
  const count = (what: string): number =>
    lines.filter((line) => line.startsWith(what) && line.includes(id!)).length;
  return `the body began ${count('start')}×, completed ${count('end')}×`;
}

let server = await start();
try {
  say(`server at ${server.url}, runs in SQLite`);

  say('1. A host loses its connection');
  const first = randomUUID();
  const connection = new AbortController();
  const lost = refund(server.url, 'o-17', first, connection.signal).catch(() =>
    say('   host: connection lost, no result'),
  );
  say('   host: refund_order(o-17) with token, takes 3 s');
  await sleep(1_000);
  connection.abort();
  await lost;
  await sleep(500);
  say('   host: calls again with the same token');
  say(`   host: got ${await refund(server.url, 'o-17', first)}`);
  say(`   ${bodies()}`);

  say('2. The server is killed');
  const second = randomUUID();
  const dropped = refund(server.url, 'o-18', second).catch(() => say('   host: connection lost, no result'));
  say('   host: refund_order(o-18) with another token');
  await sleep(1_000);
  server.child.kill('SIGKILL');
  say('   server: kill -9');
  await dropped;
  server = await start();
  say('   server: started again on the same store');
  say('   host: calls again with the same token');
  say(`   host: got ${await refund(server.url, 'o-18', second)}`);
  say(`   ${bodies()}`);
} finally {
  server.child.kill('SIGTERM');
  await new Promise((resolve) => server.child.once('exit', resolve));
  rmSync(folder, { recursive: true });
}
