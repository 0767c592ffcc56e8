import { expect, test } from '@jest/globals';
import { freshRunId, parseJson } from '@holdfast/run';
import { Seals } from './seal.js';
import { EventIds, type StreamPosition } from './event-id.js';

const key = Buffer.alloc(32, 1);
const ids = new EventIds(new Seals([key]));
const position: StreamPosition = { runId: freshRunId(0), requestId: 7, after: 1_000_002 };

test.each<Partial<StreamPosition>>([
  {},
  { requestId: '7' },
  { requestId: 0, progressToken: 0 },
  { requestId: '', progressToken: '' },
  { requestId: parseJson('9007199254740993') as never, progressToken: parseJson('1e400') as never },
  { progressToken: 'a.b', last: 0.25 },
  { last: 2 ** 60 },
])('an id tells where its stream was: %p', (change) => {
  const there = { ...position, ...change };
  expect(ids.read('session', ids.write('session', there))).toEqual(there);
});

test('no two ids are alike, though they name one place', () => {
  expect(ids.write('session', position)).not.toBe(ids.write('session', position));
});

test('an id is one line of letters that a header can carry', () => {
  expect(ids.write('session', { ...position, requestId: 'ü\n"'.repeat(50) })).toMatch(/^[\w.-]+$/);
});

test('the id of a cancelled request says that there is nothing to take up', () => {
  expect(ids.read('session', ids.write('session', 'over'))).toBe('over');
});

test('what was not given to this session names no stream', () => {
  const id = ids.write('session', position);
  const [text = '', signature = ''] = id.split('.');
  const forged = Buffer.from(JSON.stringify(['x', position.runId, 1, null, 0, null])).toString('base64url');
  const others = ['', '.', 'x', text, `.${signature}`, `${text}.`, `${forged}.${signature}`, `${id}x`];
  for (const other of others) expect([other, ids.read('session', other)]).toEqual([other, undefined]);
  expect(ids.read('another session', id)).toBeUndefined();
  expect(new EventIds(new Seals([Buffer.alloc(32, 2)])).read('session', id)).toBeUndefined();
});

test('an id signed with the key before is good after a change of keys', () => {
  const changed = new EventIds(new Seals([Buffer.alloc(32, 2), key]));
  expect(changed.read('session', ids.write('session', position))).toEqual(position);
});
