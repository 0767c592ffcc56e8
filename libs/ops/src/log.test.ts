import { describe, expect, test } from '@jest/globals';
import { createLogger, type LogLevel } from './log.js';

function capture(level: LogLevel = 'debug') {
  const lines: string[] = [];
  const log = createLogger({ level, name: 'worker', destination: { write: (line) => lines.push(line) } });
  return { log, lines, events: () => lines.map((line) => JSON.parse(line) as Record<string, unknown>) };
}

function written(fields: object): Record<string, unknown> {
  const { log, events } = capture();
  log.info(fields, 'event');
  return events()[0] ?? {};
}

test('an event is one line of JSON with level, time, service, fields and message', () => {
  const { log, lines } = capture();
  log.info({ runId: 'r0_1', attempt: 2, text: 'two\nlines' }, 'attempt finished');
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatch(/^[^\n]+\n$/);
  expect(JSON.parse(lines[0] ?? '')).toEqual({
    level: 'info',
    time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    service: 'worker',
    pid: process.pid,
    runId: 'r0_1',
    attempt: 2,
    text: 'two\nlines',
    msg: 'attempt finished',
  });
});

test('events below the level are not written', () => {
  const { log, events } = capture('warn');
  log.debug({}, 'd');
  log.info({}, 'i');
  log.warn({}, 'w');
  log.error({}, 'e');
  expect(events().map(({ level, msg }) => [level, msg])).toEqual([
    ['warn', 'w'],
    ['error', 'e'],
  ]);
  const silent = capture('silent');
  silent.log.error({}, 'e');
  expect(silent.lines).toEqual([]);
});

test('a child adds its fields to each event', () => {
  const { log, events } = capture();
  log.child({ runId: 'r0_1', token: 'hunter2' }).child({ attempt: 1 }).warn({ server: 's' }, 'm');
  expect(events()[0]).toMatchObject({ runId: 'r0_1', token: '[hidden]', attempt: 1, server: 's', msg: 'm' });
});

describe('errors', () => {
  test('keep type, message, code, stack and cause, and none of their own fields', () => {
    class DatabaseError extends Error {
      override readonly name = 'DatabaseError';
      readonly code = '23505';
      readonly detail = 'Key (token)=(hunter2) exists';
      readonly parameters = ['hunter2'];
      readonly connectionString = 'postgres://u:hunter2@db/x';
      readonly password = 'hunter2';
      readonly query = { values: ['hunter2'] };
    }
    const err = new DatabaseError('insert failed', { cause: new TypeError('inner') });
    const event = written({ err });
    expect(event.err).toEqual({
      type: 'DatabaseError',
      message: 'insert failed',
      code: '23505',
      stack: expect.stringContaining('log.test.ts'),
      cause: { type: 'TypeError', message: 'inner', stack: expect.stringContaining('TypeError: inner') },
    });
    expect(JSON.stringify(event)).not.toContain('hunter2');
  });

  test('are reduced wherever they stand', () => {
    const failure = Object.assign(new Error('m'), { password: 'hunter2' });
    const event = written({
      reason: failure,
      results: [{ reason: failure }],
      map: new Map([['a', failure]]),
    });
    expect(JSON.stringify(event)).not.toContain('hunter2');
    expect(event).toMatchObject({ reason: { message: 'm' }, results: [{ reason: { message: 'm' } }] });
  });

  test('have URLs masked in message, stack and causes', () => {
    const text = 'connect postgres://u:hunter2@db:5432/x failed';
    const event = written({ err: new Error(text, { cause: new Error(text) }), other: text });
    expect(JSON.stringify(event)).not.toContain('hunter2');
    expect(event).toMatchObject({
      err: { message: 'connect postgres://***@db:5432/x failed' },
      other: 'connect postgres://***@db:5432/x failed',
    });
  });

  test('of many parts list them: a refused connection has no message of its own', () => {
    const err = new AggregateError([new Error('connect ECONNREFUSED ::1:5432'), new Error('and 127.0.0.1')]);
    expect(written({ err })).toMatchObject({
      err: {
        type: 'AggregateError',
        errors: [{ message: 'connect ECONNREFUSED ::1:5432' }, { message: 'and 127.0.0.1' }],
      },
    });
  });

  test('in place of fields go under err', () => {
    expect(written(Object.assign(new Error('m'), { password: 'hunter2' }))).toMatchObject({
      err: { message: 'm' },
      msg: 'event',
    });
  });

  test('that are no errors are written as they are', () => {
    expect(written({ err: 'postgres://u:hunter2@db' })).toMatchObject({ err: 'postgres://***@db' });
  });
});

describe('credentials', () => {
  test('are hidden by name at any depth, in any case', () => {
    const event = written({
      Authorization: 'hunter2',
      headers: { 'X-Api-Key': 'hunter2', cookie: 'hunter2', 'Set-Cookie': ['hunter2'], accept: '*/*' },
      a: { b: [{ idempotency_key: 'hunter2', claimToken: 'hunter2', HOLDFAST_API_KEYS: { a: 'hunter2' } }] },
      store: { connectionString: 'hunter2', client_secret: 'hunter2', key: new Uint8Array(32) },
      arguments: { amount: 'hunter2' },
    });
    expect(JSON.stringify(event)).not.toContain('hunter2');
    expect(event).toMatchObject({
      Authorization: '[hidden]',
      headers: { 'X-Api-Key': '[hidden]', accept: '*/*' },
      store: { key: '[hidden]' },
    });
  });

  test('leave a trace of whether there was one', () => {
    expect(written({ token: true, password: null })).toMatchObject({ token: true, password: null });
  });

  test('are masked in messages', () => {
    const { log, lines } = capture();
    log.warn({}, 'cannot reach redis://:hunter2@cache');
    expect(lines[0]).toContain('redis://***@cache');
  });

  test('do not pass as bytes, maps or URLs', () => {
    expect(
      written({
        bytes: Buffer.from('hunter2'),
        url: new URL('https://u:hunter2@h/'),
        map: new Map([['secret', 'x']]),
      }),
    ).toMatchObject({ bytes: '[7 bytes]', url: 'https://***@h/', map: { secret: '[hidden]' } });
  });
});

test('nothing a field holds makes logging throw', () => {
  const cyclic: Record<string, unknown> = {};
  cyclic.self = cyclic;
  const hostile = {
    get field(): never {
      throw new Error('no');
    },
  };
  const event = written({
    cyclic,
    hostile,
    big: 10n,
    fn: () => 1,
    when: new Date(0),
    list: Array(1000).fill(1),
  });
  expect(event).toMatchObject({
    hostile: '[unreadable]',
    big: '10',
    fn: '[function]',
    when: '1970-01-01T00:00:00.000Z',
    msg: 'event',
  });
  expect(event.list).toHaveLength(100);
  expect(JSON.stringify(event.cyclic)).toMatch(/^(\{"self":){5}.*\[deep\]/);
});
