/** `npm run interop`: runs third-party hosts against the standalone app as `npm start` runs it. */
import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { addAndList } from './hosts/claude-code.ts';
import { inspect } from './hosts/inspector.ts';
import { withMcpRemote, withSdkV1 } from './hosts/sdk-v1.ts';
import { withSdkV2 } from './hosts/sdk-v2.ts';
import { Report } from './report.ts';
import { startStandalone } from './standalone.ts';

const exampleTools = ['boom', 'gated_refund', 'lookup_order', 'refund_order'];
const modern = '2026-07-28';

/** The result of a call in each SDK. */
interface CallResult {
  readonly isError?: boolean | undefined;
  readonly content?: unknown;
  readonly _meta?: Record<string, unknown> | undefined;
}

/** The part of a client that both SDKs share. */
interface Host {
  listTools(): Promise<{
    tools: readonly { name: string; annotations?: { readOnlyHint?: boolean | undefined } | undefined }[];
  }>;
  callTool(params: {
    name: string;
    arguments?: Record<string, unknown>;
    _meta?: Record<string, unknown>;
  }): Promise<CallResult>;
}

const report = new Report();
await overOpenLoopback();
await overKeys();
report.finish();

async function overOpenLoopback(): Promise<void> {
  report.heading('open on loopback, as `npm start`');
  const holdfast = await startStandalone();
  const { url } = holdfast;
  try {
    await report.check('Claude Code: the printed command line connects', async () => {
      const line = /claude mcp add .*/.exec(holdfast.printed())?.[0];
      assert.ok(line, `no "claude mcp add" line was printed:\n${holdfast.printed()}`);
      assert.ok(line.includes(url), `${line} does not name ${url}`);
      assert.match(await addAndList(line.trim()), /holdfast: .*Connected/);
    });
    await report.check('SDK v1 lists and calls', () => withSdkV1(url, {}, listAndCall));
    await report.check('SDK v1 repeats a token and gets the one run', () => withSdkV1(url, {}, repeatToken));
    await report.check('SDK v2, legacy, lists and calls', () =>
      withSdkV2(url, {}, 'legacy', async (client) => {
        assert.equal(client.getProtocolEra(), 'legacy');
        await listAndCall(client);
      }),
    );
    await report.check(`SDK v2, auto, agrees on ${modern}, lists and calls`, () =>
      withSdkV2(url, {}, 'auto', async (client) => {
        assert.equal(client.getNegotiatedProtocolVersion(), modern);
        await listAndCall(client);
      }),
    );
    await report.check(`SDK v2, pinned to ${modern}, lists and calls`, () =>
      withSdkV2(url, {}, { pin: modern }, listAndCall),
    );
    await report.check(`SDK v2, pinned to ${modern}, repeats a token and gets the one run`, () =>
      withSdkV2(url, {}, { pin: modern }, repeatToken),
    );
    for (const era of ['legacy', 'modern', 'auto'] as const) {
      await report.check(`Inspector, ${era}, lists and calls`, () => listAndCallByInspector(url, {}, era));
    }
    await report.check('mcp-remote lists and calls', () => withMcpRemote(url, {}, listAndCall));
  } finally {
    await holdfast.stop();
  }
}

async function overKeys(): Promise<void> {
  report.heading('with API keys');
  const key = randomBytes(24).toString('base64url');
  const holdfast = await startStandalone({
    HOLDFAST_AUTH: 'keys',
    HOLDFAST_API_KEYS: JSON.stringify({ desk: key }),
  });
  const { url } = holdfast;
  const headers = { Authorization: `Bearer ${key}` };
  try {
    const add = `claude mcp add --transport http holdfast ${url}`;
    await report.check('Claude Code connects with the header', async () => {
      const listed = await addAndList(`${add} --header "Authorization: Bearer ${key}"`);
      assert.match(listed, /holdfast: .*Connected/);
    });
    await report.check('Claude Code does not connect without it', async () => {
      const listed = await addAndList(add);
      assert.match(listed, /holdfast: /);
      assert.doesNotMatch(listed, /holdfast: .*Connected/);
    });
    await report.check('SDK v1 lists and calls', () => withSdkV1(url, headers, listAndCall));
    await report.check('SDK v1 is rejected without the header', () =>
      assert.rejects(withSdkV1(url, {}, listAndCall), { code: 401 }),
    );
    await report.check(`SDK v2, pinned to ${modern}, lists and calls`, () =>
      withSdkV2(url, headers, { pin: modern }, listAndCall),
    );
    for (const era of ['legacy', 'modern'] as const) {
      await report.check(`Inspector, ${era}, lists and calls`, () =>
        listAndCallByInspector(url, headers, era),
      );
    }
    await report.check('mcp-remote lists and calls', () => withMcpRemote(url, headers, listAndCall));
  } finally {
    await holdfast.stop();
  }
}

async function listAndCall(host: Host): Promise<void> {
  const { tools } = await host.listTools();
  assert.deepEqual(tools.map(({ name }) => name).sort(), exampleTools);
  assert.deepEqual(
    Object.fromEntries(tools.map(({ name, annotations }) => [name, annotations?.readOnlyHint])),
    { boom: false, gated_refund: false, lookup_order: true, refund_order: false },
  );
  const found = await host.callTool({ name: 'lookup_order', arguments: { order_id: 'o-1' } });
  assert.deepEqual([found.isError ?? false, textOf(found)], [false, 'o-1: shipped']);
  const failed = await host.callTool({ name: 'boom', arguments: { msg: 'out of stock' } });
  assert.equal(failed.isError, true);
  assert.match(textOf(failed), /out of stock/);
}

async function repeatToken(host: Host): Promise<void> {
  const call = () =>
    host.callTool({
      name: 'refund_order',
      arguments: { order_id: 'o-2' },
      _meta: { idempotency_key: token },
    });
  const token = randomUUID();
  const [first, second] = [await call(), await call()];
  assert.deepEqual([textOf(first), textOf(second)], ['refunded o-2', 'refunded o-2']);
  const runs = [first, second].map(
    (result) => result._meta?.['holdfast/run'] as { id: string; reattached: boolean },
  );
  assert.equal(runs[0]?.id, runs[1]?.id);
  assert.deepEqual(
    runs.map((run) => run.reattached),
    [false, true],
  );
}

async function listAndCallByInspector(
  url: string,
  headers: Record<string, string>,
  era: 'legacy' | 'modern' | 'auto',
): Promise<void> {
  const listed = await inspect(url, headers, era, ['--method', 'tools/list']);
  assert.equal(listed.code, 0, listed.output);
  const { tools } = JSON.parse(listed.stdout) as { tools: { name: string }[] };
  assert.deepEqual(tools.map(({ name }) => name).sort(), exampleTools);
  const call = (tool: string, argument: string) =>
    inspect(url, headers, era, ['--method', 'tools/call', '--tool-name', tool, '--tool-arg', argument]);
  const found = await call('lookup_order', 'order_id=o-1');
  assert.equal(found.code, 0, found.output);
  assert.equal(textOf(JSON.parse(found.stdout) as CallResult), 'o-1: shipped');
  const failed = await call('boom', 'msg=out of stock');
  assert.equal(failed.code, 5, failed.output);
  assert.match(failed.stdout, /out of stock/);
}

function textOf(result: CallResult): string {
  const blocks = result.content as readonly { type: string; text?: string }[];
  return blocks.map((block) => block.text ?? '').join('\n');
}
