import { expect, test } from '@jest/globals';
import { onceEvery } from './repeated-fault.js';

function setup() {
  const lines: [level: string, fields: object, message: string][] = [];
  let now = 1_000_000;
  const log = {
    warn: (fields: object, message: string) => void lines.push(['warn', fields, message]),
    info: (fields: object, message: string) => void lines.push(['info', fields, message]),
  };
  const fault = onceEvery(log, 10_000, () => new Date(now));
  return { lines, fault, advance: (ms: number) => (now += ms) };
}

test('a repeating fault is one line per interval, with the number left out', () => {
  const { lines, fault, advance } = setup();
  fault.report({ n: 1 }, 'store is down');
  advance(9_999);
  fault.report({ n: 2 }, 'store is down');
  fault.report({ n: 3 }, 'store is down');
  advance(1);
  fault.report({ n: 4 }, 'store is down');
  advance(10_000);
  fault.report({ n: 5 }, 'store is down');
  expect(lines).toEqual([
    ['warn', { n: 1 }, 'store is down'],
    ['warn', { n: 4, suppressed: 2 }, 'store is down'],
    ['warn', { n: 5 }, 'store is down'],
  ]);
});

test('the end of a fault is reported once, and the next fault is logged at once', () => {
  const { lines, fault } = setup();
  fault.recovered({}, 'store is back');
  fault.report({}, 'store is down');
  fault.report({}, 'store is down');
  fault.recovered({}, 'store is back');
  fault.recovered({}, 'store is back');
  fault.report({}, 'store is down');
  expect(lines).toEqual([
    ['warn', {}, 'store is down'],
    ['info', { suppressed: 1 }, 'store is back'],
    ['warn', {}, 'store is down'],
  ]);
});

test('a clock set back does not silence a fault', () => {
  const { lines, fault, advance } = setup();
  fault.report({}, 'store is down');
  advance(-3_600_000);
  fault.report({}, 'store is down');
  expect(lines).toHaveLength(2);
});
