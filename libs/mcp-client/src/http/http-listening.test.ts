import { createServer } from 'node:net';
import { describe, expect, test } from '@jest/globals';
import { ScriptableUpstream } from '../../../../test/servers/index.js';
import { afterTest } from '../../../../test/support/after-test.ts';
import { until } from '../../../../test/support/until.ts';
import { connect, startUpstream } from './test-http.js';

/** Resets this many connections to `port`. */
async function resetConnections(port: number, wanted: number): Promise<void> {
  const done = Promise.withResolvers<void>();
  let count = 0;
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.resetAndDestroy();
    if (++count === wanted) done.resolve();
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  await done.promise;
  await new Promise((resolve) => server.close(resolve));
}

describe.each(['legacy', 'modern'] as const)('a %s server', (era) => {
  test('G11: that was away for many tries is listened to again', async () => {
    const upstream = await startUpstream({ era, sessions: false });
    const { port, url } = upstream;
    const connection = await connect(url, { listenBackoffMs: 2 });
    let changes = 0;
    connection.onToolsChanged(() => (changes += 1));
    await until(() => upstream.listeners === 1);
    await upstream.close();
    await resetConnections(port, 6);
    const again = await ScriptableUpstream.start({ port, script: { era, sessions: false } });
    afterTest(() => again.close());
    await until(() => again.listeners === 1);
    // Its tools may have changed meanwhile.
    await until(() => changes === 1);
    again.toolsChanged();
    await until(() => changes === 2);
  });

  test.each([404, 429, 500, 502, 503, 504])(
    'G11: that answered %i for a while is listened to again',
    async (status) => {
      const upstream = await startUpstream({ era, sessions: false });
      const connection = await connect(upstream.url, { listenBackoffMs: 2 });
      let changes = 0;
      connection.onToolsChanged(() => (changes += 1));
      await until(() => upstream.listeners === 1);
      const on = era === 'modern' ? 'subscriptions/listen' : 'GET';
      upstream.faults.push({ on, times: 5, do: { kind: 'status', status } });
      upstream.endStreams();
      await until(() => upstream.faults.length === 0 && upstream.listeners === 1);
      await until(() => changes === 1);
    },
  );
});

test.each([404, 400])(
  'G11: a restarted server that answers %i to the old session is connected anew',
  async (status) => {
    const upstream = await startUpstream({ era: 'legacy' });
    const connection = await connect(upstream.url, { listenBackoffMs: 2 });
    let changes = 0;
    connection.onToolsChanged(() => (changes += 1));
    await until(() => upstream.listeners === 1);
    upstream.forgetSessions();
    if (status === 400) upstream.faults.push({ on: 'GET', do: { kind: 'status', status } });
    upstream.endStreams();
    await until(() => changes === 1);
    expect(connection.isOpen).toBe(false);
  },
);
