import { describe, expect, test } from '@jest/globals';
import { parseServers, type ServerLimits } from './parse-servers.js';
import { readServersText } from './servers-text.js';

const limits: ServerLimits = {
  stdioEnabled: true,
  legacySse: false,
  isProduction: false,
  approvalMode: 'guarded',
};

const problemOf = (text: string) => {
  const parsed = parseServers(text, limits);
  return typeof parsed === 'string' ? parsed : `accepted: ${JSON.stringify(parsed.servers)}`;
};
const twice = (line: number) => `line ${line}: a key is written twice in one object; remove one of the two`;

describe('the text of a servers file', () => {
  test.each([
    ['{"servers":\n[{"id":"a","url":"https://h.example/",\n"deny":["x"],\n"deny":[]}]}', 4],
    ['{"servers":[],\n"servers":[]}', 2],
    ['{"servers":[{"id":"a","command":"run",\n"env":{"A":"1",\n"\\u0041":"2"}}]}', 3],
    ['{"servers":[],\r\n// why\r\n"policy":[{"a":1,\r\n"a":1}]}', 4],
    ['{"servers":[{"id":"a",\n"__proto__":1,\n"__proto__":2}]}', 3],
    ['servers:\n  - id: a\n    deny: [x]\n    deny: []\n', 4],
    ['servers: []\nservers: []\n', 2],
    ['servers:\n  - id: a\n    env:\n      1: x\n      "1": y\n', 5],
    ['servers:\n  - id: a\n    env: {A: x,\n      A: y}\n', 4],
    ['servers:\n  - {id: &k a, *k : 1,\n    a: 2}\n', 3],
  ])('G09: a key written twice is rejected with its line: %j', (text, line) => {
    expect(problemOf(text)).toBe(twice(line));
  });

  test.each([
    ['servers: []\n---\nservers: []\n', 2],
    ['{"servers": []}\n---\n{"servers": []}\n', 2],
    ['---\nservers: []\n...\n---\nservers: []\n', 4],
  ])('G09: a second document is rejected with its line: %j', (text, line) => {
    expect(problemOf(text)).toMatch(`line ${line}: a second document begins`);
  });

  test('G09: one key in two objects is no repeat', () => {
    expect(readServersText('{"a": {"x": 1}, "b": {"x": 1}}')).toEqual({
      value: { a: { x: 1 }, b: { x: 1 } },
    });
    expect(readServersText('a: {x: 1}\nb: {x: 1}\n---\n')).toHaveProperty('problem');
    expect(readServersText('---\na: {x: 1}\nb: {x: 1}\n...\n')).toEqual({
      value: { a: { x: 1 }, b: { x: 1 } },
    });
  });

  test('G17: JSON with comments and trailing commas is read', () => {
    const text = `// for staging: "DB_PASSWORD": "hunter2"
{
\t/* all of
\t   them */
\t"servers": [
\t\t{ "id": "a", "command": "run", "args": ["http://x//y", "/* z */"], // last
\t\t  "env": { "A": "1", /* "B": "hunter2" */ }, },
\t],
}`;
    expect(parseServers(text, limits)).toMatchObject({
      servers: [{ id: 'a', transport: { args: ['http://x//y', '/* z */'], env: { A: '1' } } }],
      diagnostics: [],
    });
  });

  test.each([
    '{"servers":[{"id":"a","command":"run","env":{"// \\"DB_PASSWORD\\":\\"hunter2\\"":5}}]}',
    '{"servers":[{"id":"a","command":"run","// hunter2":5}]}',
    '{"servers":[{"id":"a","command":"run","overrides":{"key is hunter2":5}}]}',
    '{"servers":[{"id":"a","url":"https://h.example/","auth":{"bearer_env":"T","x=hunter2":5}}]}',
    '{"servers":[{"id":"a","url":"https://h.example/","credentials":{"per":"principal","module":"m","x=hunter2":5}}]}',
    '{"servers":[{"id":"a","url":"https://h.example/","headers":{"Bearer hunter2":"x"}}]}',
    '{"servers":[{"id":"a","command":"run","env":{"HOLDFAST_ hunter2":"x"}}]}',
    '{"servers":[{"id":"a","command":"run","env":{"HOLDFAST_=hunter2":"x"}}]}',
    '{"servers":[{"id":"a","command":"run","deny":["a__ hunter2"]}]}',
    '{"servers":[{"id":"a","command":"run","auto_approve":["x hunter2"],"requires_approval":["x hunter2"]}]}',
    '{"servers":[{"id":"a","command":"run","env":{"A":"p${w hunter2}d"}}]}',
    '{"servers":[{"id":"a","command":"run","env":{"A":"p${env:hunter2 x}d"}}]}',
    '{"// hunter2": 1, "servers":[]}',
    '{ // "PASSWORD": "hunter2"\n "servers": [], oops }',
    '{ // "PASSWORD": "hunter2",\n "servers": [] "x" }',
    'servers:\n  - id: a\n    command: run\n    "# hunter2": 1\n',
  ])('G17: comments and odd keys are quoted in no message: %s', (text) => {
    const parsed = parseServers(text, limits);
    const told =
      typeof parsed === 'string' ? parsed : parsed.diagnostics.map(({ message }) => message).join();
    expect(told).not.toBe('');
    expect(told).not.toContain('hunter2');
  });

  test('G17: a name that looks like one is quoted', () => {
    expect(JSON.stringify(parseServers('{"servers":[{"id":"a","command":"run","env":{"PORT":null}}]}', limits))).toContain('env.PORT: '); // prettier-ignore
  });

  test.each(['['.repeat(200_000), '{"a":'.repeat(200_000), '['.repeat(9000) + ']'.repeat(9000)])(
    'nested too deeply is rejected and ends nothing',
    (text) => {
      expect(problemOf(text)).not.toContain('accepted');
    },
  );
});
