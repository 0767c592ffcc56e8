import { describe, expect, test } from '@jest/globals';
import { EventEmitter } from 'node:events';
import { crashOnUnhandled, runUntilSignal } from './shutdown.js';

class FakeProcess extends EventEmitter {
  readonly exits: number[] = [];
  exit(code: number): void {
    this.exits.push(code);
  }
}

function setup(stop: () => Promise<void>, graceMs = 60_000) {
  const lines: [message: string, fields: object][] = [];
  const write = (fields: object, message: string) => void lines.push([message, fields]);
  const process = new FakeProcess();
  const running = runUntilSignal({ stop, log: { info: write, error: write }, graceMs, process });
  return { process, running, lines };
}

describe.each(['SIGTERM', 'SIGINT'])('%s', (signal) => {
  test('stops once and exits with 0', async () => {
    const calls: string[] = [];
    const { process, running, lines } = setup(async () => void calls.push('stop'));
    expect(calls).toEqual([]);
    process.emit(signal);
    expect(await running.stopped).toBe(0);
    expect(calls).toEqual(['stop']);
    expect(process.exits).toEqual([0]);
    expect(lines).toEqual([
      ['stopping', { reason: signal }],
      ['stopped', { code: 0 }],
    ]);
  });
});

test('a second signal is harmless, during the stop and after it', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  let calls = 0;
  const { process, running } = setup(() => {
    calls += 1;
    return promise;
  });
  process.emit('SIGTERM');
  process.emit('SIGTERM');
  process.emit('SIGINT');
  running.requestStop('stdin closed');
  expect(process.exits).toEqual([]);
  resolve();
  expect(await running.stopped).toBe(0);
  process.emit('SIGTERM');
  expect(calls).toBe(1);
  expect(process.exits).toEqual([0]);
});

test('a stop from inside takes the same way', async () => {
  const { process, running, lines } = setup(async () => {});
  running.requestStop('stdin closed');
  expect(await running.stopped).toBe(0);
  expect(process.exits).toEqual([0]);
  expect(lines[0]).toEqual(['stopping', { reason: 'stdin closed' }]);
});

test('a stop that fails, at once or later, exits with 1 and says why', async () => {
  const err = new Error('port in use');
  const failing = [
    () => Promise.reject(err),
    () => {
      throw err;
    },
  ];
  for (const stop of failing) {
    const { process, running, lines } = setup(stop);
    process.emit('SIGTERM');
    expect(await running.stopped).toBe(1);
    expect(process.exits).toEqual([1]);
    expect(lines).toContainEqual(['stop failed', { err }]);
  }
});

test('a stop that outlives its grace exits with 1 and says so', async () => {
  const { process, running, lines } = setup(() => new Promise(() => {}), 5);
  process.emit('SIGTERM');
  expect(await running.stopped).toBe(1);
  expect(process.exits).toEqual([1]);
  expect(lines).toContainEqual(['stop took longer than its grace', { graceMs: 5 }]);
});

describe('what nobody handles', () => {
  test.each([
    ['unhandledRejection', 'unhandled rejection'],
    ['uncaughtException', 'uncaught exception'],
  ])('%s is logged and ends the process', (event, message) => {
    const lines: [string, object][] = [];
    const process = new FakeProcess();
    crashOnUnhandled({ log: { error: (fields, text) => void lines.push([text, fields]) }, process });
    const err = new Error('boom');
    process.emit(event, err);
    expect(lines).toEqual([[message, { err }]]);
    expect(process.exits).toEqual([1]);
  });

  test('ends the process even when logging fails', () => {
    const process = new FakeProcess();
    const error = () => {
      throw new Error('disk full');
    };
    crashOnUnhandled({ log: { error }, process });
    expect(() => process.emit('uncaughtException', new Error('boom'))).toThrow('disk full');
    expect(process.exits).toEqual([1]);
  });
});
