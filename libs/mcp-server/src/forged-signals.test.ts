import { expect, test } from '@jest/globals';
import type { Signal, Store } from '@holdfast/store';
import { changed, definitions, memoryStore, openGateway, until, type TestGateway } from './test-gateway.js';

/** A gateway with a session that waits for a call and has its GET stream open, and a stranger on the store's channel. */
async function attacked(settings = {}) {
  const store = await memoryStore();
  const listeners = new Set<(signal: Signal) => void>();
  let sessionReads = 0;
  const heard = changed<Store>(store, {
    subscribe: (listener) => {
      listeners.add(listener);
      return store.subscribe(listener);
    },
    sessions: changed(store.sessions, {
      get: (...args) => {
        sessionReads++;
        return store.sessions.get(...args);
      },
    }),
  });
  const gateway = await openGateway({ store: heard, settings });
  const host = await gateway.host('legacy');
  const forge = (signal: Signal): void => listeners.forEach((listener) => listener(signal));
  return { store, gateway, host, session: host.session!, forge, sessionReads: () => sessionReads };
}

async function listening(gateway: TestGateway, session: string) {
  const stream = gateway.send({ method: 'GET', headers: { 'mcp-session-id': session } });
  await until(() => stream.received() !== '' || undefined);
  let isOver = false;
  void stream.answer.finally(() => (isOver = true));
  return { stream, isOver: () => isOver };
}

test('G68: a forged cancellation ends no wait and cancels no run', async () => {
  const { gateway, host, session, forge } = await attacked({ hostCancel: 'cancel' });
  const call = host.begin('work', {}, { id: 5, token: 'k' });
  const claim = await gateway.claim();
  for (const message of ['5', '"5"', 'mcp-cancel/v1.5', 'a.b', '', 'x'.repeat(4_000)])
    forge({ kind: 'told', id: session, message });
  await gateway.finish(claim, 'done');
  const { messages } = await call.answer;
  expect(messages.at(-1)!.result!.content).toEqual([{ type: 'text', text: 'done' }]);
});

test('G68: a cancellation that was sealed for one session ends nothing in another', async () => {
  const { store, gateway, host, session, forge } = await attacked();
  const other = await gateway.host('legacy');
  const sealed = new Promise<string>((resolve) => {
    store.subscribe((signal) => signal.kind === 'told' && resolve(signal.message));
  });
  const body = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 5 } };
  await gateway.send({ headers: { 'mcp-session-id': other.session! }, body }).answer;
  const call = host.begin('work', {}, { id: 5 });
  const claim = await gateway.claim();
  forge({ kind: 'told', id: session, message: await sealed });
  await gateway.finish(claim, 'done');
  expect((await call.answer).messages.at(-1)!.result!.content).toEqual([{ type: 'text', text: 'done' }]);
});

test('G68: a forged end of a session closes no stream of it; a real one does', async () => {
  const { store, gateway, session, forge, sessionReads } = await attacked({ keepAliveMs: 50 });
  const { stream, isOver } = await listening(gateway, session);
  const before = sessionReads();
  forge({ kind: 'session', id: session });
  await until(() => sessionReads() > before || undefined);
  const another = { ...definitions[0]!, name: 'another', digest: 'd1_another' };
  await store.tools.register('another', [another]);
  await until(() => stream.received().includes('list_changed') || isOver() || undefined);
  expect(isOver()).toBe(false);
  await store.sessions.close(session);
  await stream.answer;
});
