import { expect, test } from '@jest/globals';
import { createHealth } from './health.js';

const ready = { ok: true, failing: [] };

test('a process is ready once each condition was met', () => {
  const health = createHealth({ store: 'the store was not reached yet' });
  const migrations = health.condition('migrations');
  expect(health.ready()).toEqual({
    ok: false,
    failing: [
      { name: 'store', reason: 'the store was not reached yet' },
      { name: 'migrations', reason: 'not yet' },
    ],
  });
  health.condition('store').met();
  expect(health.ready()).toEqual({ ok: false, failing: [{ name: 'migrations', reason: 'not yet' }] });
  migrations.met();
  expect(health.ready()).toEqual(ready);
});

test('a condition that was met stays met: an outage takes no replica out', () => {
  const health = createHealth();
  const store = health.condition('store');
  store.met();
  store.waiting('connection refused');
  health.condition('store').waiting('connection refused');
  expect(health.ready()).toEqual(ready);
});

test('the reason tells why, without credentials', () => {
  const health = createHealth();
  health.condition('store').waiting('no answer from postgres://u:hunter2@db');
  expect(health.ready().failing).toEqual([{ name: 'store', reason: 'no answer from postgres://***@db' }]);
});

test('a draining process is alive and not ready, for good', () => {
  const health = createHealth();
  health.condition('store').met();
  health.drain();
  health.drain();
  health.condition('store').met();
  expect(health.ready()).toEqual({
    ok: false,
    failing: [{ name: 'draining', reason: 'the process is stopping' }],
  });
  expect(health.live()).toEqual(ready);
});

test('an unready process is alive', () => {
  expect(createHealth({ store: 'not reached' }).live()).toEqual(ready);
});
