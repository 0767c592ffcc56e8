import { expect, test } from '@jest/globals';
import { judge, type Check } from './verdict.js';

const set = '2026-07-28';
const results = (...checks: Check[]) => new Map([['tools-list', checks]]);
const expected = (check: string) => [{ reason: 'because', checks: { [set]: [check] } }];

test('an expected failure is listed with its reason and is not a problem', () => {
  const [verdict] = judge(set, results({ id: 'a', status: 'FAILURE' }), expected('tools-list:a'));
  expect(verdict).toEqual({
    scenario: 'tools-list',
    passed: 0,
    expected: [{ check: 'a', reason: 'because' }],
    problems: [],
  });
});

test('an unexpected failure, warning or pass is a problem', () => {
  expect(judge(set, results({ id: 'a', status: 'FAILURE' }), [])[0]?.problems).toHaveLength(1);
  expect(judge(set, results({ id: 'a', status: 'WARNING' }), [])[0]?.problems).toHaveLength(1);
  const passes = judge(set, results({ id: 'a', status: 'SUCCESS' }), expected('tools-list:a'));
  expect(passes[0]?.problems).toHaveLength(1);
});

test('an expectation of another requirement set does not count', () => {
  const verdicts = judge('2025-11-25', results({ id: 'a', status: 'FAILURE' }), expected('tools-list:a'));
  expect(verdicts[0]?.problems).toHaveLength(1);
});

test('an expected scenario that did not run is a problem', () => {
  const verdicts = judge(set, results({ id: 'a', status: 'SUCCESS' }), expected('gone:a'));
  expect(verdicts.find(({ scenario }) => scenario === 'gone')?.problems).toHaveLength(1);
});

test('a check that runs twice passes only if both pass', () => {
  const [verdict] = judge(set, results({ id: 'a', status: 'SUCCESS' }, { id: 'a', status: 'FAILURE' }), []);
  expect(verdict).toMatchObject({ passed: 0, problems: [expect.stringContaining('a failed')] });
});
